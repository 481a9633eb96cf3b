"""Hits that share a question: each of them is answered as truly as if it had asked by itself (P34)."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.db.queries import Query
from cronlease.job import Hit, Job
from cronlease.observe import logs
from cronlease.outcome import Outcome, SkipReason, Status
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.integration.conftest import NAME, Room
from tests.proxy import proxied

T = TypeVar("T")


class Watched(Database):
    """A real database that counts the questions for a lease, and can hold their answers back."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.questions = 0
        self.answered = 0
        self.asked_by: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def ask(self, query: Query[T]) -> T:
        if "acquire_refresh_lock" not in query.text:
            return await super().ask(query)
        self.questions += 1
        self.asked_by.append(str(query.params["p_request_id"]))
        gate = self.open
        answer = await super().ask(query)
        self.answered += 1
        await gate.wait()
        return answer

    async def until(self, questions: int) -> None:
        async with asyncio.timeout(10):
            while self.questions < questions:
                await asyncio.sleep(0.001)

    async def until_answered(self, answers: int) -> None:
        async with asyncio.timeout(10):
            while self.answered < answers:
                await asyncio.sleep(0.001)


class Hits:
    """Hits of one process at one function."""

    def __init__(self, database: Database, job: Callable[[Any], Any], **environment: str) -> None:
        self._database = database
        self._settings = load({f"CRONLEASE_{name.upper()}": value for name, value in environment.items()})
        self._job = Job.of(job, self._settings, name=NAME)

    def start(self, hit: Hit | None = None, request_id: UUID | None = None) -> asyncio.Task[Outcome]:
        run = run_once(self._job, hit or Hit(), self._database, self._settings, request_id=request_id)
        return asyncio.ensure_future(run)

    async def __call__(self, count: int) -> list[Outcome]:
        return await asyncio.gather(*(self.start() for _ in range(count)))


def play(room: Room, scenario: Callable[[Watched], Awaitable[None]]) -> None:
    async def played() -> None:
        database = Watched(room.dsn)
        try:
            await scenario(database)
        finally:
            await database.close()

    asyncio.run(played())


async def nothing(run: Run) -> None: ...


async def slow(run: Run) -> None:
    await asyncio.sleep(0.2)


def reasons(outcomes: list[Outcome]) -> list[SkipReason | None]:
    return [outcome.skipped for outcome in outcomes]


def test_a_storm_at_a_due_row_is_one_run_and_two_questions(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, slow)
        await hits(1)
        room.query("update refresh_schedule set next_run_at = now()")
        database.questions = 0
        outcomes = await hits(100)
        assert reasons(outcomes).count(None) == 1
        assert reasons(outcomes).count(SkipReason.LOCKED) == 99
        assert database.questions <= 2
        assert len({outcome.request_id for outcome in outcomes}) == 100
        (ran,) = [outcome for outcome in outcomes if outcome.skipped is None]
        assert ran.status is Status.SUCCESS
        assert {outcome.locked_until is not None for outcome in outcomes if outcome.skipped} == {True}

    play(room, scenario)
    assert room.runs() == ["success", "success"]


def test_a_skip_is_everybodys(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        database.questions = 0
        outcomes = await hits(100)
        assert set(reasons(outcomes)) == {SkipReason.NOT_DUE}
        assert len({outcome.next_run_at for outcome in outcomes}) == 1
        assert database.questions <= 2

    play(room, scenario)


def test_a_hit_is_never_answered_by_a_question_that_was_sent_before_it_came(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        database.answered = 0
        database.open.clear()
        early = hits.start()
        await database.until_answered(1)
        # Its answer is on the way. Only now does the row come due.
        room.query("update refresh_schedule set next_run_at = now() - interval '1 s'")
        late = hits.start()
        await asyncio.sleep(0)
        database.open.set()
        assert (await early).skipped is SkipReason.NOT_DUE
        assert (await late).status is Status.SUCCESS

    play(room, scenario)


@pytest.mark.parametrize(
    "hit", [Hit(force=True), Hit(args={"a": 1}), Hit("http", delivery="another")], ids=["force", "args", "delivery"]
)
def test_a_hit_that_asks_for_something_else_asks_for_itself(room: Room, hit: Hit) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing, every="hit")
        await hits(1)
        database.questions = 0
        database.open.clear()
        tasks = [hits.start(), hits.start(hit), hits.start(hit._replace(delivery="a third"))]
        await database.until(3)
        database.open.set()
        await asyncio.gather(*tasks)

    play(room, scenario)


def test_a_claim_whose_hit_is_gone_is_released_and_the_others_ask_again(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        room.query("update refresh_schedule set next_run_at = now() - interval '1 s'")
        database.questions = 0
        database.open.clear()
        first, *others = [hits.start() for _ in range(10)]
        await database.until(1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        database.open.set()
        outcomes = await asyncio.gather(*others)
        assert reasons(outcomes).count(None) == 1, reasons(outcomes)
        assert set(reasons(outcomes)) == {None, SkipReason.LOCKED}

    play(room, scenario)
    assert room.row("locked_by, failures") == (None, 0)


def test_those_who_waited_with_a_hit_that_is_gone_ask_again(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        database.questions = 0
        database.open.clear()
        answered = database.answered
        blocker = hits.start()
        async with asyncio.timeout(10):
            # Only then does it wait at the gate that is opened below.
            while database.answered == answered:
                await asyncio.sleep(0.001)
        room.query("update refresh_schedule set next_run_at = now() - interval '1 s'")
        together = [hits.start() for _ in range(10)]
        await asyncio.sleep(0)
        held, database.open = database.open, asyncio.Event()
        held.set()
        assert (await blocker).skipped is SkipReason.NOT_DUE
        await database.until(2)
        together[0].cancel()
        database.open.set()
        outcomes = await asyncio.gather(*together[1:])
        assert reasons(outcomes).count(None) == 1, reasons(outcomes)
        assert database.questions >= 3

    play(room, scenario)
    assert room.row("locked_by, failures") == (None, 0)


def test_a_run_goes_on_when_the_hit_that_started_it_is_cancelled(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def job(run: Run) -> None:
            started.set()
            await may_end.wait()

        hit = Hits(database, job).start()
        await started.wait()
        hit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hit
        assert (await Hits(database, nothing).start()).skipped is SkipReason.LOCKED
        may_end.set()
        async with asyncio.timeout(10):
            while room.runs() != ["success"]:
                await asyncio.sleep(0.01)

    play(room, scenario)
    assert room.row("locked_by") == (None,)


def test_a_hit_that_left_before_its_question_was_sent_is_not_asked_for(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        database.questions = 0
        database.open.clear()
        gone = uuid4()
        first, second, third = hits.start(), hits.start(request_id=gone), hits.start()
        await database.until(1)
        second.cancel()
        database.open.set()
        assert (await third).skipped is SkipReason.NOT_DUE
        assert (await first).skipped is SkipReason.NOT_DUE
        assert second.cancelled()
        assert str(gone) not in database.asked_by

    play(room, scenario)


def test_a_slow_answer_holds_back_the_next_question_for_a_moment_only(room: Room) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, nothing)
        await hits(1)
        database.questions = 0
        database.open.clear()
        first = hits.start()
        await database.until(1)
        others = [hits.start() for _ in range(5)]
        # Sent though the first one's answer is still not there.
        await database.until(2)
        database.open.set()
        assert set(reasons(await asyncio.gather(first, *others))) == {SkipReason.NOT_DUE}

    play(room, scenario)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self.setFormatter(logs.JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    handler = Lines()
    monkeypatch.setattr(logs.logger, "handlers", [handler])
    monkeypatch.setattr(logs.logger, "level", logging.DEBUG)
    return handler.lines


@pytest.mark.parametrize("way", ["refused", "silent"])
def test_a_question_that_fails_answers_everybody_within_the_time_limit(
    room: Room, lines: list[dict[str, Any]], way: str
) -> None:
    with proxied(room.dsn) as proxy:

        async def scenario() -> None:
            database = Database(proxy.dsn)
            hits = Hits(database, nothing, acquire_timeout="1s")
            await hits(1)
            if way == "silent":
                proxy.silent = True
            else:
                room.query("alter function acquire_refresh_lock rename to gone")
            lines.clear()
            began = time.monotonic()
            outcomes = await hits(20)
            assert time.monotonic() - began < 2.5
            assert set(reasons(outcomes)) == {SkipReason.SCHEDULE_READ_ERROR}
            told = [line["request_id"] for line in lines if line["severity"] == "ERROR"]
            assert sorted(told) == sorted(str(outcome.request_id) for outcome in outcomes)
            await database.close()

        asyncio.run(scenario())


def test_every_hit_logs_its_own_line(room: Room, lines: list[dict[str, Any]]) -> None:
    async def scenario(database: Watched) -> None:
        hits = Hits(database, slow)
        outcomes = await hits(20)
        skipped = {str(outcome.request_id) for outcome in outcomes if outcome.skipped}
        told = [line["request_id"] for line in lines if line["action"] == "run_skipped"]
        assert (len(told), set(told)) == (19, skipped)

    play(room, scenario)
