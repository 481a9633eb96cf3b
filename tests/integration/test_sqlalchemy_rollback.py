"""In a session of a fenced block a rollback undoes, wherever it is called: on the connection, the engine, another
session. What is neither committed nor rolled back is undone, too."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from cronlease import Run
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.sqlalchemy import session_on
from tests.integration.conftest import Room

ADD = text("insert into prices values ('undone')")
KEEP = text("insert into prices values ('kept')")


@pytest.fixture(autouse=True)
def _table(room: Room) -> None:
    room.query("create table prices (name text)")


def prices(room: Room) -> list[str]:
    return [name for (name,) in room.query("select name from prices order by name")]


def run_plain(room: Room, does: Callable[[Session], None]) -> Outcome:
    def job(run: Run) -> None:
        with run.commit() as conn, session_on(conn) as session:
            does(session)

    return room.enter(job)


def run_async(room: Room, does: Callable[[AsyncSession], Any]) -> Outcome:
    async def job(run: Run) -> None:
        async with run.commit() as conn, session_on(conn) as session:
            await does(session)

    return room.enter(job)


def on_the_connection(session: Session) -> None:
    session.execute(ADD)
    session.connection().rollback()


def on_a_kept_connection(session: Session) -> None:
    connection = session.connection()
    connection.execute(ADD)
    connection.rollback()


def on_the_bind(session: Session) -> None:
    session.execute(ADD)
    session.get_bind().rollback()  # type: ignore[union-attr]


def on_the_transaction(session: Session) -> None:
    session.execute(ADD)
    transaction = session.connection().get_transaction()
    assert transaction is not None
    transaction.rollback()


def on_the_savepoint(session: Session) -> None:
    session.execute(ADD)
    transaction = session.connection().get_nested_transaction()
    assert transaction is not None
    transaction.rollback()


def of_the_engine(session: Session) -> None:
    with session.get_bind().engine.connect() as connection:
        connection.execute(ADD)
        connection.rollback()


def of_the_engine_and_never_committed(session: Session) -> None:
    with session.get_bind().engine.connect() as connection:
        connection.execute(ADD)


def of_the_engine_by_an_error(session: Session) -> None:
    with suppress(ValueError), session.get_bind().engine.begin() as connection:
        connection.execute(ADD)
        raise ValueError("no luck")


def of_a_session_on_the_connection(session: Session) -> None:
    with Session(session.get_bind()) as another:
        another.execute(ADD)
        another.rollback()


def of_a_session_on_the_connection_that_is_closed(session: Session) -> None:
    with Session(session.get_bind()) as another:
        another.execute(ADD)


def of_a_session_on_the_engine(session: Session) -> None:
    with Session(session.get_bind().engine) as another:
        another.execute(ADD)
        another.rollback()


def of_a_session_on_the_engine_that_is_closed(session: Session) -> None:
    with Session(session.get_bind().engine) as another:
        another.execute(ADD)


# After these the session itself cannot go on, as in any other SQLAlchemy session.
UNDER_THE_SESSION = (
    on_the_connection,
    on_a_kept_connection,
    on_the_bind,
    on_the_transaction,
    on_the_savepoint,
)
BESIDE_THE_SESSION = (
    of_the_engine,
    of_the_engine_and_never_committed,
    of_the_engine_by_an_error,
    of_a_session_on_the_connection,
    of_a_session_on_the_connection_that_is_closed,
    of_a_session_on_the_engine,
    of_a_session_on_the_engine_that_is_closed,
)


@pytest.mark.parametrize("way", UNDER_THE_SESSION)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_rollback_under_the_session_is_never_a_commit(
    room: Room, way: Callable[[Session], None], is_async: bool
) -> None:
    outcome = run_async(room, lambda session: session.run_sync(way)) if is_async else run_plain(room, way)
    assert prices(room) == [], outcome


@pytest.mark.parametrize("way", BESIDE_THE_SESSION)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_rollback_beside_the_session_undoes_its_own_part(
    room: Room, way: Callable[[Session], None], is_async: bool
) -> None:
    def does(session: Session) -> None:
        session.execute(KEEP)
        way(session)
        session.commit()

    outcome = run_async(room, lambda session: session.run_sync(does)) if is_async else run_plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == ["kept"]


def test_what_others_on_the_engine_commit_is_committed_with_the_block(room: Room) -> None:
    def does(session: Session) -> None:
        engine = session.get_bind().engine
        with engine.begin() as connection:
            connection.execute(KEEP)
        with engine.connect() as connection:
            connection.execute(KEEP)
            connection.commit()
            connection.execute(ADD)
            connection.rollback()
        with Session(engine) as another, another.begin():
            another.execute(KEEP)
        with Session(session.get_bind()) as another:
            another.execute(KEEP)
            another.commit()
        assert prices(room) == []

    outcome = run_plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == ["kept"] * 4


def test_after_a_rollback_under_it_the_session_says_that_it_cannot_go_on(room: Room) -> None:
    def does(session: Session) -> None:
        on_the_connection(session)
        with pytest.raises(InvalidRequestError):
            session.execute(KEEP)

    run_plain(room, does)
    assert prices(room) == []


def test_connections_that_do_not_nest_are_told_so(room: Room) -> None:
    def does(session: Session) -> None:
        engine = session.get_bind().engine
        with engine.connect() as first, engine.connect() as second:
            first.execute(KEEP)
            second.execute(KEEP)
            first.commit()
            second.commit()

    outcome = run_plain(room, does)
    assert outcome.failed is FailReason.FAILED
    assert "so they nest" in str(outcome.error)
    assert prices(room) == []


def test_a_two_phase_transaction_is_refused(room: Room) -> None:
    def does(session: Session) -> None:
        with session.get_bind().engine.connect() as connection, pytest.raises(ProgrammingError, match="two-phase"):
            connection.begin_twophase()

    run_plain(room, does)
    assert prices(room) == []


def test_a_connection_without_a_block_is_refused_in_one_sentence(room: Room) -> None:
    def job(run: Run) -> None:
        with run.connection() as conn, session_on(conn):
            pass

    assert "needs the connection of run.commit()" in str(room.enter(job).error)
