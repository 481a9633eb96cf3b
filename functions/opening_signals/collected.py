"""How one source did in a run. A value; knows nothing of the network or the database."""

from collections import Counter
from dataclasses import dataclass, field

from opening_signals.feeds.model import Source
from opening_signals.http.fetch import Validators

DUPLICATE = "external_id: came again, and the last one counts"


@dataclass(slots=True)
class Collected:
    """How far one source came. Without an error all of it was taken, or nothing has changed since the validators.
    `items` counts those of the feed. `rejected` counts those that were left out, by reason, and `repaired` what was
    corrected in the others: an item once for each of its reasons, and each item whose id came again later. `cause` is
    set only for an unforeseen error.

    `doubt` says why some of its items may not have been seen, if so: then nothing may be closed. `order` is equal for
    two readings whose pages were; a reading that is not `anchored` needs a second one before it closes anything.
    `wait` is how many seconds its host asked to be left alone, and `is_silent` when that host did not answer."""

    source: Source
    asked: bool = False
    status: int | None = None
    pages: int = 0
    items: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    not_modified: bool = False
    validators: Validators = field(default_factory=Validators)
    error: str | None = None
    cause: Exception | None = None
    seconds: float = 0.0
    doubt: str | None = None
    order: tuple[int, ...] = ()
    anchored: bool = True
    wait: float | None = None
    is_silent: bool = False

    @property
    def openings(self) -> int:
        """How many there are, each counted once."""
        return self.items - self.skipped - self.rejected.total() - self.repaired[DUPLICATE]
