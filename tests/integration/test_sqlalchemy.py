"""A session of SQLAlchemy in a fenced block: its commits are savepoints, the block's is the only real one."""

from typing import Any

import pytest
from sqlalchemy import Integer, String, insert, select, text
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from cronlease import Run
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.sqlalchemy import session_on
from tests.integration.conftest import Room


class Base(DeclarativeBase):
    pass


class Price(Base):
    __tablename__ = "prices"
    name: Mapped[str] = mapped_column(String, primary_key=True)
    price: Mapped[int] = mapped_column(Integer)


@pytest.fixture(autouse=True)
def _table(room: Room) -> None:
    room.query("create table prices (name text primary key, price int not null)")


def prices(room: Room) -> dict[str, int]:
    return dict(room.query("select name, price from prices"))


def plain(room: Room, does: Any) -> Outcome:
    def job(run: Run) -> None:
        with run.commit() as conn:
            does(conn)

    return room.enter(job)


def on_loop(room: Room, does: Any) -> Outcome:
    async def job(run: Run) -> None:
        async with run.commit() as conn:
            await does(conn)

    return room.enter(job)


def nobody_can_take_over(room: Room) -> bool:
    return room.query("select from refresh_schedule for update skip locked") == []


def test_a_session_bound_to_the_connection_itself_is_told_what_to_use(room: Room) -> None:
    def does(conn: Any) -> None:
        with Session(bind=conn) as session:
            session.add(Price(name="a", price=1))
            session.commit()

    outcome = plain(room, does)
    assert outcome.failed is FailReason.FAILED
    assert "use cronlease.sqlalchemy.session_on(conn)" in str(outcome.error)
    assert prices(room) == {}


def test_a_session_commits_as_often_as_it_likes_and_the_fence_stays(room: Room) -> None:
    def does(conn: Any) -> None:
        with session_on(conn) as session:
            assert isinstance(session, Session)
            for name in "ab":
                session.add(Price(name=name, price=1))
                session.commit()
                assert prices(room) == {}
                assert nobody_can_take_over(room)
            one = session.get(Price, "a")
            assert one is not None
            one.price = 2
            session.commit()

    outcome = plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == {"a": 2, "b": 1}


def test_an_async_session_commits_as_often_as_it_likes_and_the_fence_stays(room: Room) -> None:
    async def does(conn: Any) -> None:
        async with session_on(conn, expire_on_commit=False) as session:
            assert isinstance(session, AsyncSession)
            for name in "ab":
                session.add(Price(name=name, price=1))
                await session.commit()
                assert prices(room) == {}
                assert nobody_can_take_over(room)
            assert (await session.scalars(select(Price.name).order_by(Price.name))).all() == ["a", "b"]
            async for row in await session.stream_scalars(select(Price)):
                row.price = 2
            await session.commit()
            session.add(Price(name="c", price=1))
            await session.rollback()

    outcome = on_loop(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == {"a": 2, "b": 2}


def test_a_rollback_undoes_what_was_not_committed_and_no_more(room: Room) -> None:
    def does(conn: Any) -> None:
        with session_on(conn) as session:
            session.add(Price(name="kept", price=1))
            session.commit()
            session.add(Price(name="undone", price=1))
            session.flush()
            session.rollback()
            session.add(Price(name="kept", price=2))
            with pytest.raises(IntegrityError):
                session.flush()
            session.rollback()
            with session.begin_nested():
                session.add(Price(name="nested", price=1))
            session.commit()

    outcome = plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == {"kept": 1, "nested": 1}


def test_sessions_follow_each_other_and_plain_statements_go_on(room: Room) -> None:
    def does(conn: Any) -> None:
        with session_on(conn) as session:
            session.execute(insert(Price), [{"name": str(n), "price": n} for n in range(1000)])
            session.commit()
        conn.execute("update prices set price = price + 1")
        with session_on(conn) as session, session.begin():
            assert session.scalar(select(Price.price).where(Price.name == "999")) == 1000
            session.add(Price(name="last", price=0))
        conn.execute("update prices set price = -1 where name = 'last'")

    outcome = plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert len(prices(room)) == 1001
    assert prices(room)["last"] == -1


def test_an_error_out_of_the_session_undoes_the_block(room: Room) -> None:
    async def does(conn: Any) -> None:
        async with session_on(conn) as session:
            session.add(Price(name="a", price=1))
            await session.commit()
            raise ValueError("no luck")

    assert on_loop(room, does).error == "ValueError: no luck"
    assert prices(room) == {}


@pytest.mark.parametrize("statement", ["commit", "select 1; rollback", "begin"])
def test_the_statements_that_a_session_sends_are_looked_at_too(room: Room, statement: str) -> None:
    def does(conn: Any) -> None:
        with session_on(conn) as session:
            session.add(Price(name="a", price=1))
            session.commit()
            with pytest.raises(ProgrammingError, match=r"run\.commit\(\)"):
                session.execute(text(statement))
            session.rollback()

    outcome = plain(room, does)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert prices(room) == {"a": 1}


def test_the_connection_and_the_engine_of_a_session_cannot_end_the_block(room: Room) -> None:
    def does(conn: Any) -> None:
        with session_on(conn) as session:
            session.add(Price(name="a", price=1))
            session.commit()
            connection = session.connection()
            connection.engine.dispose()
            connection.engine.raw_connection().commit()

    outcome = plain(room, does)
    assert outcome.failed is FailReason.FAILED
    assert "is refused inside run.commit()" in str(outcome.error)
    assert prices(room) == {}
