"""SQLAlchemy in a fenced block: marks orders as expired that nobody paid within a week, each night at three.

pip install 'cronlease[sqlalchemy]'
cronlease serve --source with_sqlalchemy.py
"""

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from cronlease import Run, scheduled
from cronlease.sqlalchemy import session_on


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    ordered_at: Mapped[datetime]


@scheduled(cron="0 3 * * *", time_zone="Europe/Berlin")
async def expire_orders(run: Run) -> None:
    if run.slot is None:  # forced by a person: there is no night that this run serves
        return
    unpaid = select(Order).where(Order.state == "open", Order.ordered_at < run.slot - timedelta(days=7))
    async with run.commit() as conn, session_on(conn) as session:
        orders = (await session.scalars(unpaid)).all()
        for order in orders:
            order.state = "expired"
        await session.commit()  # releases a savepoint; the block itself commits
        run.report(updated=len(orders))
