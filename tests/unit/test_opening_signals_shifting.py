"""A board that changes while its pages are read: no opening that was there all the time is ever missed unnoticed.

The board is a model behind a transport; all else is the real thing, from the request to the reading that counts.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

from opening_signals.collect import collect
from opening_signals.feeds.model import Opening, Source
from opening_signals.feeds.page_order import MOVED, REPEATED, RESTLESS
from opening_signals.http.fetch import Validators
from opening_signals.readings import settle
from opening_signals.source_result import SourceResult
from opening_signals.sources_file import load
from tests.faults import profile

KINDS = {
    "offset": '{ style = "offset", size = %d }',
    "total": '{ style = "offset", size = %d, total = "total" }',
    "page": '{ style = "page", size = %d }',
    "next": '{ style = "next", next = "next" }',
}


class Body(httpx2.AsyncByteStream):
    def __init__(self, document: Any) -> None:
        self._document = document

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield json.dumps(self._document).encode()


class Board(httpx2.AsyncBaseTransport):
    """A list of items that changes before each answer but the first as `change` does; it remembers which items were
    there all the time."""

    def __init__(
        self, items: list[str], size: int, change: Callable[["Board"], object], *, rounds: bool = False
    ) -> None:
        self.items = items
        self.always = set(items)
        self.answers = 0
        self._size = size
        self._change = change
        self._rounds = rounds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.answers:
            self._change(self)
        self.answers += 1
        self.always &= set(self.items)
        asked = {name: int(value) for name, value in parse_qsl(request.url.query.decode())}
        start = asked.get("offset", (asked.get("page", 1) - 1) * self._size)
        if self._rounds:
            start -= start % self._size
        document: dict[str, Any] = {
            "items": [{"id": each, "title": "Baker"} for each in self.items[start:][: self._size]]
        }
        document["total"] = len(self.items)
        if start + self._size < len(self.items):
            document["next"] = f"?page={start // self._size + 2}"
        return httpx2.Response(200, stream=Body(document))


class Readings:
    """The readings of a board, and the ids that each had."""

    def __init__(self, board: Board, source: Source) -> None:
        self._board = board
        self._source = source
        self.seen: set[str] = set()

    async def read(self) -> SourceResult:
        seen: set[str] = set()
        result = await self._collect(seen)
        if not result.error:
            self.seen = seen
        return result

    async def read_without_staging(self) -> SourceResult:
        return await self._collect(set())

    async def _collect(self, seen: set[str]) -> SourceResult:
        async def take(page: list[Opening]) -> None:
            seen.update(opening.external_id for opening in page)

        async with httpx2.AsyncClient(transport=self._board) as http:
            until = asyncio.get_running_loop().time() + 50
            return await collect(http, self._source, validators=Validators(), take=take, until=until)


async def settled(board: Board, source: Source, *, known: set[str] | None = None) -> tuple[SourceResult, set[str]]:
    """The reading that counts and what it saw, of a board of which these openings are known, or all that it had."""
    known = set(board.items) if known is None else known
    readings = Readings(board, source)

    async def closes() -> bool:
        return not known <= readings.seen

    result = await settle(await readings.read(), readings, closes=closes, has_time=True)
    return result, readings.seen


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Source]:
    """By style and size of its pages."""
    path = tmp_path_factory.mktemp("sources") / "sources.toml"
    named = [(style, size) for style in KINDS for size in (2, 3, 5)]
    path.write_text(
        "\n".join(
            f'[[source]]\nname = "{style} {size}"\nkind = "json"\nurl = "https://boards.example/jobs"\n'
            f'items = "items.item"\npaging = {KINDS[style] % size if "%" in KINDS[style] else KINDS[style]}\n'
            '[source.fields]\nexternal_id = "id"\ntitle = "title"\n'
            for style, size in named
        )
    )
    return dict(zip(named, load(str(path)), strict=True))


def shaken(draw: random.Random, often: float) -> Callable[[Board], None]:
    """Inserts and withdraws, now and then, anywhere; what is withdrawn does not return."""

    def change(board: Board) -> None:
        for _ in range(draw.choice((1, 1, 2, 3))):
            if draw.random() < often:
                if draw.random() < 0.5 and board.items:
                    board.items.pop(draw.randrange(len(board.items)))
                else:
                    board.items.insert(draw.randint(0, len(board.items)), f"new {draw.random()}")

    return change


@pytest.mark.timeout(900)
def test_no_opening_that_was_there_all_the_time_is_closed(
    sources: dict[tuple[str, int], Source], pytestconfig: pytest.Config
) -> None:
    known = profile.of(pytestconfig)
    draw, histories = known.random("paging"), known.n("paging")
    sure = kept = 0

    async def run() -> None:
        nonlocal sure, kept
        for number in range(histories):
            style, size = draw.choice(list(sources))
            items = [f"{number}/{each}" for each in range(draw.randint(1, 5 * size))]
            # One is gone since the last run: every history has something to close.
            board = Board(items, size, shaken(draw, draw.choice((0.05, 0.3, 0.9))), rounds=draw.random() < 0.1)
            result, seen = await settled(board, sources[style, size], known={*items, "gone"})
            is_sure = not (result.error or result.doubt)
            sure += is_sure
            kept += not is_sure or board.always <= seen

    asyncio.run(run())
    known.record("paging", kept, histories, sure=sure)
    # Else it would prove nothing.
    assert sure > histories / 5


def once(change: Callable[[list[str]], object]) -> Callable[[Board], object]:
    """The change happens before the second answer, and the board rests from then on."""
    return lambda board: board.answers == 1 and change(board.items)


@pytest.mark.parametrize("style", KINDS)
def test_what_moves_during_the_first_reading_is_right_in_the_second(
    sources: dict[tuple[str, int], Source], style: str
) -> None:
    board = Board([str(number) for number in range(12)], 5, once(lambda items: items.pop(0)))
    result, seen = asyncio.run(settled(board, sources[style, 5]))
    if style in ("offset", "total"):
        assert (result.doubt, seen) == (None, board.always)
    else:
        # Without a mark of what moved, the reading before it closes something is compared with another.
        assert result.doubt == RESTLESS


@pytest.mark.parametrize("style", KINDS)
def test_a_board_that_moves_all_the_time_is_doubted_and_read_no_more_than_three_times(
    sources: dict[tuple[str, int], Source], style: str
) -> None:
    board = Board([str(number) for number in range(40)], 5, lambda board: board.items.pop(0))
    result, _ = asyncio.run(settled(board, sources[style, 5]))
    assert result.doubt is not None
    assert board.answers < 3 * 12


@pytest.mark.parametrize("style", KINDS)
def test_a_board_at_rest_is_sure_and_read_once(sources: dict[tuple[str, int], Source], style: str) -> None:
    board = Board([str(number) for number in range(12)], 5, lambda _: None)
    result, seen = asyncio.run(settled(board, sources[style, 5]))
    assert (result.error, result.doubt, seen) == (None, None, board.always)
    assert board.answers <= 4


def test_a_server_that_rounds_offsets_down_is_read_as_it_needs_it(sources: dict[tuple[str, int], Source]) -> None:
    board = Board([str(number) for number in range(12)], 5, lambda _: None, rounds=True)
    result, seen = asyncio.run(settled(board, sources["offset", 5], known={"gone"}))
    assert (result.error, result.doubt, seen) == (None, None, board.always)


def served(source: Source, *pages: Any) -> SourceResult:
    """How a source does whose pages are these."""
    left = list(pages)

    async def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Body(left.pop(0)))

    async def take(_: list[Opening]) -> None: ...

    async def read() -> SourceResult:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            until = asyncio.get_running_loop().time() + 20
            return await collect(http, source, validators=Validators(), take=take, until=until)

    return asyncio.run(read())


def page(*ids: int, **more: Any) -> dict[str, Any]:
    return {"items": [{"id": str(each), "title": "Baker"} for each in ids]} | more


def test_what_makes_a_reading_doubtful(sources: dict[tuple[str, int], Source]) -> None:
    counted, numbered, plain = sources["total", 3], sources["page", 3], sources["offset", 3]
    assert served(counted, page(1, 2, 3, total=4), page(3, 4, total=4)).doubt is None
    changed = served(counted, page(1, 2, 3, total=5), page(3, 4, total=4), page(4, total=4))
    assert changed.doubt == "only 4 of 5 items came"
    changed = served(counted, page(1, 2, 3, total=4), page(3, 4, 5, total=5))
    assert changed.doubt == "its total changed from 4 to 5 while it was read"
    assert (
        served(counted, page(1, 2, 3, total=9), page(3, 4, total=9), page(4, total=9)).doubt
        == "only 4 of 9 items came"
    )
    assert served(plain, page(1, 2, 3), page(4, 5)).doubt == MOVED
    assert served(plain, page(1, 2, 3), page()).doubt == MOVED
    assert served(numbered, page(1, 2, 3), page(3, 4)).doubt == REPEATED
    # An id that comes again on its own page is only a mistake of the feed.
    assert served(numbered, page(1, 1, 3), page(4)).doubt is None


def test_a_total_that_is_0_on_later_pages_counts_as_the_first_said(sources: dict[tuple[str, int], Source]) -> None:
    result = served(sources["total", 3], page(1, 2, 3, total=6), page(3, 4, 5, total=0), page(5, 6, total=0))
    assert (result.error, result.doubt, result.openings) == (None, None, 6)


def test_a_repeated_item_is_not_the_same_page_again(sources: dict[tuple[str, int], Source]) -> None:
    result = served(sources["page", 3], page(1, 2, 3), page(1, 4, 5), page(1, 6))
    assert (result.error, result.openings) == (None, 6)
    result = served(sources["page", 3], page(1, 2, 3), page(1, 2, 3))
    assert result.error == "its next page is the same page again"
