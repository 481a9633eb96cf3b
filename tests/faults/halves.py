"""The shipped job as it must not be written: half of it is committed on its own. For the negative control of P5."""

from uuid import uuid4

import httpx2

from cronlease import Run, scheduled
from opening_signals import settings
from opening_signals.sources_file import load


@scheduled
async def refresh_opening_signals(run: Run) -> None:
    (source,) = load(settings.sources_file())
    async with httpx2.AsyncClient() as client:
        jobs = (await client.get(source.url)).json()["jobs"]
    insert = (
        "insert into public.opening_signals (source, external_id, title, content_hash, payload)"
        " values (%s, %s, %s, %s, '{}') on conflict (source, external_id) do update set title = excluded.title"
    )
    rows = [(source.name, str(job["id"]), job["title"], uuid4().bytes * 2) for job in jobs]
    async with run.connection() as conn:
        for row in rows[: len(rows) // 2]:
            await conn.execute(insert, row)
    async with run.commit() as conn:
        for row in rows[len(rows) // 2 :]:
            await conn.execute(insert, row)
