"""When one reading of a source is not enough. Knows nothing of the network or the database.

A board may change while its pages are read (see feeds/page_order). A doubtful reading is repeated once; one whose
pages could not be checked against each other is repeated before it closes anything.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from opening_signals.collected import Collected
from opening_signals.feeds.page_order import REPEATED, RESTLESS


class Reader(Protocol):
    async def read(self) -> Collected:
        """Reads all of it; when that fails, what was read before stands."""

    async def look(self) -> Collected:
        """Reads all of it and keeps nothing."""


async def settle(
    first: Collected, reader: Reader, *, closes: Callable[[], Awaitable[bool]], has_time: bool
) -> Collected:
    """The reading that counts. Where it has a doubt, nothing may be closed. Without time there is no other one."""
    result, confirmed = first, False
    if first.doubt and has_time:
        again = await reader.read()
        if not again.error:
            result, confirmed = again, again.order == first.order
            if confirmed and again.doubt == REPEATED:
                # It was so both times: the feed itself repeats that item.
                again.doubt = None
    needs_another = not (result.error or result.doubt or result.anchored or confirmed)
    if needs_another and await closes():
        other = await reader.look() if has_time else None
        if other is None or other.error or other.order != result.order:
            result.doubt = RESTLESS
    return result
