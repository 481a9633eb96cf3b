"""Alerts as the schema tests ask for them: claimed, delivered, and what was told of the one job."""

from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.schema.calls import JOB, acquire, call, finish

HERE = ["here"]


def end(conn: psycopg.Connection, status: str = "failed", function_name: str = JOB, **more: Any) -> Any:
    """One run by force from its claim to that end; what is to be told of it goes to one address."""
    request = uuid4()
    claim = acquire(conn, request, function_name, force=True)
    more.setdefault("addresses", HERE)
    return finish(conn, request, claim.fence, status, function_name, **more)


def look(conn: psycopg.Connection, *addresses: str, holder: UUID | None = None, **more: Any) -> list[dict[str, Any]]:
    """What is to be delivered now, held by that holder."""
    wanted = list(addresses) or HERE
    answer = call(conn, "claim_refresh_alerts", addresses=wanted, holder=holder or uuid4(), **more)
    return list(answer[0])


def settle(conn: psycopg.Connection, holder: UUID, **became: list[int]) -> None:
    """What became of alerts: delivered, failed or unsent."""
    every = {"delivered": [], "failed": [], "unsent": [], **became}
    call(conn, "settle_refresh_alerts", holder=holder, **every)


def told(conn: psycopg.Connection, *addresses: str) -> list[tuple[str, str]]:
    """What is to be delivered, which is delivered by that."""
    holder = uuid4()
    found = look(conn, *addresses, holder=holder, limit=1000)
    settle(conn, holder, delivered=[each["id"] for each in found])
    return [(each["function_name"], each["kind"]) for each in found]


def kinds(conn: psycopg.Connection, *addresses: str) -> list[str]:
    return [kind for _, kind in told(conn, *addresses)]
