"""A kind of feed: how its pages are read, and how an item becomes an opening. Pure: bytes in, openings out.

A reader raises FeedError when the document is not such a feed or is incomplete: a board that vanished must never look
like one without openings.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

from opening_signals.errors import FeedError, Unusable
from opening_signals.feeds.model import Opening, Source

# The most that an item may cost while it is built: its characters, and NODE for each value. Any value may take 300
# bytes as a Python object.
MOST_COST = 1024**2
NODE = 50
# Replaces an item that cost more, of which nothing is kept.
TOO_LARGE = Unusable(f"is larger than 1 MiB, or has more than {MOST_COST // NODE:,} values")
_PIECE = 64 * 1024
_LONGEST_WAIT = 16 * 1024 * 1024


class Reader(ABC):
    """Reads one page in chunks as it arrives; it does not matter where the chunks begin and end."""

    _waited = 0

    def feed(self, chunk: bytes) -> list[Any]:
        """The items that this chunk completes."""
        # In small pieces: the parser's events take a hundred times the memory of their bytes.
        items: list[Any] = []
        for start in range(0, len(chunk), _PIECE):
            piece = chunk[start : start + _PIECE]
            completed = self.push(piece)
            items += completed
            # Reading on without a complete item costs time, though little memory.
            self._waited = 0 if completed else self._waited + len(piece)
            if self._waited > _LONGEST_WAIT:
                raise FeedError(f"went on for more than {_LONGEST_WAIT // 1024**2} MiB without a complete item")
        return items

    @abstractmethod
    def push(self, piece: bytes, *, final: bool = False) -> list[Any]:
        """The items that this piece completes."""

    @abstractmethod
    def end(self) -> list[Any]:
        """The last items. Raises FeedError when the page is cut off or lacks the marks of its kind."""

    @property
    def total(self) -> int | None:
        """After the end: the number of items on all pages, as this page states it."""
        return None

    def next_url(self, items_on_page: int, total: int = 0) -> str | None:  # noqa: ARG002
        """After the end: the address of the next page, or None. `total` is the largest that any page stated."""
        return None

    def anchored(self, url: str) -> str | None:  # noqa: ARG002
        """The address of a page that begins one item before that one; None if there is no such address."""
        return None


class Kind(Protocol):
    """One kind of feed. `address` is the template for the short keys of a source; empty if there is only `url`."""

    accept: str
    address: str

    def reader(self, source: Source, url: str) -> Reader: ...

    def reading(self, source: Source) -> str:
        """A text of all that decides how the feed is read: when it changes, the feed is asked for all of its items
        again, changed or not. For a kind in code, a version that changes with the code."""

    def opening(self, item: Any, source: Source, repairs: list[str]) -> Opening | None:
        """The opening, or None when the item is skipped on purpose. Raises ValueError to reject the item, and adds
        the reasons for repairs to `repairs`."""


def fields_of(item: Any, otherwise: str) -> dict[str, Any]:
    """The item, which must have fields; raises ValueError if it has none."""
    if isinstance(item, dict):
        return item
    raise ValueError(f"item: {item.why if isinstance(item, Unusable) else otherwise}")


def reason(error: ValueError) -> str:
    """Why an item is rejected, in a few words that many items share."""
    # Errors of libraries may hold values of the item.
    return str(error) if type(error) is ValueError else f"item: cannot be read ({type(error).__name__})"
