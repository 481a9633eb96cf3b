"""How many ids of one feed came more than once. Pure.

Exact except for a chance of 2^-64 per pair, at eight bytes an id: a feed of a million takes 8 MB, and a set of its
ids would take a hundred.
"""

from array import array

_PARTS = 256


class Duplicates:
    """The ids of one feed, told apart by their hashes, in parts that are small enough to become sets."""

    def __init__(self) -> None:
        self._parts = [array("q") for _ in range(_PARTS)]

    def add(self, key: str) -> None:
        hashed = hash(key)
        self._parts[hashed % _PARTS].append(hashed)

    def count(self) -> int:
        """How many ids had been added before."""
        return sum(len(part) - len(set(part)) for part in self._parts)
