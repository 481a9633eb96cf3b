"""Openings for the SQL tests, loaded in two pages as the job does it."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection

from opening_signals.feeds.model import Opening
from opening_signals.store import upsert
from opening_signals.store.lock import lock_sources
from opening_signals.store.upsert import Merged


def opening(external_id: str, title: str = "Baker") -> Opening:
    return Opening.of(
        {"id": external_id, "title": title},
        external_id=external_id,
        title=title,
        organization="Acme",
        location="Leeds",
        url=f"https://boards.example/{external_id}",
        posted_at="2026-11-02",
    )


async def load_on(conn: AsyncConnection[Any], source: str, openings: Sequence[Opening]) -> Merged:
    request_id = uuid4()
    pages = await stage(conn, request_id, source, openings)
    async with conn.transaction():
        await lock_sources(conn, [source])
        return await upsert.merge(conn, request_id, {source: pages})


async def stage(conn: AsyncConnection[Any], request_id: UUID, source: str, openings: Sequence[Opening]) -> int:
    """Stages them in two halves; returns how many of these are not empty."""
    staging, half = upsert.Staging(request_id, source), len(openings) // 2
    for page in filter(None, (openings[:half], openings[half:])):
        await staging.add(conn, page)
    return staging.pages


def load(dsn: str, source: str, openings: Sequence[Opening]) -> Merged:
    async def connected() -> Merged:
        async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
            return await load_on(conn, source, openings)

    return asyncio.run(connected())


def one(conn: psycopg.Connection[Any], text: str) -> Any:
    row = conn.execute(text.encode()).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row
