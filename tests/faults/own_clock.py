"""A timed function as it must not be written: it reads, asks its own clock, and then writes. For the negative control
of P11."""

import os
from datetime import UTC, datetime, timedelta

import functions_framework.aio
import psycopg
from starlette.requests import Request


@functions_framework.aio.http
async def tick(_: Request) -> dict[str, bool]:
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as conn:
        cursor = await conn.execute("select next_run_at from public.refresh_schedule")
        (due_at,) = await cursor.fetchone() or (None,)
        due = due_at is None or due_at <= datetime.now(UTC)
        if due:
            await conn.execute("insert into effect values (gen_random_uuid())")
            next_run_at = datetime.now(UTC) + timedelta(minutes=10)
            await conn.execute("update public.refresh_schedule set next_run_at = %s", [next_run_at])
        return {"ran": due}
