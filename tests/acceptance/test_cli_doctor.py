"""The doctor finds what is wrong: each thing is broken for real, and the finding is read."""

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from freezegun import freeze_time
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cronlease.cli.doctor import database
from cronlease.cli.source import shipped
from cronlease.db.alerts import name_of
from cronlease.db.migration.migrate import migrate
from tests.acceptance.conftest import JOBS
from tests.acceptance.shell import ACTIONS, Shell
from tests.conftest import Server
from tests.faults.pgbouncer import pooling
from tests.integration.conftest import Room

pytestmark = pytest.mark.thorough

DEFINITION: dict[str, Any] = {
    "functions": {"tick": {"lease": "300s", "max_run": "285s", "request_timeout": "300s"}},
    "jobs": {
        "tick": {
            "function": "tick",
            "schedule": "*/5 * * * *",
            "time_zone": "Etc/UTC",
            "attempt_deadline": "320s",
        }
    },
}


class Doctor:
    """Asks for one database; answers what is not in order, by check."""

    def __init__(self, dsn: str, place: Path) -> None:
        self.shell = Shell(dsn, place)
        # In order, so that what is found is what a test has broken.
        sources = place / "sources.toml"
        sources.write_text('[[source]]\nname = "a"\nkind = "greenhouse"\nboard = "a"\norganization = "A"\n')
        self.shell.environment["CRONLEASE_SOURCES"] = str(sources)

    def finds(self, *words: str, **environment: str) -> dict[str, tuple[str, str]]:
        self.shell.environment |= environment
        status, out, err = self.shell.quickly("doctor", "--json", *words)
        assert err == ""
        return self.read(status, out)

    def read(self, status: int, out: str) -> dict[str, tuple[str, str]]:
        told = json.loads(out)
        levels = [finding["level"] for finding in told["findings"]]
        assert (status, told["ok"]) == ((1, False) if "broken" in levels else (0, True))
        found = [finding for finding in told["findings"] if finding["level"] in ("warning", "broken")]
        assert all(finding["fix"] for finding in found)
        said: dict[str, tuple[str, str]] = {}
        for finding in found:
            _, before = said.get(finding["check"], ("", ""))
            said[finding["check"]] = finding["level"], f"{before}; {finding['said']}" if before else finding["said"]
        return said


@pytest.fixture
def doctor(dsn: str, tmp_path: Path) -> Doctor:
    return Doctor(dsn, tmp_path)


def test_nothing_is_wrong_with_a_database_that_migrate_has_made(doctor: Doctor) -> None:
    assert doctor.finds() == {}
    *lines, last = doctor.shell.says_quickly("doctor").splitlines()
    assert last == "0 broken, 0 warnings."
    others = [line for line in lines if not line.startswith("ok ")]
    assert [line.split()[:2] for line in others] == [["info", "source"], ["info", "actions"]]


def test_a_database_that_is_down_or_not_to_be_read_is_broken_and_keeps_its_password(tmp_path: Path) -> None:
    doctor = Doctor("postgresql://me:opensesame@127.0.0.1:1/none", tmp_path)
    level, said = doctor.finds()["connection"]
    assert (level, "no connection to the configured database" in said, "opensesame" in said) == (
        "broken",
        True,
        False,
    )
    assert doctor.finds(DATABASE_URL="postgresql://me:open/sesame@h/d")["connection"][0] == "broken"
    del doctor.shell.environment["DATABASE_URL"]
    doctor.shell.environment |= {"PGHOST": "127.0.0.1", "PGPORT": "1"}
    assert "fix: check PGHOST, PGPORT and that the server is up\n" in doctor.shell.quickly("doctor")[1]
    assert doctor.shell.quickly("runs")[2].endswith(": check PGHOST, PGPORT and that the server is up\n")


def test_an_empty_database_is_a_warning_unless_nobody_may_migrate(empty_dsn: str, tmp_path: Path) -> None:
    doctor = Doctor(empty_dsn, tmp_path)
    assert doctor.finds() == {"schema": ("warning", "the database has no schema of ours yet")}
    assert doctor.finds(CRONLEASE_MIGRATE="never")["schema"][0] == "broken"


def test_a_ledger_of_somebody_else_is_one_finding(empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("create table cronlease_migrations (id integer)")
    found = Doctor(empty_dsn, tmp_path).finds()
    assert found["schema"] == ("broken", "there is a table cronlease_migrations that is not ours")
    assert "connection" not in found


def test_an_empty_database_is_broken_for_a_role_that_may_not_create(empty_dsn: str, tmp_path: Path) -> None:
    doctor = Doctor(make_conninfo(empty_dsn, options="-c role=pg_monitor"), tmp_path)
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        # On PostgreSQL 14 everybody may.
        conn.execute("revoke create on schema public from public")
    said = "the database has no schema of ours yet, and pg_monitor may not create anything in schema public"
    # Nothing is granted on what is not there: no word about grants.
    assert doctor.finds() == {"schema": ("broken", said)}
    assert "grants" not in doctor.shell.quickly("doctor")[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"password": "wrong"}, "put the right role and password into DATABASE_URL, the password percent-encoded"),
        ({"password": ""}, "put the password into DATABASE_URL, percent-encoded, or into PGPASSWORD"),
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist: create it there, or name another one in'),
    ],
)
def test_a_server_that_turns_us_away_is_not_said_to_be_down(
    empty_dsn: str, tmp_path: Path, change: dict[str, str], sentence: str
) -> None:
    if "password" in change and not conninfo_to_dict(empty_dsn).get("password"):
        pytest.skip("this server asks for no password")
    shell = Shell(make_conninfo(empty_dsn, **change), tmp_path)
    status, out, err = shell.quickly("status")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert sentence in err
    assert "FATAL" not in err
    assert f"fix: {sentence.rpartition(': ')[2]}" in shell.quickly("doctor")[1]


def test_a_driver_in_the_scheme_is_named_and_the_password_is_not(tmp_path: Path) -> None:
    shell = Shell("postgresql+psycopg://me:opensesame@127.0.0.1/db", tmp_path)
    sentence = "write postgresql:// instead of postgresql+psycopg://"
    said = f"Error: DATABASE_URL names a driver in its scheme, as SQLAlchemy does: {sentence}\n"
    assert shell.quickly("status") == (1, "", said)
    assert f"fix: {sentence}\n" in shell.quickly("doctor")[1]


def test_a_schema_that_has_drifted_is_broken(doctor: Doctor, room: Room) -> None:
    room.query("alter function is_band(text) volatile; drop function unlock_refresh")
    level, said = doctor.finds()["schema"]
    assert (level, said) == ("broken", "is_band differs from its file; unlock_refresh is missing")
    room.query("update cronlease_migrations set hash = 'x' where name = '0003_opening_signals'")
    assert doctor.finds()["schema"] == (
        "broken",
        "migration 0003_opening_signals was changed after it was applied",
    )


def test_what_migrate_cannot_repair_must_be_repaired_by_hand(doctor: Doctor, room: Room) -> None:
    room.query("drop view refresh_status cascade")
    assert doctor.shell.quickly("migrate", "--check")[1].endswith(
        "Fix: run `cronlease migrate` as the owner of the schema.\n"
    )
    room.query("alter table refresh_schedule drop column paused_reason")
    found = doctor.finds()
    assert set(found) == {"schema"}
    assert "refresh_status cannot be made: column s.paused_reason does not exist" in found["schema"][1]
    status, out, _ = doctor.shell.quickly("doctor")
    by_hand = "a table is not as the migrations left it: put back by hand what is missing"
    assert (status, f"fix: {by_hand}" in out) == (1, True)
    status, out, err = doctor.shell.quickly("migrate")
    assert (status, out) == (1, "")
    addition = "alter table public.refresh_schedule add column paused_reason text"
    assert (
        f"column paused_reason of refresh_schedule is missing, with its values: change that with `{addition}`" in err
    )
    # And that is all that it takes.
    room.query(addition)
    assert doctor.shell.quickly("migrate")[0] == 0
    assert doctor.finds() == {}


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """A role without any right. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield name
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_grants_that_a_run_needs_and_the_role_lacks_are_broken(role: str, doctor: Doctor, room: Room) -> None:
    as_role = make_conninfo(room.dsn, options=f"-c role={role}")
    found = doctor.finds(DATABASE_URL=as_role)
    level, said = found["grants"]
    assert level == "broken"
    assert said.startswith(f"{role} lacks ")
    assert {"execute on acquire_refresh_lock", "insert on opening_signals", "select on refresh_rows"} <= set(
        said.removeprefix(f"{role} lacks ").split(", ")
    )
    assert found["schema"] == (
        "warning",
        "this role cannot read the migrations: permission denied for table cronlease_migrations",
    )
    room.query(f"grant all on all tables in schema public to {role}")
    room.query(f"grant execute on all functions in schema public to {role}")
    assert doctor.finds() == {}
    room.query(f"drop owned by {role}")


def test_an_old_or_read_only_server_is_broken(doctor: Doctor, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_OLDEST", 990000)
    level, said = doctor.finds()["server"]
    assert (level, said.endswith("but 14 or newer is needed")) == ("broken", True)
    monkeypatch.undo()
    read_only = make_conninfo(room.dsn, options="-c default_transaction_read_only=on")
    assert doctor.finds(DATABASE_URL=read_only) == {"server": ("broken", "the database is read-only")}


@pytest.mark.parametrize(("seconds", "which"), [(90, "ahead of"), (-90, "behind")])
def test_clocks_that_disagree_are_a_warning(doctor: Doctor, seconds: int, which: str) -> None:
    with freeze_time(datetime.now(UTC) + timedelta(seconds=seconds), tick=True, ignore=["psycopg", "asyncio"]):
        level, said = doctor.finds()["clock"]
    assert level == "warning"
    assert f" s {which} the database's" in said
    assert 80 < int(said.split("at least ")[1].split()[0]) <= 90


def test_a_pooler_that_the_setting_denies_is_broken_and_one_that_is_not_there_a_warning(
    doctor: Doctor, room: Room
) -> None:
    assert doctor.finds(CRONLEASE_POOLER="transaction")["pooler"][0] == "warning"
    with pooling(room.dsn) as through:
        assert doctor.finds(DATABASE_URL=through) == {}
        level, said = doctor.finds(CRONLEASE_POOLER="none")["pooler"]
    assert (level, said.startswith("a pooler in between")) == ("broken", True)


def test_a_lease_that_ran_out_is_a_warning(doctor: Doctor, room: Room) -> None:
    room.query("select ensure_schedule('tick')")
    room.query("select acquire_refresh_lock('tick', gen_random_uuid())")
    assert doctor.finds() == {}
    room.query("update refresh_schedule set locked_until = now() - interval '1 s'")
    ran_out = {"leases": ("warning", "1 lease ran out before the run finished: tick")}
    assert doctor.finds() == ran_out
    room.query("select pause_refresh('tick')")
    assert doctor.finds() == ran_out
    assert doctor.shell.quickly("recover", "--all")[0] == 0
    assert doctor.finds() == {}


def test_alerts_that_nobody_could_deliver_are_a_warning_without_their_address(doctor: Doctor, room: Room) -> None:
    url = "http://127.0.0.1:1/opensesame"
    write = "insert into refresh_alerts (address, function_name, kind, created_at) values ('{}', 'tick', 'late', {})"
    room.query(write.format(name_of(url), "clock_timestamp()"))
    assert doctor.finds(CRONLEASE_ALERT_URL=url) == {}, "it may be on its way"
    room.query(write.format(name_of(url), "'2026-01-02 03:04Z'"))
    said = "2 alerts for address 1 (127.0.0.1) are undelivered since 2026-01-02 03:04 UTC"
    assert doctor.finds(CRONLEASE_ALERT_URL=url) == {"alerts": ("warning", said)}
    assert "opensesame" not in doctor.shell.quickly("doctor")[1]


def test_an_action_that_the_source_does_not_have_is_a_warning(doctor: Doctor, room: Room) -> None:
    room.query("select schedule_action(name, action) from (values ('a', 'note'), ('b', 'gone')) as t (name, action)")
    status, out, _ = doctor.shell("doctor", "--json", "--source", str(ACTIONS))
    assert doctor.read(status, out) == {
        "actions": ("warning", 'the source has no action "gone", which 1 schedule would run')
    }
    # A name of exec is a lease, and waits for no function.
    assert doctor.shell("exec", "nightly", "--", "true")[0] == 0
    status, out, _ = doctor.shell("doctor", "--json", "--source", str(ACTIONS))
    assert "nightly" not in str(doctor.read(status, out)["actions"])
    # As every verb does, it takes the file that the environment names.
    status, out, _ = doctor.shell("doctor", "--json")
    assert set(doctor.read(status, out)) == {"actions"}


def test_a_source_that_cannot_be_used_is_broken(tmp_path: Path) -> None:
    doctor = Doctor("postgresql://127.0.0.1:1/none", tmp_path)
    level, said = doctor.finds("--source", "nowhere.py")["source"]
    assert (level, said.startswith("there is no Python file")) == ("broken", True)
    (tmp_path / "refuses.py").write_text("from cronlease import action\naction('')")
    level, said = doctor.finds("--source", str(tmp_path / "refuses.py"))["source"]
    assert (level, said.startswith("cronlease: an action needs a name")) == ("broken", True)


def test_a_cadence_that_cannot_be_read_is_broken(doctor: Doctor, room: Room) -> None:
    room.query(
        "select schedule_action(name, 'note', p_every => '10m') from unnest(array['a', 'b', 'c', 'd', 'e']) name"
    )
    assert doctor.finds() == {}
    room.query("update refresh_schedule set every = 'often' where function_name <> 'e'")
    assert doctor.finds() == {
        "cadences": ("broken", "4 schedules cannot run, the column every holds no cadence: a, b, c, ...")
    }


def test_a_cron_that_never_comes_is_broken(doctor: Doctor, room: Room) -> None:
    crons = {"fine": "0 9 29 2 *", "a": "61 * * * *", "b": "61 * * * *", "c": "0 0 30 2 *"}
    for name, cron in crons.items():
        room.query(f"select schedule_action('{name}', 'note', p_cron => '{cron}')")
    room.query("select schedule_action('none', 'note', p_cron => '0 9 * * *')")
    room.query("update refresh_schedule set cron = 'at nine' where function_name = 'none'")
    room.query("select schedule_action('there', 'note', p_cron => '0 9 * * *')")
    room.query("update refresh_schedule set time_zone = 'Mars' where function_name = 'there'")
    how = "is not a cron expression ({}): write five fields, such as */5 * * * *"
    said = [
        f"2 schedules cannot be planned: a, b; '61 * * * *' {how.format('bad minute')}",
        f"1 schedule cannot be planned: c; '0 0 30 2 *' {how.format('bad day-of-month')}",
        f"1 schedule cannot be planned: none; 'at nine' {how.format('it has 2 fields')}",
        "1 schedule cannot be planned: there; 'Mars' is not a time zone: write a name such as Europe/Berlin or"
        " Etc/UTC",
    ]
    assert doctor.finds() == {"cadences": ("broken", "; ".join(said))}
    lines = doctor.shell.quickly("doctor")[1]
    assert (
        'fix: run `cronlease schedule create NAME --replace --cron "0 9 * * 1-5" ...` for each, or correct' in lines
    )
    assert "the cadences of all schedules can be read" not in lines


@pytest.mark.parametrize(
    ("place", "value", "level", "said"),
    [
        (("functions", "tick", "max_run"), "300s", "broken", "max_run is 5m, but the platform"),
        (("functions", "tick", "lease"), "900s", "warning", "lease is 15m, so a killed run"),
        (("functions", "tick", "request_timeout"), "4000s", "broken", "longer than the platform allows"),
        (("functions", "tick", "request_timeout"), "soon", "broken", "'soon' is not a duration"),
        (("functions", "tick"), {}, "broken", "'lease' is missing"),
        (("jobs", "tick", "attempt_deadline"), "290s", "broken", "gives up after 290s, before the platform does"),
        (("jobs", "tick", "attempt_deadline"), "1900s", "broken", "which the scheduler refuses"),
        (("jobs", "tick", "function"), "nobody", "broken", "there is no function nobody"),
        (("jobs", "tick", "schedule"), "61 * * * *", "broken", "tick: '61 * * * *' is not a cron expression"),
        (("jobs", "tick", "time_zone"), "Mars", "broken", "tick: 'Mars' is not a time zone"),
    ],
)
def test_time_limits_of_a_deployment_that_do_not_fit_are_found(
    tmp_path: Path, place: tuple[str, ...], value: object, level: str, said: str
) -> None:
    doctor = Doctor("postgresql://127.0.0.1:1/none", tmp_path)
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(DEFINITION))
    assert "deployment" not in doctor.finds("--jobs", str(file))
    broken = copy.deepcopy(DEFINITION)
    part = broken
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    file.write_text(json.dumps(broken))
    found = doctor.finds("--jobs", str(file))["deployment"]
    assert (found[0], said in found[1]) == (level, True), found


@pytest.mark.parametrize(
    ("cadence", "schedule", "said"),
    [
        ("every='24h'", "0 6 * * *", None),
        ("every='24h..24h'", "0 6 * * *", "hit every 1d, so it runs every 2d"),
        ("cron='0 9 * * *'", "0 6 * * *", "its slots are hit up to 21h late"),
        ("every='hit'", "0 6 * * *", None),
        ("cron='0 9 * * *'", "30 * * * *", None),
        ("cron='0 9 * * *', missed='skip', late='10m'", "30 * * * *", "is hit 30m late, and is skipped"),
    ],
)
def test_a_cadence_is_held_against_how_often_it_is_hit(
    tmp_path: Path, cadence: str, schedule: str, said: str | None
) -> None:
    doctor = Doctor("postgresql://127.0.0.1:1/none", tmp_path)
    source, jobs = tmp_path / "main.py", tmp_path / "jobs.json"
    source.write_text(f"from cronlease import scheduled\n\n\n@scheduled({cadence})\ndef tick(run): ...\n")
    definition = copy.deepcopy(DEFINITION)
    definition["jobs"] = {"tick": {**definition["jobs"]["tick"], "schedule": schedule}}
    jobs.write_text(json.dumps(definition))
    # In a process of its own: each declares the same function.
    status, out, _ = doctor.shell("doctor", "--json", "--jobs", str(jobs), "--source", str(source))
    found = doctor.read(status, out).get("deployment")
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], said in found[1]) == ("warning", True), found


def test_the_environment_is_looked_at_before_the_database(tmp_path: Path) -> None:
    doctor = Doctor("postgresql://127.0.0.1:1/none", tmp_path)
    found = doctor.finds(CRONLEASE_LAESE="5m", CLOUD_RUN_TIMEOUT_SECONDS="60", CRONLEASE_MAX_RUN="10m")
    assert found["environment"] == ("warning", "CRONLEASE_LAESE is set, but nothing reads it")
    assert found["time limits"] == (
        "broken",
        "lease 5m, a run is ended after 10m, but the platform ends a request after 1m",
    )
    assert doctor.finds(CRONLEASE_MAX_RUN="50s")["time limits"][0] == "warning"
    assert (
        doctor.finds("--jobs", "nowhere.json")["deployment"][1]
        == "nowhere.json cannot be read: No such file or directory"
    )
    found = doctor.finds(CRONLEASE_LEASE="soon")
    assert found["settings"][0] == "broken"
    assert "connection" not in found


def test_a_sources_file_is_looked_at_where_its_job_runs(doctor: Doctor, room: Room, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[source]]\nname = "a"\nkind = "smoke"\n')
    level, said = doctor.finds(CRONLEASE_SOURCES=str(wrong))["sources"]
    assert (level, "'kind' is unknown" in said) == ("broken", True)
    wrong.write_text("")
    assert doctor.finds()["sources"][0] == "warning"
    assert doctor.finds(CRONLEASE_SOURCES="") == {}, "nobody runs the job"
    room.query("select ensure_schedule('refresh_opening_signals')")
    not_set = {"sources": ("warning", "CRONLEASE_SOURCES is not set: a run fetches nothing")}
    assert doctor.finds() == not_set
    del doctor.shell.environment["FUNCTION_SOURCE"]
    assert doctor.read(*doctor.shell("doctor", "--json", "--source", str(shipped()))[:2]) == not_set
    status, out, _ = doctor.shell("doctor", "--json", "--source", str(JOBS))
    assert set(doctor.read(status, out)) == {"actions"}, "another deployment has the job"


def test_each_function_of_the_source_is_held_to_its_own_lease(doctor: Doctor, tmp_path: Path) -> None:
    doctor.shell.environment |= {"CLOUD_RUN_TIMEOUT_SECONDS": "900", "CRONLEASE_MAX_RUN": "800s"}
    source = tmp_path / "long.py"
    source.write_text("from cronlease import scheduled\n\n\n@scheduled(lease='1h')\ndef tick(run): ...\n")
    (tmp_path / "jobs.json").write_text(json.dumps(DEFINITION))
    status, out, _ = doctor.shell("doctor", "--json", "--source", str(source), "--jobs", str(tmp_path / "jobs.json"))
    found = doctor.read(status, out)
    assert found["time limits"] == (
        "warning",
        "tick: lease 1h, a run is ended after 800s: a killed run blocks longer than it could have run",
    )
    said = "tick: its decorator's lease is 1h, so a killed run blocks longer than it could have run"
    assert found["deployment"] == ("warning", said)
    status, out, _ = doctor.shell("doctor", "--source", str(ACTIONS), "--jobs", str(tmp_path / "jobs.json"))
    assert f"fix: declare it there, or take tick out of {tmp_path / 'jobs.json'}\n" in out


def test_a_runner_and_a_reader_are_told_what_they_cannot_see(doctor: Doctor, room: Room) -> None:
    migrate(room.dsn, roles=True)
    room.query("select ensure_schedule('tick')")
    denied = "this role cannot {}: permission denied for table {}"
    unseen = {
        "schema": ("warning", denied.format("read the migrations", "cronlease_migrations")),
        "cadences": ("warning", denied.format("check it", "refresh_schedule")),
        "args": ("warning", denied.format("check it", "refresh_schedule")),
    }
    runner, reader = (make_conninfo(room.dsn, options=f"-c role=cronlease_{who}") for who in ("runner", "reader"))
    assert doctor.finds(DATABASE_URL=runner) == unseen
    only = ("warning", "cronlease_reader may read, but not run anything")
    unseen["backends"] = ("warning", "this role cannot check it: permission denied for view refresh_holders")
    assert doctor.finds(DATABASE_URL=reader) == unseen | {"grants": only}


def test_an_embedded_server_that_cannot_be_used_gets_a_fix_that_fits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, out, _ = Shell(None, tmp_path / "file").quickly("doctor", "--json")
    [finding] = [each for each in json.loads(out)["findings"] if each["check"] == "connection"]
    assert (status, finding["level"]) == (1, "broken")
    assert "set " not in finding["said"]
    assert finding["fix"] == "set CRONLEASE_DATA_DIR to a directory of yours, or set DATABASE_URL"


def test_tables_of_an_older_generation_are_named_and_whether_they_can_be_adopted(
    empty_dsn: str, tmp_path: Path
) -> None:
    doctor, room = Doctor(empty_dsn, tmp_path), Room(empty_dsn)
    room.query("create table refresh_schedule (function_name text, next_run_at timestamp, locked_by varchar(9))")
    level, said = doctor.finds()["schema"]
    assert (level, said) == ("warning", "the database has tables or functions of an older generation")
    status, out, _ = doctor.shell.quickly("migrate", "--check")
    assert status == 1
    assert "column next_run_at of refresh_schedule is timestamp without time zone instead of" in out
    assert "function_name of refresh_schedule is not unique by a constraint" in out
    room.query("alter table refresh_schedule alter next_run_at type text")
    level, said = doctor.finds()["schema"]
    assert level == "broken"
    assert "cannot be adopted: column next_run_at of refresh_schedule is text and must be timestamp with" in said
    status, out, err = doctor.shell.quickly("migrate")
    assert (status, out) == (1, "")
    assert err.startswith("Error: column next_run_at of refresh_schedule is text and must be ")


def test_a_missing_index_is_broken_and_named(doctor: Doctor, room: Room) -> None:
    room.query("drop index refresh_runs_history")
    assert doctor.finds()["schema"] == ("broken", "index refresh_runs_history of refresh_runs is missing")
    assert "repaired: index refresh_runs_history" in doctor.shell.says_quickly("migrate")
    assert doctor.finds() == {}


def test_a_rule_that_somebody_added_is_a_warning(doctor: Doctor, room: Room) -> None:
    room.query("alter table refresh_runs add constraint quick check (fence < 3)")
    level, said = doctor.finds()["schema"]
    assert level == "warning"
    assert said.startswith("constraint quick of refresh_runs may refuse what we write: CHECK ((fence < 3))")


def test_whoever_default_privileges_let_in_is_named(role: str, doctor: Doctor, room: Room) -> None:
    room.query(f"grant select on refresh_runs to {role}; grant execute on function delete_refresh to {role}")
    assert doctor.finds() == {}, "a grant that somebody made is only told"
    room.query(f"alter default privileges in schema public grant select on tables to {role}")
    out = doctor.shell.quickly("doctor")[1]
    assert f"{role} may use 2 objects of ours: refresh_runs, delete_refresh" in out
    revokes = f"revoke all on refresh_runs from {role}; revoke all on function delete_refresh from {role}"
    assert f"fix: unless that is intended, `{revokes}`" in out
    room.query(revokes)
    room.query("grant insert on refresh_schedule to public")
    assert doctor.finds()["strangers"] == ("warning", "public may use 1 object of ours: refresh_schedule")
    room.query(f"drop owned by {role}")


def test_migrate_reports_a_database_in_another_encoding_and_an_open_schema(server: Server, tmp_path: Path) -> None:
    for encoding in ("SQL_ASCII", "LATIN1"):
        name = f"cronlease_test_{uuid4().hex[:12]}"
        with psycopg.connect(server.admin, autocommit=True) as admin:
            admin.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
            url = make_conninfo(server.url(name), client_encoding="utf8")
            try:
                Room(url).query("grant create on schema public to public")
                out = Shell(url, tmp_path).says_quickly("migrate")
                assert f"the encoding of the database is {encoding}" in out
                assert "every role may create in the schema public" in out
                assert "`revoke create on schema public from public`" in out
                assert Shell(url, tmp_path).says_quickly("migrate", "--check").startswith("The schema is up to date")
            finally:
                admin.execute(f"drop database {name} with (force)")


def test_what_others_make_under_a_name_of_ours_is_named_and_who_may(
    role: str, doctor: Doctor, room: Room, empty_dsn: str, tmp_path: Path
) -> None:
    room.query(f"grant create on schema public to {role}")
    assert f"{role} may create objects in the schema public" in doctor.finds()["server"][1]
    room.query(
        f"create function public.is_band(p_text varchar) returns boolean language sql as 'select true';"
        f"alter function public.is_band(varchar) owner to {role}"
    )
    level, said = doctor.finds()["schema"]
    assert level == "broken"
    assert f"function is_band(character varying) of the role {role} has a name that cronlease needs" in said
    room.query(f"drop owned by {role}")
    assert doctor.finds() == {}

    Room(empty_dsn).query("create view public.openings as select 1 as a")
    level, said = Doctor(empty_dsn, tmp_path).finds()["schema"]
    assert (level, "alter view public.openings rename to openings_before" in said) == ("broken", True)
