"""P38: an upgrade and a rollback lose nothing: from version 0.1 to this one, back, and here again. Real processes of
both are on one database, hits arrive all the time, and runs are under way at every step."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.profile import Profile
from tests.faults.upgrade import Rehearsal, rehearse, rehearsing, share
from tests.faults.upgrade_checks import BREAKS, CHECKS, violations
from tests.faults.upgrade_versions import from_history, this_version

ROWS_A_SECOND = 100


def wrongs(rehearsal: Rehearsal) -> dict[str, list[Any]]:
    """What the database, the answers and the logs have that they must not have."""
    found = violations(rehearsal.room, rehearsal.snapshots, rehearsal.bare_file.read_text().splitlines())
    others = {"undocumented answers": rehearsal.undocumented, "logged errors": rehearsal.errors()}
    return found | {what: rows for what, rows in others.items() if rows}


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_an_upgrade_a_rollback_and_an_upgrade_lose_no_run_and_double_none(
    empty_dsn: str, tmp_path: Path, profile: Profile
) -> None:
    old, new, seconds = from_history(tmp_path), this_version(), profile.n("P38")
    with rehearsing(empty_dsn, tmp_path) as rehearsal:
        rehearse(rehearsal, old, new, seconds)
        share(rehearsal, old, new, ROWS_A_SECOND * seconds)
    room = rehearsal.room
    ((runs, openings),) = room.query(
        "select (select count(*) from refresh_runs), (select count(*) from opening_signals)"
    )
    by = dict(room.query("select version, count(*) from effect group by 1"))
    by_shared = dict(room.query("select version, count(*) from effect where name ~ '^shared' group by 1"))
    assert min(by[old.name], by[new.name], by_shared[old.name], by_shared[new.name], openings) > 0, "all took part"

    found = wrongs(rehearsal)
    wrong = sum(map(len, found.values()))
    profile.record("P38", runs - wrong, runs, answers=dict(rehearsal.told), violations=found)

    # The negative control: each check finds what it is for.
    assert BREAKS.keys() > CHECKS.keys()
    for text in BREAKS.values():
        room.query(text)
    assert wrongs(rehearsal).keys() >= BREAKS.keys()
