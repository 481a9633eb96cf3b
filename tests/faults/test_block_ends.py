"""P29: a job cannot end its own fence, and no answer says that nothing was written where something was."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from cronlease import Run
from cronlease.db import guard
from cronlease.db.statements import transaction_control
from cronlease.outcome import FailReason, Outcome
from cronlease.run import transaction
from cronlease.sqlalchemy import session_on
from tests.faults.block_ends import ASYNC, PLAIN, STATEMENTS, VERBS
from tests.faults.profile import Profile
from tests.integration.conftest import NAME, Room

TAKE_OVER = f"""
set lock_timeout = '20ms';
update refresh_schedule set locked_by = null, locked_until = null;
select * from acquire_refresh_lock('{NAME}', gen_random_uuid(), p_force => true);
update prices set price = 200;
"""


@pytest.fixture
def prices(room: Room) -> None:
    room.query("create table prices (price int); insert into prices values (0)")


@contextmanager
def unguarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As it was before there was a guard: whatever a job sends is sent, and any transaction may finish the run."""
    with monkeypatch.context() as patch:
        patch.setattr(guard.Lent, "inspect", lambda *_: None)
        patch.setattr(guard.Lent, "_own", lambda *_: None)
        patch.setattr(guard.Lent, "_check_connection_ok", psycopg.Connection._check_connection_ok)
        patch.setattr(transaction, "only_in", lambda _, query: query)
        yield


def taken_over(room: Room) -> bool:
    """Whether another run could take the lease and write its price."""
    try:
        room.query(TAKE_OVER)
    except psycopg.errors.LockNotAvailable:
        return False
    return True


class Tried:
    """What came of the tries of one run, each of which another run tries to use."""

    def __init__(self, room: Room) -> None:
        self._other = psycopg.connect(room.dsn, autocommit=True)
        self.refused = 0
        self.not_refused: list[str] = []

    def note(self, what: str, error: psycopg.Error | Exception | None) -> None:
        locked = self._other.execute("select from refresh_schedule for update skip locked").fetchall() == []
        if locked and "is refused inside run.commit()" in str(error):
            self.refused += 1
        else:
            self.not_refused.append(f"{what}: {error}, and the fence {'holds' if locked else 'is gone'}")

    def close(self) -> None:
        self._other.close()


def every_plain_try(room: Room) -> tuple[Tried, Outcome]:
    tried = Tried(room)

    def job(run: Run) -> None:
        with run.commit() as conn:
            tries: list[tuple[str, Callable[[], Any]]] = [
                (f"{way} {text}", lambda does=does, text=text: does(conn, text))  # type: ignore[misc]
                for way, does in PLAIN.items()
                for text in STATEMENTS
            ]
            tries += [(f"conn.{verb}", lambda does=does: does(conn)) for verb, does in VERBS.items()]  # type: ignore[misc]
            for what, does in tries:
                try:
                    does()
                except Exception as error:
                    tried.note(what, error)
                else:
                    tried.note(what, None)
            conn.execute("update prices set price = 1")

    outcome = room.enter(job)
    tried.close()
    return tried, outcome


def every_async_try(room: Room) -> tuple[Tried, Outcome]:
    tried = Tried(room)

    async def job(run: Run) -> None:
        async with run.commit() as conn:
            tries: list[tuple[str, Callable[[], Any]]] = [
                (f"{way} {text}", lambda does=does, text=text: does(conn, text))  # type: ignore[misc]
                for way, does in ASYNC.items()
                for text in STATEMENTS
            ]
            tries += [(f"conn.{verb}", lambda does=does: does(conn)) for verb, does in VERBS.items()]  # type: ignore[misc]
            for what, does in tries:
                try:
                    await does()
                except Exception as error:
                    tried.note(what, error)
                else:
                    tried.note(what, None)
            await conn.execute("update prices set price = 1")

    outcome = room.enter(job)
    tried.close()
    return tried, outcome


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("every_try", [every_plain_try, every_async_try])
def test_every_statement_and_verb_is_refused_in_every_way(room: Room, profile: Profile, every_try: Any) -> None:
    tried, outcome = every_try(room)
    total = len(PLAIN) * len(STATEMENTS) + len(VERBS)
    profile.record("P29", tried.refused, total, not_refused=tried.not_refused[:5])
    assert outcome.error is None, "the block goes on after a refusal, and commits"
    assert room.query("select price from prices") == [(1,)]


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("every_try", [every_plain_try, every_async_try])
def test_without_the_guard_the_fence_falls(room: Room, monkeypatch: pytest.MonkeyPatch, every_try: Any) -> None:
    with unguarded(monkeypatch):
        tried, _ = every_try(room)
    prepared = "select gid from pg_prepared_xacts where database = current_database()"
    for (gid,) in room.query(prepared):
        # It would keep the database from being dropped.
        room.query(f"rollback prepared '{gid}'")
    assert any("the fence is gone" in seen for seen in tried.not_refused)


def job_of_the_issue(room: Room, ends: Callable[[Any, Any], None], took: list[bool]) -> Callable[[Run], None]:
    """Writes 1, ends its transaction, is taken over by a run that writes 200, writes 100, and ends it again."""

    def job(run: Run) -> None:
        with run.commit() as conn:
            ends(conn, "update prices set price = 1")
            took.append(taken_over(room))
            ends(conn, "update prices set price = 100")

    return job


def by_verb(conn: Any, text: str) -> None:
    conn.execute(text)
    try:
        conn.commit()
    except psycopg.ProgrammingError:
        return


def by_statement(conn: Any, text: str) -> None:
    try:
        conn.execute(f"{text}; commit; begin")
    except psycopg.ProgrammingError:
        conn.execute(text)


def by_session(conn: Any, text: str) -> None:
    from sqlalchemy import text as statement

    with session_on(conn) as session:
        session.execute(statement(text))
        session.commit()


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("ends", [by_verb, by_statement, by_session])
def test_nobody_takes_over_a_run_that_tries_to_commit_by_itself(room: Room, profile: Profile, ends: Any) -> None:
    took: list[bool] = []
    outcome = room.enter(job_of_the_issue(room, ends, took))
    kept = took == [False] and outcome.error is None and room.query("select price from prices") == [(100,)]
    profile.record("P29 takeover", int(kept), 1)


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("ends", [by_verb, by_statement])
def test_without_the_guard_a_stale_run_overwrites_its_successor(
    room: Room, monkeypatch: pytest.MonkeyPatch, ends: Any
) -> None:
    took: list[bool] = []
    with unguarded(monkeypatch):
        room.enter(job_of_the_issue(room, ends, took))
    assert (took, room.query("select price from prices")) == ([True], [(100,)])


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("error", [None, ValueError("no luck")])
@pytest.mark.parametrize("ending", ["commit", "commit; begin", "rollback; begin"])
def test_what_gets_past_the_guard_fails_the_run_and_is_told(
    room: Room, profile: Profile, ending: str, error: Exception | None
) -> None:
    """On the raw pgconn, which nobody watches."""

    def job(run: Run) -> None:
        with run.commit() as conn:
            conn.pgconn.exec_(f"update prices set price = 1; {ending}".encode())
            assert taken_over(room)
            conn.pgconn.exec_(b"update prices set price = 100")
            if error is not None:
                raise error

    outcome = room.enter(job)
    ((price,),) = room.query("select price from prices")
    told = str(outcome.error)
    truly = {
        "it is not ok": outcome.failed is FailReason.LEASE_LOST,
        "only what was committed outside of any block is stale": price == (100 if ending == "commit" else 200),
        "what stands is said to stand": "stands" in told if "commit" in ending else True,
        "nothing is said to be unwritten that was written": "commit" not in ending or "nothing of it" not in told,
    }
    profile.record("P29 raw", sum(truly.values()), len(truly), told=told, price=price)


# What the server's lexer and ours must read alike.
OPENING = ("'", "e'", "E'a'\n'", "b'", '1 "', "$$", "$a$", "1 /*", "1 /* /*", "1 --", "1 ", "case when true then ")
INNER = ("'", "''", "\\", "\\'", '"', "$$", "$a$", "\n", "--", "/*", "*/", ";", " commit", " end", "1", " as case")
CLOSING = ("'", '"', "$$", "$a$", "*/", "*/ */", "\n", "", " end")
BODY = "create or replace function f() returns int begin atomic {}; end"


def random_text(rng: random.Random) -> str:
    inner = "".join(rng.choice(INNER) for _ in range(rng.randint(0, 3)))
    text = f"select {rng.choice(OPENING)}{inner}{rng.choice(CLOSING)}"
    if rng.random() < 0.2:
        text = BODY.format(text)
    return text + rng.choice(("", ";commit", "; commit --'", "; /* */ end", ";savepoint a; rollback to a"))


@pytest.mark.timeout(900)
def test_just_the_texts_that_end_a_transaction_are_refused(conn: psycopg.Connection, profile: Profile) -> None:
    """Random texts, read by ours and then by the server itself."""
    rng: random.Random = profile.random("P29 texts")
    ran = misread = 0
    for _ in range(profile.n("P29 texts")):
        text = random_text(rng)
        conn.execute("begin")
        before = conn.execute("select pg_current_xact_id()::text").fetchone()
        conn.pgconn.exec_(text.encode())
        if conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            conn.execute("rollback")
            continue
        ran += 1
        after = conn.execute("select pg_current_xact_id_if_assigned()::text").fetchone()
        misread += (after != before) != (transaction_control(text.encode()) is not None)
        conn.execute("rollback")
    profile.record("P29 texts", ran - misread, ran)
    assert ran > profile.n("P29 texts") / 10
