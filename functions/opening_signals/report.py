"""What a run reports about its sources: in the log, in its error and in its hint."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from opening_signals.source_result import SourceResult
from opening_signals.store.source_state import SourceState

# A child of the logger whose handler writes our lines; the handler reads the fields from `cronlease_fields`.
_logger = logging.getLogger("cronlease.opening_signals")
# `cronlease sources status` lists the others.
_MOST_NAMED = 10


def log(request_id: UUID, result: SourceResult) -> None:
    name = result.source.name

    def write(level: int, message: str, action: str, cause: Exception | None = None, **reasons: Any) -> None:
        fields = {"action": action, "source": name, "request_id": str(request_id), **reasons}
        _logger.log(level, message, exc_info=cause, extra={"cronlease_fields": fields})

    if result.repaired:
        message = f"Source {name}: {_many(result.repaired, 'repair', 'repairs')}"
        write(logging.INFO, message, "items_repaired", repaired=dict(result.repaired))
    if result.rejected:
        message = f"Source {name}: {_many(result.rejected, 'item was', 'items were')} left out"
        write(logging.WARNING, message, "items_rejected", rejected=dict(result.rejected))
    if result.error and result.asked:
        write(logging.WARNING, f"Source {name} failed: {result.error}", "source_failed", result.cause)


def all_failed(results: Iterable[SourceResult], waiting: Sequence[SourceState]) -> str:
    failed, not_asked = _sorted(results)
    which = "every source that was asked" if waiting or not_asked else "every source"
    news = f"{which} failed: {_listed(failed)}" if failed else "no source was asked"
    return f"{news}{_not_asked(not_asked)}{_resting(waiting)}"


def incomplete(
    sources: int, results: Iterable[SourceResult], waiting: Sequence[SourceState], doubts: Mapping[str, str]
) -> str | None:
    """Why the run is partial; None if it is complete. New failures come first, since the rest may be cut off."""
    failed, not_asked = _sorted(results)
    if not (failed or not_asked or waiting or doubts):
        return None
    news = f"{len(failed)} of {sources} sources failed: {_listed(failed)}" if failed else "no source failed anew"
    return f"{news}{_doubted(doubts)}{_not_asked(not_asked)}{_resting(waiting)}"


def hint(results: Iterable[SourceResult], orphans: str | None) -> str | None:
    """The items that were left out, with the commonest reason of each source; the sources that closed nothing because
    items may have been missed; and the sentence about orphans."""
    results = list(results)
    rejected = [
        f"{result.source.name} {result.rejected.total()} ({result.rejected.most_common(1)[0][0]})"
        for result in results
        if result.rejected
    ]
    unsure = [f"{result.source.name} ({result.doubt})" for result in results if result.doubt and not result.error]
    sentences = [
        f"items left out: {_some(rejected)}" if rejected else None,
        f"nothing was closed of {_some(unsure)}" if unsure else None,
        orphans,
    ]
    return ". ".join(filter(None, sentences)) or None


def _sorted(results: Iterable[SourceResult]) -> tuple[list[SourceResult], list[SourceResult]]:
    """The sources that failed, and those that were not asked, which is not a failure."""
    without = [result for result in results if result.error]
    return [each for each in without if each.asked], [each for each in without if not each.asked]


def _many(reasons: Counter[str], one: str, more: str) -> str:
    return f"{reasons.total()} {one if reasons.total() == 1 else more}"


def _some(named: Sequence[str]) -> str:
    """The first ten, and how many more there are."""
    more = f"; and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return f"{'; '.join(named[:_MOST_NAMED])}{more}"


def _listed(results: Iterable[SourceResult]) -> str:
    return _some([f"{result.source.name} ({result.error})" for result in results])


def _doubted(doubts: Mapping[str, str]) -> str:
    each = [f"{name} ({why})" for name, why in doubts.items()]
    return f". Doubted, and closed when another run gets the same answer: {_some(each)}" if each else ""


def _not_asked(results: Sequence[SourceResult]) -> str:
    return f". Not asked: {_listed(results)}" if results else ""


def _resting(waiting: Iterable[SourceState]) -> str:
    each = [
        f"{state.name} ({state.last_error}; failures: {state.failures}; until {state.waits_until} UTC)"
        for state in waiting
    ]
    return f". Left alone, because they failed before: {_some(each)}" if each else ""
