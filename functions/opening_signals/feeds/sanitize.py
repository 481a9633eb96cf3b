"""Makes the fields of one opening storable. Pure; knows nothing of kinds.

An item is rejected only for an unusable id or title: any other field is left out or cut, and the reason is noted. An
id is never repaired: two that differ must not become one.
"""

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from opening_signals.errors import Unusable

LONGEST_KEY = 500
LONGEST_TEXT = 1000
LONGEST_LINK = 2000
BROKEN_TEXT = "text: invalid characters were removed"
_DEEPEST = 100
_LONGEST_PAYLOAD = 1_000_000
_YEARS = range(1970, 2101)
# Postgres stores neither NUL nor half a surrogate pair, in text or jsonb.
_BROKEN = re.compile("[\0\ud800-\udfff]")
# An escaped NUL, not the end of an escaped backslash.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# No other scheme: readers turn it into a link.
_LINK = re.compile(r"(?i:https?)://[^\s/?#][^\s]*")
_YES = ("true", "yes", "remote", "fully_remote", "telecommute")
_NO = ("false", "no", "on-site", "onsite", "on_site", "hybrid", "office")
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def key(value: Any) -> str:
    """The id; ValueError when it cannot be used."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("external_id: is missing")
    if not isinstance(value, str):
        raise ValueError(f"external_id: {_why(value, 'is neither a text nor a whole number')}")
    if _is_broken(value):
        raise ValueError("external_id: holds invalid characters")
    stripped: str = value.strip()
    if len(stripped) > LONGEST_KEY:
        raise ValueError(f"external_id: is longer than {LONGEST_KEY} characters")
    return stripped


def title(value: Any, repairs: list[str]) -> str:
    """The title; ValueError when it is missing."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"title: {_why(value, 'is not a text')}")
    shown = text("title", value, repairs)
    if shown is None:
        raise ValueError("title: is missing")
    return shown


def text(name: str, value: Any, repairs: list[str]) -> str | None:
    """A text of bounded length; None for a blank one."""
    if value is None:
        return None
    if not isinstance(value, str):
        _leave_out(name, _why(value, "is not a text"), repairs)
        return None
    value = _whole(value, repairs).strip()
    if len(value) > LONGEST_TEXT:
        repairs.append(f"{name}: was cut to {LONGEST_TEXT} characters")
        value = value[:LONGEST_TEXT].rstrip()
    return value or None


def link(value: Any, repairs: list[str]) -> str | None:
    """An address for people. Never repaired: half an address leads elsewhere."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        why = _why(value, "is not a text")
    elif _is_broken(value := value.strip()):
        why = "holds invalid characters"
    elif len(value) > LONGEST_LINK:
        why = f"is longer than {LONGEST_LINK} characters"
    elif value and not _LINK.fullmatch(value):
        why = "is not an http or https address"
    else:
        return value or None
    _leave_out("url", why, repairs)
    return None


def moment(value: Any, repairs: list[str]) -> datetime | None:
    """A datetime or an ISO 8601 text as UTC. A time without a zone is read as UTC."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    except (ValueError, AttributeError):
        _leave_out("posted_at", _why(value, "is not an ISO 8601 time"), repairs)
        return None
    if time.year not in _YEARS:
        _leave_out("posted_at", f"is not in the years {_YEARS[0]} to {_YEARS[-1]}", repairs)
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def flag(name: str, value: Any, repairs: list[str]) -> bool | None:
    """Yes, no or unknown: a boolean, or one of the words that feeds use for it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _YES else False if word in _NO else None
    _leave_out(name, _why(value, "is neither true nor false"), repairs)
    return None


def payload(item: Any, repairs: list[str]) -> str:
    """The item as JSON with sorted keys, without what jsonb cannot hold; `{}` for an item that is too large or too
    deep."""
    try:
        return canonical(item)
    except ValueError:
        pass
    try:
        return canonical(_repaired(item, repairs, 0))
    except ValueError as error:
        repairs.append(f"payload: {error}, and was left out")
        return "{}"


def canonical(item: Any) -> str:
    """The item as JSON with sorted keys; ValueError if jsonb cannot hold it, or if it is too large or too deep."""
    try:
        text = _encode(item)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate or is not UTF-8") from None
    except ValueError:
        raise ValueError("holds NaN or an infinity") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    if len(text) > _LONGEST_PAYLOAD:
        raise ValueError("is too large")
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise ValueError("holds a NUL")
    # Counting brackets is cheap and mostly enough; only then is the item walked.
    if text.count("{") + text.count("[") > _DEEPEST and _is_deeper(item, _DEEPEST):
        raise ValueError("is nested too deep")
    return text


def _repaired(item: Any, repairs: list[str], depth: int) -> Any:
    """The item with the invalid characters of its texts removed, and null for NaN and infinity."""
    if depth > _DEEPEST:
        raise ValueError("is nested too deep")
    if isinstance(item, str):
        return _whole(item, repairs)
    if isinstance(item, float) and not math.isfinite(item):
        _note("payload: held NaN or an infinity", repairs)
        return None
    if isinstance(item, list):
        return [_repaired(each, repairs, depth + 1) for each in item]
    if isinstance(item, dict):
        return {_repaired(name, repairs, depth): _repaired(value, repairs, depth + 1) for name, value in item.items()}
    return item


def _is_deeper(item: Any, levels: int) -> bool:
    level = [item]
    for _ in range(levels):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _is_broken(value: str) -> bool:
    # Invalid characters are not printable, and isprintable() is faster than a search.
    return not value.isprintable() and _BROKEN.search(value) is not None


def _whole(value: str, repairs: list[str]) -> str:
    if not _is_broken(value):
        return value
    _note(BROKEN_TEXT, repairs)
    return _BROKEN.sub("", value)


def _note(reason: str, repairs: list[str]) -> None:
    """Notes a reason once per item."""
    if reason not in repairs:
        repairs.append(reason)


def _leave_out(name: str, why: str, repairs: list[str]) -> None:
    repairs.append(f"{name}: {why}, and was left out")


def _why(value: Any, otherwise: str) -> str:
    return value.why if isinstance(value, Unusable) else otherwise
