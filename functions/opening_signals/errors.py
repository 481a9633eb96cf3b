"""The error that a source ends in, and the placeholder for a value that cannot be used."""

from typing import NamedTuple


class FeedError(Exception):
    """The source failed; the text says why and holds no address and no secret. `wait` is how many seconds the source
    asked to be left alone; `is_silent` means that its host did not answer at all; `is_asked` is false when the page
    was not requested."""

    def __init__(
        self, text: str, *, wait: float | None = None, is_silent: bool = False, is_asked: bool = True
    ) -> None:
        super().__init__(text)
        self.wait = wait
        self.is_silent = is_silent
        self.is_asked = is_asked


class EmptyFeedError(FeedError):
    """The feed has no items, like a board that does not exist; a board that has answered before may be empty."""


class Unusable(NamedTuple):
    """Replaces a field that a kind could not read: why, in a few words that many items share."""

    why: str
