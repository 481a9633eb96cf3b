"""A session that is left with changes which nobody committed fails the run; reads and a rollback are no changes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import String, delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from cronlease import Run
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.sqlalchemy import session_on
from tests.faults.profile import one_in
from tests.integration.conftest import Room

FORGOTTEN = "the session has changes that were not committed: call session.commit() before leaving the block"


class Base(DeclarativeBase):
    pass


class Price(Base):
    __tablename__ = "prices"
    name: Mapped[str] = mapped_column(String, primary_key=True)
    price: Mapped[int] = mapped_column(default=1)


@pytest.fixture(autouse=True)
def _table(room: Room) -> None:
    room.query("create table prices (name text primary key, price int not null default 1)")
    room.query("insert into prices values ('old', 1)")


def old(session: Session) -> Price:
    return session.scalars(select(Price).where(Price.name == "old")).one()


def a_statement(session: Session) -> None:
    session.execute(text("update prices set price = 2"))


def a_statement_of_the_orm(session: Session) -> None:
    session.execute(update(Price).values(price=2))


def many_rows(session: Session) -> None:
    session.execute(insert(Price), [{"name": "new", "price": 1}, {"name": "newer", "price": 1}])


def a_change_inside_a_select(session: Session) -> None:
    gone = delete(Price).returning(Price.name).cte("gone")
    assert session.scalars(select(gone.c.name)).all() == ["old"]


def a_table(session: Session) -> None:
    session.execute(text("create table more (name text)"))


def a_new_object(session: Session) -> None:
    session.add(Price(name="new"))


def a_changed_object(session: Session) -> None:
    old(session).price = 2


def a_deleted_object(session: Session) -> None:
    session.delete(old(session))


def a_flush(session: Session) -> None:
    session.add(Price(name="new"))
    session.flush()


def a_change_on_its_connection(session: Session) -> None:
    session.connection().execute(text("update prices set price = 2"))


def a_savepoint_that_was_released(session: Session) -> None:
    with session.begin_nested():
        session.add(Price(name="new"))


def a_change_before_a_savepoint_that_was_rolled_back(session: Session) -> None:
    a_statement(session)
    session.begin_nested().rollback()


def a_change_after_a_commit(session: Session) -> None:
    session.add(Price(name="committed"))
    session.commit()
    a_statement(session)


FORGETFUL = (
    a_statement,
    a_statement_of_the_orm,
    many_rows,
    a_change_inside_a_select,
    a_table,
    a_new_object,
    a_changed_object,
    a_deleted_object,
    a_flush,
    a_change_on_its_connection,
    a_savepoint_that_was_released,
    a_change_before_a_savepoint_that_was_rolled_back,
    a_change_after_a_commit,
)


def nothing(_: Session) -> None:
    pass


def reads(session: Session) -> None:
    assert old(session).price == 1
    assert session.scalar(text("select count(*) from prices")) == 1
    assert session.scalar(text("with one as (select 1 as n) select n from one")) == 1
    assert session.scalars(select(Price).with_for_update()).one().price == 1
    assert [price.name for price in session.scalars(select(Price).execution_options(yield_per=1))] == ["old"]
    session.execute(text("show time zone"))
    session.execute(text("set local work_mem = '8MB'"))


def an_update_of_no_row(session: Session) -> None:
    session.execute(text("update prices set price = 2 where name = 'missing'"))


def the_same_value(session: Session) -> None:
    one = old(session)
    one.price = one.price


def a_rollback(session: Session) -> None:
    a_statement(session)
    a_new_object(session)
    session.rollback()
    reads(session)


def a_savepoint_that_was_rolled_back(session: Session) -> None:
    reads(session)
    with suppress(ValueError), session.begin_nested():
        a_flush(session)
        raise ValueError("no luck")


def a_session_of_its_own_that_was_rolled_back(session: Session) -> None:
    with Session(session.get_bind()) as another:
        a_statement(another)


INNOCENT = (
    nothing,
    reads,
    an_update_of_no_row,
    the_same_value,
    a_rollback,
    a_savepoint_that_was_rolled_back,
    a_session_of_its_own_that_was_rolled_back,
)


def leave(room: Room, way: Callable[[Session], None], *, is_async: bool) -> Outcome:
    def job(run: Run) -> None:
        with run.commit() as conn, session_on(conn) as session:
            way(session)

    async def job_on_loop(run: Run) -> None:
        async with run.commit() as conn, session_on(conn) as session:
            assert isinstance(session, AsyncSession)
            await session.run_sync(way)

    return room.enter(job_on_loop if is_async else job)


@pytest.mark.parametrize("way", one_in(2, FORGETFUL))
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_changes_that_were_not_committed_fail_the_run(
    room: Room, way: Callable[[Session], None], is_async: bool
) -> None:
    outcome = leave(room, way, is_async=is_async)
    assert outcome.failed is FailReason.FAILED
    assert outcome.error == f"ProgrammingError: {FORGOTTEN}"
    assert room.query("select name, price from prices") == [("old", 1)]


@pytest.mark.parametrize("way", INNOCENT)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_reads_and_what_was_rolled_back_need_no_commit(
    room: Room, way: Callable[[Session], None], is_async: bool
) -> None:
    outcome = leave(room, way, is_async=is_async)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert room.query("select name, price from prices") == [("old", 1)]


@pytest.mark.parametrize("way", FORGETFUL)
def test_a_commit_after_the_changes_is_all_it_takes(room: Room, way: Callable[[Session], None]) -> None:
    def does(session: Session) -> None:
        way(session)
        session.commit()

    assert leave(room, does, is_async=False).status is Status.SUCCESS


def test_an_error_of_the_job_is_not_hidden_by_its_changes(room: Room) -> None:
    def does(session: Session) -> None:
        a_statement(session)
        raise ValueError("no luck")

    assert leave(room, does, is_async=False).error == "ValueError: no luck"


def test_a_plain_with_on_an_async_connection_names_the_missing_word(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.commit() as conn:
            session: Any = session_on(conn)
            with session:
                pass

    assert "use `async with session_on(conn)`" in str(room.enter(job).error)
