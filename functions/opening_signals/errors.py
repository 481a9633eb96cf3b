"""What may be wrong: the one error a source may end in, and what stands for a value that cannot be used."""

from typing import NamedTuple


class FeedError(Exception):
    """This source gave nothing that can be used; the text says why and holds no address and no secret."""


class Unusable(NamedTuple):
    """In the place of a field that a kind could not read: why, in a few words that many items share."""

    why: str
