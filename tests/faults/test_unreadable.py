"""P26: a schedule that cannot be read never runs, and each skip has its reason."""

import logging
import random
from uuid import uuid4

import psycopg
import pytest

from cronlease.cadence import Every
from cronlease.outcome import SkipReason
from tests.faults.profile import Profile
from tests.integration.conftest import Room
from tests.integration.test_failure import never, nothing
from tests.schema.calls import acquire, claim_due, runs

READ_BY_A_CLAIM = (
    "id",
    "function_name",
    "action",
    "args",
    "every",
    "next_run_at",
    "completed_at",
    "failures",
    "abandoned",
    "last_status",
    "locked_until",
    "locked_by",
    "fence",
    "paused_at",
)
LETTERS = "0123456789.smhdw-+eE \t\n٣１½"


def fuzzed_bands(source: random.Random, count: int) -> list[str]:
    """Bands with up to three letters changed, added or left out."""
    texts = []
    for _ in range(count):
        letters = list(source.choice(["10m..15m", "90s", "1.5h", "0.5s..1s", "3650d", "1d..3650d"]))
        for _ in range(source.randint(0, 3)):
            place = source.randrange(len(letters) + 1)
            letters[place : place + source.randint(0, 2)] = source.choice([[], [source.choice(LETTERS)]])
        texts.append("".join(letters))
    return texts


def is_readable(text: str) -> bool:
    try:
        Every.parse(text)
    except ValueError:
        return False
    return True


def test_what_sql_takes_for_a_cadence_can_be_read(conn: psycopg.Connection, profile: Profile) -> None:
    """Else a claim would be granted to a run that cannot say when the next one is."""
    texts = fuzzed_bands(profile.random("P26"), profile.n("P26"))
    found = conn.execute("select t, public.is_band(t) from unnest(%s::text[]) t", [texts]).fetchall()
    bands = [text for text, is_band in found if is_band]
    assert 0.05 < len(bands) / len(texts) < 0.95
    profile.record("P26", sum(map(is_readable, bands)), len(bands), what="a band for SQL is a band for Python")


def test_rows_whose_cadence_cannot_be_read_never_run(conn: psycopg.Connection, profile: Profile) -> None:
    texts = {text for text in fuzzed_bands(profile.random("P26 rows"), 300) if not is_readable(text)}
    insert = "insert into public.refresh_schedule (function_name, action, every) values (%s, 'work', %s)"
    conn.cursor().executemany(insert, [(repr(text), text) for text in texts])
    answers = [acquire(conn, uuid4(), repr(text), force=True).reason for text in texts]
    assert claim_due(conn, "work").reason == "not_due"
    assert runs(conn) == 0
    told = answers.count("schedule_read_error")
    profile.record("P26", told, len(texts), what="rows that cannot be read")


@pytest.fixture
def room(dsn: str) -> Room:
    """Its schedule is there, has run once, and is due."""
    room = Room(dsn)
    room.enter(nothing)
    room.query("update refresh_schedule set next_run_at = null")
    return room


def the_hit_is_skipped(room: Room, caplog: pytest.LogCaptureFixture) -> bool:
    caplog.clear()
    outcome = room.enter(never, force=True)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    return outcome.skipped is SkipReason.SCHEDULE_READ_ERROR and len(errors) == 1


def test_without_a_column_that_a_claim_reads_nothing_runs(
    room: Room, profile: Profile, caplog: pytest.LogCaptureFixture
) -> None:
    skipped = []
    for column in READ_BY_A_CLAIM:
        room.query(f"alter table refresh_schedule rename column {column} to gone")
        skipped += [column] if the_hit_is_skipped(room, caplog) else []
        room.query(f"alter table refresh_schedule rename column gone to {column}")
    assert room.runs() == ["success"]
    profile.record("P26", len(skipped), len(READ_BY_A_CLAIM), what="columns", skipped=skipped)
    assert room.enter(nothing).skipped is None, "with all of them it runs"


def test_without_the_right_to_read_nothing_runs(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The functions act with the rights of whoever owns them: of one who may not select, here."""
    owner = f"cronlease_test_{uuid4().hex[:12]}"
    ours = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'public'::regnamespace"
    room.query(f"create role {owner}; grant create on schema public to {owner}")
    for (function,) in room.query(ours):
        room.query(f"alter function {function} owner to {owner}")
    room.query(f"alter view refresh_rows owner to {owner}")

    skipped = the_hit_is_skipped(room, caplog)
    said = caplog.text

    room.query(f"reassign owned by {owner} to current_user; drop owned by {owner}; drop role {owner}")
    assert skipped
    assert "permission denied" in said
    assert room.runs() == ["success"]
    assert room.enter(nothing).skipped is None, "with it, it runs"
