"""What a run says about its sources: in the log, and in its error and its hint."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from opening_signals.collect import Collected
from opening_signals.store.source_state import SourceState

# Below the logger whose handler writes our lines, with the fields where that handler looks for them.
_logger = logging.getLogger("cronlease.opening_signals")


def log(request_id: UUID, result: Collected) -> None:
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
    if result.error:
        write(logging.WARNING, f"Source {name} failed: {result.error}", "source_failed", result.cause)


def all_failed(failed: Iterable[Collected], waiting: Sequence[SourceState]) -> str:
    which = "every source that was asked" if waiting else "every source"
    return f"{which} failed: {_listed(failed)}{_resting(waiting)}"


def left_out(sources: int, failed: Sequence[Collected], waiting: Iterable[SourceState]) -> str:
    """What has just failed comes first: it is news, and what follows may be cut off."""
    news = f"{len(failed)} of {sources} sources failed: {_listed(failed)}" if failed else "no source failed anew"
    return f"{news}{_resting(waiting)}"


def hint(results: Iterable[Collected], orphans: str | None) -> str | None:
    """The items that were left out, with the commonest reason of each source, and the sentence about orphans."""
    rejected = [
        f"{result.source.name} {result.rejected.total()} ({result.rejected.most_common(1)[0][0]})"
        for result in results
        if result.rejected
    ]
    sentences = [f"items left out: {'; '.join(rejected)}" if rejected else None, orphans]
    return ". ".join(filter(None, sentences)) or None


def _many(reasons: Counter[str], one: str, more: str) -> str:
    return f"{reasons.total()} {one if reasons.total() == 1 else more}"


def _listed(failed: Iterable[Collected]) -> str:
    return "; ".join(f"{result.source.name} ({result.error})" for result in failed)


def _resting(waiting: Iterable[SourceState]) -> str:
    each = [
        f"{state.name} ({state.last_error}; failures: {state.failures}; until {state.waits_until} UTC)"
        for state in waiting
    ]
    return f". Left alone, because they failed before: {'; '.join(each)}" if each else ""
