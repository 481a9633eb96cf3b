"""One thing that `cronlease doctor` has looked at: how it is, and what mends it."""

from typing import NamedTuple

OK, INFO, WARNING, BROKEN = "ok", "info", "warning", "broken"


class Finding(NamedTuple):
    """The fix is one sentence; what is in order, or was not looked at (info), has none."""

    check: str
    level: str
    said: str
    fix: str | None = None


def ok(check: str, said: str) -> Finding:
    return Finding(check, OK, said)


def info(check: str, said: str) -> Finding:
    return Finding(check, INFO, said)


def warning(check: str, said: str, fix: str) -> Finding:
    return Finding(check, WARNING, said, fix)


def broken(check: str, said: str, fix: str) -> Finding:
    return Finding(check, BROKEN, said, fix)
