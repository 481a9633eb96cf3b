"""One result of `cronlease doctor`: what is right or wrong, and how to fix it."""

from typing import NamedTuple

OK, INFO, WARNING, BROKEN = "ok", "info", "warning", "broken"


class Finding(NamedTuple):
    """`said` and `fix` are one sentence each; only a warning and something broken have a fix."""

    check: str
    level: str
    said: str
    fix: str | None = None


def ok(check: str, sentence: str) -> Finding:
    return Finding(check, OK, sentence)


def info(check: str, sentence: str) -> Finding:
    return Finding(check, INFO, sentence)


def warning(check: str, sentence: str, fix: str) -> Finding:
    return Finding(check, WARNING, sentence, fix)


def broken(check: str, sentence: str, fix: str) -> Finding:
    return Finding(check, BROKEN, sentence, fix)
