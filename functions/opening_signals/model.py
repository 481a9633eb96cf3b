"""What a source and an opening are, and when an opening counts as changed. Pure: no network, no database.

What cannot be stored never becomes an Opening, so that one bad item cannot fail a whole COPY.
"""

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints

from opening_signals.spec import Feed
from opening_signals.trouble import FeedError as FeedError

_DEEPEST = 100
_LONGEST_PAYLOAD = 1_000_000
_YEARS = range(1970, 2101)
# An escaped NUL, and not the end of an escaped backslash. Postgres has no NUL in text or jsonb.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_STORABLE = r"^[^\x00]*$"
# No other scheme: whoever shows the opening makes a link of it.
_LINK = r"^(?i:https?)://[^\s/?#\x00][^\s\x00]*$"
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be printable")
    return value


def _reachable(value: str) -> str:
    """The value is not repeated: an address may hold a secret."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isprintable() or " " in value:
        raise ValueError("must be an http or https address")
    return value


def _moment(value: Any) -> Any:
    """A time, or one as ISO 8601 writes it, in UTC, and UTC where it says no zone."""
    if not isinstance(value, str | datetime):
        return value
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError("must be a time as ISO 8601 writes it") from None
    if moment.year not in _YEARS:
        raise ValueError(f"must be a year from {_YEARS[0]} to {_YEARS[-1]}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _string(longest: int, pattern: str = _STORABLE) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=longest, pattern=pattern)


# Source and external_id make the primary key: at four bytes a character, both together still fit an index entry.
Name = Annotated[str, _string(100), AfterValidator(_printable)]
Key = Annotated[str, _string(500)]
Text = Annotated[str, _string(1000)]
MaybeText = Annotated[Text | None, BeforeValidator(_blank_is_none)]
Address = Annotated[str, _string(2000), AfterValidator(_reachable)]
MaybeLink = Annotated[Annotated[str, _string(2000, _LINK)] | None, BeforeValidator(_blank_is_none)]
MaybeMoment = Annotated[datetime | None, BeforeValidator(_moment), BeforeValidator(_blank_is_none)]


class Source(BaseModel):
    """One [[source]] of the sources file, its short keys already made an address. Feed is what the file says of a
    JSON feed; without it, it is what the kind's preset says."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: Name
    kind: str
    url: Address
    organization: MaybeText = None
    allow_private: bool = False
    feed: Feed | None = None


class Opening(NamedTuple):
    """What a feed says of one opening, fit to be stored. A bare tuple, in the order of the staging table's columns:
    there may be very many of them. Made by `of`, which is what makes it fit."""

    external_id: str
    title: str
    organization: str | None
    location: str | None
    url: str | None
    posted_at: datetime | None
    payload: str
    content_hash: bytes

    @classmethod
    def of(cls, item: Any, **fields: Any) -> "Opening":
        """The opening with these fields and the item as its payload; ValueError when it cannot be stored."""
        good = _Fields(**fields)
        payload = canonical(item)
        said = (good.title, good.organization, good.location, good.url, good.posted_at, payload)
        return cls(good.external_id, *said, content_hash(*said))


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    external_id: Key
    title: Text
    organization: MaybeText = None
    location: MaybeText = None
    url: MaybeLink = None
    posted_at: MaybeMoment = None


def content_hash(*said: str | datetime | None) -> bytes:
    """Equal exactly when all that is stored is equal: none of it holds a NUL, and none of it is an empty text."""
    parts = (part.isoformat() if isinstance(part, datetime) else part or "" for part in said)
    return hashlib.sha256("\0".join(parts).encode()).digest()


def canonical(item: Any) -> str:
    """The item as JSON, keys sorted; ValueError for what jsonb cannot hold or nobody should want to."""
    try:
        text = _encode(item)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the item holds a lone surrogate or is not UTF-8") from None
    except ValueError:
        raise ValueError("the item holds a number that is none") from None
    except RecursionError:
        raise ValueError("the item is nested too deep") from None
    if len(text) > _LONGEST_PAYLOAD:
        raise ValueError("the item is too large")
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise ValueError("the item holds a NUL")
    # Counting brackets is cheap and mostly enough; only a suspect is walked.
    if text.count("{") + text.count("[") > _DEEPEST and _is_deeper(item, _DEEPEST):
        raise ValueError("the item is nested too deep")
    return text


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
