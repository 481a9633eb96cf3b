"""What a kind of feed is: how its pages are read, and how one item becomes an opening. Pure: bytes in, openings out.

A reader raises FeedError when the document is not such a feed at all, or not all of it: a board that vanished must
never look like one without openings.
"""

from typing import Any, Protocol

from pydantic import ValidationError

from opening_signals.model import FeedError, Opening, Source

_LONGEST_ITEM = 16 * 1024 * 1024


class Reader(Protocol):
    """Reads one page, pushed in pieces as it arrives; where the pieces are cut makes no difference."""

    def feed(self, chunk: bytes) -> list[Any]:
        """The items that this piece completed."""

    def end(self) -> list[Any]:
        """The last items. FeedError when the page is cut off or never had the marks of its kind."""

    def next_url(self, items_on_page: int) -> str | None:
        """After the end: the address of the next page, or None."""


class Kind(Protocol):
    """One kind of feed. `address` is what the short keys of a source are put in; empty when there is but the url."""

    accept: str
    address: str

    def reader(self, source: Source, url: str) -> Reader: ...

    def opening(self, item: Any, source: Source) -> Opening | None:
        """None when the item is skipped on purpose. ValueError, its `reason` to be counted, when it is no good."""


class Patience:
    """Ends a feed of which no item wants to be complete, before what is kept of it fills the memory."""

    def __init__(self) -> None:
        self._waited = 0

    def spend(self, size: int, *, progress: bool) -> None:
        self._waited = 0 if progress else self._waited + size
        if self._waited > _LONGEST_ITEM:
            raise FeedError(f"went on for more than {_LONGEST_ITEM // 1024**2} MiB without a complete item")


def reason(error: ValueError) -> str:
    """Why an item is no good, in a few words that many items share."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    return f"{field or 'item'}: {first['msg'].removeprefix('Value error, ')}"
