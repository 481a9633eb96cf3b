"""One thing that `cronlease doctor` has looked at: how it is, and what mends it."""

from typing import NamedTuple

OK, WARNING, BROKEN = "ok", "warning", "broken"


class Finding(NamedTuple):
    """The fix is one sentence; what is in order has none."""

    check: str
    level: str
    said: str
    fix: str | None = None


def ok(check: str, said: str) -> Finding:
    return Finding(check, OK, said)


def warning(check: str, said: str, fix: str) -> Finding:
    return Finding(check, WARNING, said, fix)


def broken(check: str, said: str, fix: str) -> Finding:
    return Finding(check, BROKEN, said, fix)
