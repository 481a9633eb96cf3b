"""When one reading of a source is not enough. Knows nothing of the network or the database.

A board may change while its pages are read (see feeds/page_order). A doubtful reading is repeated once. A reading
whose pages could not be checked against each other is repeated before it closes anything.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from opening_signals.feeds.page_order import REPEATED, RESTLESS
from opening_signals.source_result import SourceResult


class Reader(Protocol):
    async def read(self) -> SourceResult:
        """Reads the source again; when that fails, the earlier reading stands."""

    async def read_without_staging(self) -> SourceResult:
        """Reads the source again only to compare."""


async def settle(
    first: SourceResult, reader: Reader, *, closes: Callable[[], Awaitable[bool]], has_time: bool
) -> SourceResult:
    """The reading that counts. One with a doubt may close nothing. Without `has_time` there is no second reading."""
    result, confirmed = first, False
    if first.doubt and has_time:
        again = await reader.read()
        if not again.error:
            result, confirmed = again, again.order == first.order
            if confirmed and again.doubt == REPEATED:
                # Both readings have it: the feed itself repeats that item.
                again.doubt = None
    needs_another = not (result.error or result.doubt or result.anchored or confirmed)
    if needs_another and await closes():
        other = await reader.read_without_staging() if has_time else None
        if other is None or other.error or other.order != result.order:
            result.doubt = RESTLESS
    return result
