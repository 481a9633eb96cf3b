"""What a kind of feed is: how its pages are read, and how one item becomes an opening. Pure: bytes in, openings out.

A reader raises FeedError when the document is not such a feed at all, or not all of it: a board that vanished must
never look like one without openings.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

from opening_signals.errors import FeedError, Unusable
from opening_signals.feeds.model import Opening, Source

# What an item may cost while it is built: its characters, and NODE for each value. A value may take 300 bytes as a
# Python object, whatever is in it.
MOST_COST = 1024**2
NODE = 50
# In the place of an item that cost more. Nothing of it was kept.
TOO_LARGE = Unusable(f"is larger than 1 MiB, or has more than {MOST_COST // NODE:,} values")
_PIECE = 64 * 1024
_LONGEST_WAIT = 16 * 1024 * 1024


class Reader(ABC):
    """Reads one page, pushed in chunks as it arrives; where it is cut makes no difference."""

    _waited = 0

    def feed(self, chunk: bytes) -> list[Any]:
        """The items that this chunk completed."""
        # In small pieces: the parser's events for one take a hundred times its room.
        items: list[Any] = []
        for start in range(0, len(chunk), _PIECE):
            piece = chunk[start : start + _PIECE]
            completed = self.push(piece)
            items += completed
            # Reading on without completing an item costs time, though little memory.
            self._waited = 0 if completed else self._waited + len(piece)
            if self._waited > _LONGEST_WAIT:
                raise FeedError(f"went on for more than {_LONGEST_WAIT // 1024**2} MiB without a complete item")
        return items

    @abstractmethod
    def push(self, piece: bytes, *, final: bool = False) -> list[Any]:
        """The items that this piece completed."""

    @abstractmethod
    def end(self) -> list[Any]:
        """The last items. FeedError when the page is cut off or never had the marks of its kind."""

    @property
    def total(self) -> int | None:
        """After the end: how many items the page says that there are on all pages."""
        return None

    def next_url(self, items_on_page: int, total: int = 0) -> str | None:  # noqa: ARG002
        """After the end: the address of the next page, or None. `total` is the largest that any page said."""
        return None

    def anchored(self, url: str) -> str | None:  # noqa: ARG002
        """The address of a page that begins one item before that one; None where there is no such address."""
        return None


class Kind(Protocol):
    """One kind of feed. `address` is what the short keys of a source are put in; empty when there is but the url."""

    accept: str
    address: str

    def reader(self, source: Source, url: str) -> Reader: ...

    def reading(self, source: Source) -> str:
        """Whatever decides how the feed is read, as a text: when it is another one than last time, the feed is asked
        for all of its items again, changed or not. Of a kind that is code, a word that changes with the code."""

    def opening(self, item: Any, source: Source, repairs: list[str]) -> Opening | None:
        """None when the item is skipped on purpose. ValueError, its `reason` to be counted, when it is no good;
        `repairs` gets the reasons of what had to be left out or repaired."""


def fields_of(item: Any, otherwise: str) -> dict[str, Any]:
    """The item, which must have fields; ValueError says why it has none."""
    if isinstance(item, dict):
        return item
    raise ValueError(f"item: {item.why if isinstance(item, Unusable) else otherwise}")


def reason(error: ValueError) -> str:
    """Why an item is no good, in a few words that many items share."""
    # What others raise may hold a value of the item.
    return str(error) if type(error) is ValueError else f"item: cannot be read ({type(error).__name__})"
