"""The result of one source in a run. A value; knows nothing of the network or the database."""

from collections import Counter
from dataclasses import dataclass, field

from opening_signals.feeds.model import Source
from opening_signals.http.fetch import Validators

DUPLICATE = "external_id: came again, and the last one counts"


@dataclass(slots=True)
class SourceResult:
    """Without an `error` the source was read to its end, or it has not changed since the validators. `items` counts
    those of the feed. `rejected` counts, by reason, the items that were left out; `repaired` counts what was repaired
    in the others: an item once for each of its reasons, and each item whose id came again later. Only an unexpected
    error has a `cause`.

    `doubt` says why items may have been missed: then nothing may be closed. Two readings with equal pages have an
    equal `order`; a reading that is not `anchored` needs a second one before it closes anything. `wait` is how many
    seconds the host asked to be left alone; `is_silent` means that it did not answer."""

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
        """The number of distinct openings."""
        return self.items - self.skipped - self.rejected.total() - self.repaired[DUPLICATE]
