"""The job's settings in the environment. Read at each call, not at import."""

import os
from datetime import timedelta

from cronlease.cadence import duration

AT_ONCE = 8
PER_HOST = 2
RETENTION = timedelta(days=30)
_MOST_AT_ONCE = 64


class SettingError(ValueError):
    """A setting that a person must correct; the text is one sentence."""


def sources_file() -> str | None:
    return os.environ.get("CRONLEASE_SOURCES")


def at_once() -> int:
    """How many sources are fetched at the same time."""
    return _count("CRONLEASE_SOURCES_AT_ONCE", AT_ONCE)


def per_host() -> int:
    """How many sources of one host are fetched at the same time."""
    return _count("CRONLEASE_PER_HOST", PER_HOST)


def retention() -> timedelta:
    """How long changes are kept: as long as runs. The mechanism has rejected an invalid duration already."""
    written = os.environ.get("CRONLEASE_RETENTION", "").strip()
    return duration(written) if written else RETENTION


def _count(name: str, otherwise: int) -> int:
    written = os.environ.get(name, "").strip()
    if not written:
        return otherwise
    if not (written.isascii() and written.isdecimal() and len(written) < 4 and 1 <= int(written) <= _MOST_AT_ONCE):
        raise SettingError(f"{name}: {written[:20]!r} is not a whole number from 1 to {_MOST_AT_ONCE}")
    return int(written)
