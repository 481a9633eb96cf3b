"""A function is deployed where its older generation ran: the first hit adopts what is there, or says why not."""

import logging

import pytest

from cronlease import Run
from cronlease.outcome import SkipReason, Status
from tests.integration.conftest import NAME, Room
from tests.schema.older_tables import PLAIN, REFUSED


async def write(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("insert into opening_signals (source, external_id) values ('acme', '3')")


def test_a_first_hit_adopts_an_older_database_and_runs(empty_dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    room = Room(empty_dsn)
    room.query(PLAIN.replace("refresh_opening_signals", NAME))

    outcome = room.enter(write)

    assert outcome.status is Status.SUCCESS
    assert room.row("last_status, run_count, fence, locked_by") == ("success", 1, 1, None)
    assert room.query("select function_name, locked_by from refresh_schedule order by 1 desc")[-1] == (
        "never_ran",
        "host-7",
    )
    assert room.query("select count(*) from opening_signals") == [(3,)]
    assert "clients read `.acquired`" in caplog.text


def test_a_first_hit_fails_closed_on_tables_that_cannot_be_adopted(
    empty_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    room = Room(empty_dsn)
    changes, said, *_ = REFUSED["twins"]
    room.query(PLAIN + changes)
    with caplog.at_level(logging.ERROR):
        assert room.enter(write).skipped is SkipReason.SCHEDULE_READ_ERROR
    assert said in caplog.text
    assert room.query("select count(*) from refresh_schedule") == [(3,)]
