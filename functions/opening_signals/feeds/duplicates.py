"""How many ids of one feed came more than once, and how many of them on more than one page. Pure.

Exact except for a chance of 2^-64 per pair, at eight bytes an id: a feed of a million takes 8 MB, where a set of its
ids would take a hundred.
"""

from array import array

_PARTS = 256


class Duplicates:
    """The hashes of a feed's ids, in parts small enough to become sets. `within_pages` counts ids that came again on
    the same page."""

    def __init__(self) -> None:
        self._parts = [array("q") for _ in range(_PARTS)]
        self._page_begins_at = [0] * _PARTS
        self.within_pages = 0

    def add(self, key: str) -> None:
        hashed = hash(key)
        self._parts[hashed % _PARTS].append(hashed)

    def end_page(self) -> None:
        """The next id is on another page."""
        for number, part in enumerate(self._parts):
            if len(part) - self._page_begins_at[number] > 1:
                page = part[self._page_begins_at[number] :]
                self.within_pages += len(page) - len(set(page))
            self._page_begins_at[number] = len(part)

    def count(self) -> int:
        """How many of the added ids had been added before."""
        return sum(len(part) - len(set(part)) for part in self._parts)
