"""The formats of times in feeds: ISO 8601, a count since 1970, or a strptime format. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Any

from opening_signals.errors import Unusable

ISO = "iso"
DATE = "date"
_COUNTS = {"epoch_ms": timedelta(milliseconds=1), "epoch_s": timedelta(seconds=1)}
_WORDS = (ISO, DATE, *_COUNTS)
_SAMPLE = datetime(2026, 11, 16, 5, 30, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def date_format(written: str) -> str:
    """The date format if it is valid; otherwise a ValueError that names the valid ones."""
    if written in _WORDS:
        return written
    try:
        datetime.strptime(_SAMPLE.strftime(written), written)
        usable = "%" in written
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"must be {', '.join(_WORDS)} or a strptime format such as %Y-%m-%d %H:%M:%S UTC")
    return written


def moment(value: Any, written: str) -> Any:
    """The time in UTC, or Unusable. Returns ISO 8601 texts as they are: sanitize reads those."""
    if (
        value is None
        or written == ISO
        or isinstance(value, Unusable)
        or (isinstance(value, str) and not value.strip())
    ):
        return value
    if written in _COUNTS:
        return _counted(value, _COUNTS[written])
    try:
        time = datetime.strptime(value.strip(), "%Y-%m-%d" if written == DATE else written)
    except (ValueError, AttributeError):
        return Unusable(f"is not a time written as {written}")
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _counted(value: Any, unit: timedelta) -> datetime | Unusable:
    if isinstance(value, str) and value.strip().isdecimal():
        value = float(value)
    # Not isinstance, since True is an int.
    if type(value) not in (int, float):
        return Unusable("is not a number")
    try:
        return _EPOCH + unit * float(value)
    except (OverflowError, ValueError):
        return Unusable("is not a time")
