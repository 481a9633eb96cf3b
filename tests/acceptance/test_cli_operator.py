"""What an operator looks at and sets off: status, runs and trigger, on a real database and over real HTTP."""

import json
import signal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.acceptance.conftest import JOBS, Serve, free_port
from tests.acceptance.shell import Shell
from tests.integration.conftest import Room
from tests.proxy import proxied

TOKEN = "a-token-of-enough-letters"


@pytest.fixture
def cronlease(dsn: str, tmp_path: Path) -> Shell:
    return Shell(dsn, tmp_path)


def fill(room: Room) -> str:
    """One schedule that runs, one that is paused, one with a history; answers who holds the first."""
    holder = str(uuid4())
    room.query("select ensure_schedule(name) from unnest(array['runs', 'rests', 'fails']) as name")
    room.query(f"select acquire_refresh_lock('runs', '{holder}', '10 minutes')")
    room.query("select pause_refresh('rests', 'the feed is down')")
    for status, error in (("success", "null"), ("failed", "'boom'")):
        request = uuid4()
        room.query(f"select acquire_refresh_lock('fails', '{request}', p_force => true)")
        room.query(
            f"select finish_refresh_run('fails', '{request}', fence, '{status}', '30 minutes', p_error => {error},"
            " p_fetched => 7) from refresh_schedule where function_name = 'fails'"
        )
    return holder


def test_status_shows_every_schedule_at_a_glance(cronlease: Shell, room: Room) -> None:
    assert cronlease.says_quickly("status") == "There are no schedules yet.\n"
    holder = fill(room)
    heading, _, *rows = cronlease.says_quickly("status").splitlines()
    assert heading.split()[:3] == ["name", "state", "holder"]
    runs, fails, rests = rows
    assert runs.split()[:5] == ["runs", "dispatching", holder[:8], "9m59s", "running"]
    assert fails.split()[:4] == ["fails", "pending", "in", "29m59s"]
    assert "failed 0s ago" in fails
    assert fails.endswith("boom")
    assert rests.split() == ["rests", "paused"]
    told = json.loads(cronlease.says_quickly("status", "--json"))
    assert {row["function_name"]: len(row["seconds"]) for row in told["schedules"]} == {
        "fails": 2,
        "rests": 0,
        "runs": 0,
    }
    status, out, err = cronlease.quickly("status", "--limit", "2")
    assert (status, len(out.splitlines()), err) == (0, 4, "There may be more: --limit shows more than 2.\n")


def test_a_watch_goes_on_through_a_database_that_goes_away_and_ends_well(
    dsn: str, room: Room, tmp_path: Path
) -> None:
    room.query("select ensure_schedule('tick')")
    with (
        proxied(dsn) as proxy,
        Shell(proxy.dsn, tmp_path).start("status", "--watch", "--interval", "0.1s", "--json") as watch,
    ):
        assert watch.stdout is not None
        assert watch.stderr is not None
        first = json.loads(watch.stdout.readline())
        assert [row["function_name"] for row in first["schedules"]] == ["tick"]
        proxy.shut()
        assert watch.stderr.readline().startswith("No answer, trying again: ")
        room.query("select ensure_schedule('tock')")
        proxy.reopen()
        while len(json.loads(watch.stdout.readline())["schedules"]) == 1:
            pass
        # Not SIGINT: where the tests run in the background it may be ignored, and so it would be by their children.
        watch.send_signal(signal.SIGTERM)
        watch.communicate(timeout=20)
    assert watch.returncode == 0


def test_runs_shows_the_history_by_name_status_and_age(cronlease: Shell, room: Room) -> None:
    assert cronlease.says_quickly("runs") == "There are no runs yet.\n"
    fill(room)

    def shown(*words: str) -> list[tuple[str, str]]:
        found = json.loads(cronlease.says_quickly("runs", "--json", *words))
        return [(run["function_name"], run["status"]) for run in found]

    assert shown() == [("fails", "failed"), ("fails", "success"), ("runs", "running")]
    assert shown("fails", "--status", "success") == [("fails", "success")]
    room.query("update refresh_runs set started_at = started_at - interval '2 h' where status = 'success'")
    assert shown("--since", "1h") == [("fails", "failed"), ("runs", "running")]
    (line,) = cronlease.says_quickly("runs", "fails", "--status", "failed").splitlines()[2:]
    assert [*line.split()[3:6], *line.split()[7:]] == ["fails", "failed", "manual", "7", "boom"]
    status, out, err = cronlease.quickly("runs", "--limit", "1")
    assert (status, len(out.splitlines()), err) == (0, 3, "There may be more: --limit shows more than 1.\n")
    assert cronlease.says_quickly("runs", "rests") == "There are no runs yet.\n"
    status, out, err = cronlease.quickly("runs", "fials")
    assert (status, out, err) == (1, "", 'Error: there is no schedule named "fials": did you mean "fails"?\n')


DOWN = "postgresql://me:opensesame@127.0.0.1:1/none"


@pytest.mark.parametrize("verb", ["status", "runs", "schedule list", "migrate", "migrate --check", "emulate --once"])
def test_a_database_that_is_down_is_one_sentence_and_what_to_check(tmp_path: Path, verb: str) -> None:
    cronlease = Shell(DOWN, tmp_path)
    status, out, err = cronlease.quickly(*verb.split(), *(["--port", str(free_port())] if "emulate" in verb else []))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.endswith(": check DATABASE_URL and that the server is up\n")
    assert "opensesame" not in err


@pytest.mark.parametrize("verb", ["status", "migrate", "signals"])
def test_with_debug_the_driver_s_own_frames_are_shown(tmp_path: Path, verb: str) -> None:
    cronlease = Shell(DOWN, tmp_path)
    err = cronlease.quickly("--debug", verb)[2]
    assert "psycopg.OperationalError: " in err
    assert "in connect_sync" in err
    assert "opensesame" not in err
    # One that the driver cannot read it would quote.
    cronlease.environment["DATABASE_URL"] = "postgresql://me:opensesame@[::1/none"
    status, _, err = cronlease.quickly("--debug", verb)
    assert (status, err.splitlines()[-1].startswith("Error: DATABASE_URL cannot be read: write ")) == (1, True)
    assert "psycopg" not in err.replace("psycopg.conninfo import", "")
    assert "opensesame" not in err


def test_a_trigger_here_makes_what_is_missing_and_says_how_it_ended(empty_dsn: str, tmp_path: Path) -> None:
    cronlease, room = Shell(empty_dsn, tmp_path), Room(empty_dsn)
    room.query("create table effect (request_id uuid)")
    here = ("trigger", "--source", str(JOBS), "--target", "tick")
    told = json.loads(cronlease.says(*here, "--json"))
    assert (told["function"], told["status"], told["fetched"]) == ("tick", "success", 1)
    status, out, _ = cronlease(*here, "--force", "--args", '{"fail": "boom"}')
    assert (status, out.split(",")[-1].split(": ")[-1]) == (1, "boom\n")
    assert [row[0] for row in room.query("select status from refresh_runs order by fence")] == ["success", "failed"]
    status, out, err = cronlease("trigger", "--source", str(JOBS), "--target", "nope")
    assert (status, out) == (2, "")
    assert err.startswith(f'Error: "nope" is not a @scheduled function of {JOBS}: it has tick, tock')


@pytest.mark.parametrize(
    ("words", "environment", "status", "said"),
    [
        (["--json"], {"CRONLEASE_SPAWNED": str(uuid4())}, 0, '"reason": "spawned"'),
        (["--url", "http://127.0.0.1:1"], {"CRONLEASE_SPAWNED": str(uuid4())}, 0, "skipped, spawned"),
        (["--url", "http://127.0.0.1:1"], {}, 1, "http://127.0.0.1:1 cannot be reached: "),
        (["--url", "localhost"], {}, 2, "localhost is not an address: write https://..."),
        (["--url", "ftp://127.0.0.1:1"], {}, 2, "ftp://127.0.0.1:1 is not an address: write https://..."),
        (["--source", "nowhere.py"], {}, 2, "there is no Python file "),
        (["--url", "http://127.0.0.1:1", "--identity"], {"PATH": ""}, 1, "gcloud is not on the path: install "),
        (["--url", "http://127.0.0.1:1", "--token-file", "nowhere"], {}, 1, "nowhere cannot be read: No such file"),
        (
            ["--url", "http://127.0.0.1:1", "--token", "short"],
            {},
            1,
            "the token cannot be used: a token has at least",
        ),
        (["--url", "http://127.0.0.1:1", "--token", "x", "--identity"], {}, 2, "exclude each other"),
        (["--token", "x"], {}, 2, "a token is for --url"),
        (["--url", "http://127.0.0.1:1", "--target", "tick"], {}, 2, "--target is for a function here: with --url"),
        (["--url", "http://127.0.0.1:1"], {"FUNCTION_TARGET": "tick"}, 1, "http://127.0.0.1:1 cannot be reached: "),
    ],
)
def test_what_a_trigger_cannot_do_is_one_sentence(
    tmp_path: Path, words: list[str], environment: dict[str, str], status: int, said: str
) -> None:
    cronlease = Shell("postgresql://127.0.0.1:1/none", tmp_path)
    cronlease.environment |= environment
    code, out, err = cronlease.quickly("trigger", *words)
    assert code == status
    assert said in (out if status == 0 else err.splitlines()[-1])


def test_a_trigger_over_http_sends_its_token_and_says_the_answer(
    serve: Serve, dsn: str, room: Room, tmp_path: Path
) -> None:
    room.query("create table effect (request_id uuid)")
    url = serve(dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN=TOKEN).url
    cronlease = Shell(None, tmp_path)
    status, out, _ = cronlease.quickly("trigger", "--url", url)
    assert (status, out[:29]) == (1, "refused: unauthorized (401): ")
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert cronlease.says_quickly("trigger", "--url", url, "--token-file", str(tmp_path / "token")).startswith(
        "tick: success in "
    )
    cronlease.environment["CRONLEASE_TOKEN"] = TOKEN
    assert cronlease.says_quickly("trigger", "--url", url).startswith("tick: skipped, not_due until 2")
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(f'#!/bin/sh\ntest "$*" = "auth print-identity-token" && echo {TOKEN}\n')
    gcloud.chmod(0o755)
    cronlease.environment = {
        **cronlease.environment,
        "PATH": str(tmp_path),
        "CRONLEASE_TOKEN": "another-token-of-letters",
    }
    forced = ("trigger", "--url", url, "--identity", "--force", "--args", '{"fail": "boom"}')
    status, out, _ = cronlease.quickly(*forced)
    assert (status, out) == (1, "tick: failed (500): ValueError: boom\n")
    assert cronlease.quickly("trigger", "--url", f"{url}/nowhere", "--identity")[:2] == (
        1,
        "refused: not_found (404): there is nothing at this path: the paths are /, /<function>, /run-due,"
        " /health/live, /health/ready, /health/schedules, /status, /status/<function>\n",
    )


class Somebody(BaseHTTPRequestHandler):
    """No function of ours: it answers a redirect, and would see the token if that was followed."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.seen.append(self.path)
        self.send_response(307)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def test_a_token_is_not_sent_after_a_redirect(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", free_port()), Somebody) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        status, _, err = Shell(None, tmp_path).quickly("trigger", "--url", url, "--token", TOKEN)
        server.shutdown()
    assert (status, Somebody.seen) == (1, ["/"])
    assert err == f"Error: {url} answered 307, but not as a function of ours does: check the URL\n"


AS_OWNER = "run it as the owner of the schema"
WITH_ROLE = "run it as the owner, or as a role with {}, which `cronlease migrate --roles` makes"


@pytest.mark.parametrize(
    "words",
    [
        "runs",
        "explain tick",
        "schedule list",
        "schedule show tick",
        "schedule pause tick",
        "schedule resume tick",
        "schedule unlock tick --yes",
        "schedule delete tick --yes",
        "recover",
        "migrate --check",
    ],
)
def test_whoever_has_a_role_of_ours_is_sent_to_the_owner_for_the_rest(
    cronlease: Shell, room: Room, words: str
) -> None:
    migrate(room.dsn, roles=True)
    room.query("select ensure_schedule('tick')")
    cronlease.environment["DATABASE_URL"] = make_conninfo(room.dsn, options="-c role=cronlease_reader")
    status, _, err = cronlease.quickly(*words.split())
    assert (status, err.strip().endswith(f": {AS_OWNER}")) == (1, True), err


def test_whoever_lacks_a_role_of_ours_is_told_which(cronlease: Shell, room: Room) -> None:
    migrate(room.dsn, roles=True)
    create = ("schedule", "create", "once", "--action", "send_report")
    as_role = {
        who: make_conninfo(room.dsn, options=f"-c role={who}") for who in ("cronlease_runner", "cronlease_reader")
    }
    cronlease.environment["DATABASE_URL"] = as_role["cronlease_reader"]
    status, _, err = cronlease.quickly(*create)
    assert (status, err.strip().endswith(WITH_ROLE.format("cronlease_runner"))) == (1, True), err
    assert cronlease.quickly("status")[0] == 0
    cronlease.environment["DATABASE_URL"] = as_role["cronlease_runner"]
    assert cronlease.quickly(*create)[0] == 0
    cronlease.environment["DATABASE_URL"] = make_conninfo(room.dsn, options="-c role=pg_monitor")
    status, _, err = cronlease.quickly("status")
    assert (status, err.strip().endswith(WITH_ROLE.format("cronlease_reader"))) == (1, True), err
