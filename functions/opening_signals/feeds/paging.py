"""How a feed continues after its first page. Pure: addresses in, addresses out.

A page that looks like the last one ends the feed; page_order judges whether all items came.
"""

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote_plus, urljoin, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field

from opening_signals.errors import FeedError

Parameter = Annotated[str, Field(min_length=1, max_length=100)]
Path = Annotated[str, Field(min_length=1, max_length=200)]


class Paging(BaseModel, ABC):
    """`watched` are the paths outside the items whose values `following` needs."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @property
    def watched(self) -> tuple[str, ...]:
        return ()

    def first(self, url: str) -> str:
        """The address of the first page: adds parameters, and keeps those that are there already."""
        return url

    def total_in(self, values: dict[str, Any]) -> int | None:  # noqa: ARG002
        """How many items there are, as the page states it."""
        return None

    def anchored(self, url: str) -> str | None:  # noqa: ARG002
        """The address that begins one item before this one; None if there is no such address."""
        return None

    @abstractmethod
    def following(self, url: str, items: int, values: dict[str, Any], total: int = 0) -> str | None:
        """The address after this one, which had this many items; None after the last page. `total` is the largest
        that any page stated."""


class OnePage(Paging):
    style: Literal["none"] = "none"

    def following(self, url: str, items: int, values: dict[str, Any], total: int = 0) -> str | None:  # noqa: ARG002
        return None


class ByOffset(Paging):
    """Ends at a short page, or at the total that the feed states."""

    style: Literal["offset"]
    offset: Parameter = "offset"
    limit: Parameter = "limit"
    size: Annotated[int, Field(ge=1, le=50_000)] = 100
    total: Path | None = None

    @property
    def watched(self) -> tuple[str, ...]:
        return (self.total,) if self.total else ()

    def first(self, url: str) -> str:
        return with_default(with_default(url, self.limit, str(self.size)), self.offset, "0")

    def total_in(self, values: dict[str, Any]) -> int | None:
        total = values.get(self.total) if self.total else None
        # Not isinstance, since True is an int.
        return total if type(total) is int else None

    def anchored(self, url: str) -> str | None:
        offset = _number(url, self.offset, 0)
        # A page of one item that begins one earlier would be the same page forever.
        if not offset or _number(url, self.limit, self.size) < 2:
            return None
        return with_value(url, self.offset, str(offset - 1))

    def following(self, url: str, items: int, values: dict[str, Any], total: int = 0) -> str | None:
        offset = _number(url, self.offset, 0)
        reached = offset + items
        total = max(total, self.total_in(values) or 0)
        if not total:
            goes_on = items >= _number(url, self.limit, self.size)
        elif not reached:
            raise FeedError(f"its first page is empty, and it says that it has {total} items")
        else:
            goes_on = items > 0 and reached < total
        return with_value(url, self.offset, str(reached)) if goes_on else None


class ByPage(Paging):
    """Ends at an empty page, or at one shorter than `size` if that is given."""

    style: Literal["page"]
    page: Parameter = "page"
    first_page: Annotated[int, Field(ge=0, le=1)] = 1
    size: Annotated[int, Field(ge=1, le=50_000)] | None = None

    def following(self, url: str, items: int, values: dict[str, Any], total: int = 0) -> str | None:  # noqa: ARG002
        if items < (self.size or 1):
            return None
        return with_value(url, self.page, str(_number(url, self.page, self.first_page) + 1))


class ByNextUrl(Paging):
    """The feed names its next page, which must be on the same host."""

    style: Literal["next"]
    next: Path

    @property
    def watched(self) -> tuple[str, ...]:
        return (self.next,)

    def following(self, url: str, items: int, values: dict[str, Any], total: int = 0) -> str | None:  # noqa: ARG002
        address = values.get(self.next)
        if address in (None, "", False):
            return None
        try:
            after = urljoin(url, address) if isinstance(address, str) else ""
            here, there = urlsplit(url), urlsplit(after)
            usable = (
                there.scheme in ("http", "https") and there.port != 0 and after.isprintable() and " " not in after
            )
        except ValueError:
            usable = False
        if not usable:
            raise FeedError("the address of its next page is invalid")
        if there.hostname != here.hostname or (here.scheme == "https" and there.scheme == "http"):
            raise FeedError("its next page is on another host, or no longer on https")
        if after == url:
            raise FeedError("its next page is the same page again")
        return after


AnyPaging = Annotated[OnePage | ByOffset | ByPage | ByNextUrl, Field(discriminator="style")]


def with_default(url: str, name: str, value: str) -> str:
    """The address with this query parameter added, unless it has one already."""
    return url if _values(url, name) else with_value(url, name, value)


def with_value(url: str, name: str, value: str) -> str:
    """The address with this query parameter set; the others stay as they are written."""
    parts = urlsplit(url)
    others = [pair for pair in parts.query.split("&") if pair and _name(pair) != name]
    query = "&".join([*others, f"{quote(name, safe='$:')}={quote(value, safe='$:*,')}"])
    return urlunsplit(parts._replace(query=query))


def _values(url: str, name: str) -> list[str]:
    return [unquote_plus(pair.partition("=")[2]) for pair in urlsplit(url).query.split("&") if _name(pair) == name]


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


def _number(url: str, name: str, otherwise: int) -> int:
    written = next(iter(_values(url, name)), "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) < 16 else otherwise
