"""What may be wrong: the one error a source may end in, and what stands for a value that cannot be used."""

from typing import NamedTuple


class FeedError(Exception):
    """This source gave nothing that can be used; the text says why and holds no address and no secret. `wait` is how
    many seconds the source asked to be left alone; `is_silent` when its host did not answer at all; `is_asked` is
    false when the page was not even asked for."""

    def __init__(
        self, text: str, *, wait: float | None = None, is_silent: bool = False, is_asked: bool = True
    ) -> None:
        super().__init__(text)
        self.wait = wait
        self.is_silent = is_silent
        self.is_asked = is_asked


class EmptyFeedError(FeedError):
    """It has no items, as a board that is not there; one that was there before may have been emptied."""


class Unusable(NamedTuple):
    """In the place of a field that a kind could not read: why, in a few words that many items share."""

    why: str
