"""What the environment says to the job. Read when it is needed: a job is not started, it is called."""

import os

AT_ONCE = 8
_MOST_AT_ONCE = 64


class SettingError(ValueError):
    """A setting that a person must correct; the text is one sentence."""


def sources_file() -> str | None:
    return os.environ.get("CRONLEASE_SOURCES")


def at_once() -> int:
    """How many sources are fetched at the same time."""
    written = os.environ.get("CRONLEASE_SOURCES_AT_ONCE", "").strip()
    if not written:
        return AT_ONCE
    if not (written.isascii() and written.isdecimal() and len(written) < 4 and 1 <= int(written) <= _MOST_AT_ONCE):
        shown = written[:20]
        raise SettingError(f"CRONLEASE_SOURCES_AT_ONCE: {shown!r} is not a whole number from 1 to {_MOST_AT_ONCE}")
    return int(written)
