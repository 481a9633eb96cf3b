"""Several dispatchers, each a process as on a machine of its own: every due row is run by exactly one of them."""

import json
from collections import Counter
from pathlib import Path

from tests.acceptance.shell import Shell
from tests.integration.conftest import Room

ROWS = 90


def test_run_due_on_three_machines_runs_every_row_exactly_once(dsn: str, tmp_path: Path) -> None:
    room = Room(dsn)
    room.query(
        "select schedule_action(p_function_name => 'row ' || n, p_action => 'note') from generate_series(1, 90) n"
    )
    # The function beside the actions would want arguments.
    room.query("select ensure_schedule('echo'), pause_refresh('echo')")
    # A data directory each: the lock file is a machine's own.
    processes = [Shell(dsn, tmp_path / str(machine)).start("run-due", "--json") for machine in range(3)]
    reports = []
    for process in processes:
        with process:
            out, err = process.communicate(timeout=50)
            assert process.returncode == 0, err
            reports.append(json.loads(out))
    ran = Counter(entry["function"] for report in reports for entry in report["ran"])
    assert ran == {f"row {number}": 1 for number in range(1, ROWS + 1)}
    assert room.query("select count(*) from refresh_status where state = 'completed'") == [(ROWS,)]
