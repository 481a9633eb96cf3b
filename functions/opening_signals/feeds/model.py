"""A source and an opening, and when an opening counts as changed. Pure.

An item that cannot be stored never becomes an Opening, so that one bad item cannot fail a whole COPY.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints

from opening_signals.feeds import sanitize
from opening_signals.feeds.spec import Feed

_STORABLE = r"^[^\x00]*$"


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be printable")
    return value


def _reachable(value: str) -> str:
    """The error does not repeat the value: an address may hold a secret."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isprintable() or " " in value:
        raise ValueError("must be an http or https address")
    return value


def _string(longest: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=longest, pattern=_STORABLE)


# Source and external_id are the primary key: at four bytes a character, both together still fit an index entry.
Name = Annotated[str, _string(100), AfterValidator(_printable)]
MaybeText = Annotated[Annotated[str, _string(sanitize.LONGEST_TEXT)] | None, BeforeValidator(_blank_is_none)]
Address = Annotated[str, _string(sanitize.LONGEST_LINK), AfterValidator(_reachable)]


class Source(BaseModel):
    """One [[source]] of the sources file, with an address in place of its short keys. `feed` describes a JSON feed;
    without it the kind's preset does."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: Name
    kind: str
    url: Address
    organization: MaybeText = None
    allow_private: bool = False
    feed: Feed | None = None


class Opening(NamedTuple):
    """One opening, made storable by `of`. A bare tuple in the order of the staging table's columns: there may be very
    many of them."""

    external_id: str
    title: str
    organization: str | None
    location: str | None
    url: str | None
    posted_at: datetime | None
    department: str | None
    remote: bool | None
    payload: str
    content_hash: bytes
    payload_hash: bytes

    @classmethod
    def of(
        cls,
        item: Any,
        repairs: list[str] | None = None,
        *,
        external_id: Any,
        title: Any,
        organization: Any = None,
        location: Any = None,
        url: Any = None,
        posted_at: Any = None,
        department: Any = None,
        remote: Any = None,
    ) -> "Opening":
        """The opening with these fields and the item as its payload. Each repair adds its reason to `repairs`. Raises
        ValueError without a usable id or title."""
        repairs = [] if repairs is None else repairs
        key = sanitize.key(external_id)
        shown = (
            sanitize.title(title, repairs),
            sanitize.text("organization", organization, repairs),
            sanitize.text("location", location, repairs),
            sanitize.link(url, repairs),
            sanitize.moment(posted_at, repairs),
            sanitize.text("department", department, repairs),
            sanitize.flag("remote", remote, repairs),
        )
        payload = sanitize.payload(item, repairs)
        return cls(key, *shown, payload, content_hash(*shown), payload_hash(payload))


def content_hash(*shown: str | datetime | bool | None) -> bytes:
    """Equal exactly when all shown fields are equal: none of them holds a NUL, and none is an empty text."""
    parts = ("" if part is None else part if isinstance(part, str) else _written(part) for part in shown)
    return hashlib.sha256("\0".join(parts).encode()).digest()


def payload_hash(payload: str) -> bytes:
    """Apart from the content hash: boards touch their items every day, and a new payload is not a change."""
    return hashlib.blake2b(payload.encode(), digest_size=16).digest()


def _written(value: datetime | bool) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
