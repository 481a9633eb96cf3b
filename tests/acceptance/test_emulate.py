"""`cronlease emulate` as a person runs it: what it shows, and that nothing is left when it ends."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from cronlease.cli.main import main
from tests.acceptance.conftest import client, free_port
from tests.faults.profile import thorough

HIT = re.compile(r"^\d\d:\d\d:\d\d  #\d+ +(\d{3}|---)  (ok|skipped|not ok|no) +(\w+) +\d+\.\d{3} s")


@pytest.fixture
def data_dir(place: Path) -> Path:
    (place / "data").mkdir(mode=0o755)
    return place / "data"


@pytest.fixture
def port() -> int:
    return free_port()


@contextmanager
def emulator(data_dir: Path, *options: str, cwd: Path | None = None, **extra: str) -> Iterator[subprocess.Popen[str]]:
    configured = {key for key in os.environ if key.startswith(("PG", "CRONLEASE_")) or key == "DATABASE_URL"}
    environment = {key: value for key, value in os.environ.items() if key not in configured}
    environment |= {
        "CRONLEASE_DATA_DIR": str(data_dir),
        "TMPDIR": str(data_dir.parent),  # so that what a killed one leaves there goes with it
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUNBUFFERED": "1",
        **extra,
    }
    command = [sys.executable, "-m", "cronlease.cli.main", "emulate", *options]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=cwd,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def processes_of(data_dir: Path) -> list[str]:
    """Every live process that was given this data directory or works in it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            given = f"CRONLEASE_DATA_DIR={data_dir}\0".encode() in (entry / "environ").read_bytes()
            # PostgreSQL's processes write their titles where their environment was.
            if given or (entry / "cwd").readlink().is_relative_to(data_dir):
                found.append((entry / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:  # it has just ended, or is not ours to look at
            continue
    return found


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {seconds} s: {what}"
        time.sleep(0.05)


def read_to_first_hit(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if HIT.match(line):
            return said
    raise AssertionError(f"it ended without a hit: {said}")


@pytest.mark.thorough
def test_one_sees_a_success_not_due_and_locked_within_half_a_minute(data_dir: Path, port: int) -> None:
    with emulator(data_dir, "--for", "17s", "--port", str(port)) as process:
        said, _ = process.communicate(timeout=55)
    assert process.returncode == 0, said
    assert processes_of(data_dir) == []
    hits = [found.groups() for line in said.splitlines() if (found := HIT.match(line))]
    assert {("200", "ok", "success"), ("200", "skipped", "not_due"), ("200", "skipped", "locked")} == set(hits), said
    assert re.search(r"ok +success +.* fetched 40, inserted 40, updated 0, unchanged 0", said), said
    assert f"curl -X POST http://127.0.0.1:{port}/ -d '{{\"force\": true}}'" in said
    assert re.search(r"^  refresh_opening_signals +\w+ +success +[2-9] +0 ", said, re.MULTILINE), said
    assert re.search(r"^  acme +\d+ ", said, re.MULTILINE), said
    export = re.search(r"^  other verbs   (export PGHOST=(?:.*\\\n)+.*)$", said, re.MULTILINE)
    assert export, said
    shell = subprocess.run(["sh", "-c", f"{export[1]}\nenv"], capture_output=True, text=True, check=True)
    assert re.search(r"^PGDATABASE=emulator$", shell.stdout, re.MULTILINE)
    assert re.search(r"^CRONLEASE_EVERY=6s\.\.9s$", shell.stdout, re.MULTILINE)
    assert re.search(r"^CRONLEASE_SOURCES=\S+toml$", shell.stdout, re.MULTILINE)
    assert "\n  violations  0\n" in said, said
    password = (data_dir / "postgres" / "cluster" / "cronlease_password").read_text()
    assert password not in said


@pytest.mark.thorough
def test_its_page_shows_the_verdict_so_far(data_dir: Path, port: int) -> None:
    with emulator(data_dir, "--port", str(port)) as process:
        assert f"open http://127.0.0.1:{port}/status in a browser" in read_to_first_hit(process)

        def verdict() -> str:
            page = client().get(f"http://127.0.0.1:{port}/status", headers={"Accept": "text/html"}).text
            return page.partition("The emulator's verdict so far")[2]

        wait_until(lambda: re.search(r"hits +[1-9]", verdict()), "hits are counted on the page", 40)
        assert re.search(r"violations +0\b", verdict())
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=55)
    assert process.returncode == 0, said
    assert processes_of(data_dir) == []


@pytest.mark.thorough
def test_a_signal_stops_everything_in_order_and_the_next_one_need_not_wait_until_it_is_due(
    data_dir: Path, port: int
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with emulator(data_dir, "--port", str(port)) as process:
            # While the first hit runs: it was due, although the emulator before has left another time.
            assert re.search(r"#2 .* locked ", read_to_first_hit(process))
            assert any("functions_framework" in command for command in processes_of(data_dir))
            assert any("postgres: checkpointer" in command for command in processes_of(data_dir))
            process.send_signal(number)
            said, _ = process.communicate(timeout=30)
            assert process.returncode == 0, said
            assert said.endswith("stopped\n")
            assert "no answer" not in said
            assert processes_of(data_dir) == []
    log = (data_dir / "postgres" / "postgres.log").read_text()
    assert "received fast shutdown request" in log
    assert "database system is shut down" in log
    assert list(data_dir.parent.glob("cronlease-*.log")) == []


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_killed_emulator_leaves_no_process_behind(data_dir: Path, port: int) -> None:
    with emulator(data_dir, "--port", str(port)) as process:
        read_to_first_hit(process)
        process.kill()
        process.wait()
        wait_until(lambda: not processes_of(data_dir), "no process is left")


def test_a_busy_port_is_named_before_anything_is_started(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        number = busy.getsockname()[1]
        with emulator(data_dir, "--port", str(number)) as process:
            said, _ = process.communicate(timeout=30)
    assert said == f"Error: port {number} is in use: pass --port N\n"
    assert process.returncode == 1
    assert list(data_dir.iterdir()) == []


FAULTS = ("duplicate", "dropped response", "kill", "overlap", "pause", "database restart")


@pytest.mark.thorough
def test_chaos_breaks_no_promise(data_dir: Path, port: int) -> None:
    often = ["--kill-every", "4s", "--pause-every", "4s", "--db-restart-every", "3s", "--duplicate", "0.5"]
    options = ["--chaos", *often, "--drop-response", "0.3", "--for", "12s", "--port", str(port)]
    with emulator(data_dir, *options, CRONLEASE_LEASE="2s", CRONLEASE_EVERY="1s..2s") as process:
        said, _ = process.communicate(timeout=55)
    assert process.returncode == 0, said
    verdict = dict(
        line.split(maxsplit=1) for line in said.partition("\nverdict\n")[2].splitlines() if line[:2] == "  "
    )
    assert verdict["violations"] == "0"
    # After a kill, the sources that were being fetched take turns, and a short lease may not have time for all.
    assert re.search("success|partial", verdict["real"]), said
    assert [kind for kind in FAULTS if f"{kind} " not in verdict["faults"]] == [], said
    assert processes_of(data_dir) == []


CHEATS = """
import os
import time

from cronlease import Run, action, scheduled

print("imported")


@scheduled(every="1s", backoff="1h")
async def cheat(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("update refresh_schedule set run_count = run_count + 1")


@scheduled(backoff="1h")
async def fail(run: Run) -> None:
    raise RuntimeError("the flux is not capacitated")


@scheduled
async def die(run: Run) -> None:
    print("I am dying", flush=True)
    os._exit(3)


@scheduled
def block(run: Run) -> None:
    time.sleep(60)


@action("act")
async def act(run: Run) -> None: ...
"""


@pytest.fixture
def cheats(tmp_path: Path) -> Path:
    (tmp_path / "main.py").write_text(CHEATS)
    return tmp_path / "main.py"


def kept_log(said: str) -> str:
    """What is in the log that it says it has kept."""
    (path,) = re.findall(r"its log is kept: (.*)$", said, re.MULTILINE)
    return Path(path).read_text()


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        (
            "raise RuntimeError('the flux is low')",
            2,
            "{} cannot be imported, RuntimeError: the flux is low",
        ),
        thorough(
            "import os\nif 'WORKERS' in os.environ: print('the flux is low', flush=True) or os._exit(3)\n"
            + CHEATS.replace("cheat", "refresh_opening_signals"),
            1,
            "the function ended with status 3: the flux is low",
        ),
    ],
)
def test_a_function_that_cannot_start_is_one_sentence_and_its_log_is_kept(
    data_dir: Path, port: int, dsn: str, tmp_path: Path, text: str, status: int, sentence: str
) -> None:
    source = tmp_path / "main.py"
    source.write_text(text)
    options = ["--port", str(port), "--source", str(source), "--target", "refresh_opening_signals"]
    with emulator(data_dir, *options, DATABASE_URL=dsn) as process:
        said, _ = process.communicate(timeout=30)
    notice, error = said.splitlines()
    assert notice.startswith('emulating in the configured database "')
    assert error.startswith(f"Error: {sentence.format(source)}; its log is kept: ")
    assert process.returncode == status
    assert "the flux is low" in kept_log(said)
    assert processes_of(data_dir) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CHEATS, '"act" is not a @scheduled function of {}: it has cheat, fail, die, block'),
        ("def act(request): ...", "{} declares nothing to run: write @scheduled or @action above a function"),
    ],
)
def test_what_a_hit_cannot_run_is_refused_before_anything_is_started(
    data_dir: Path, port: int, tmp_path: Path, text: str, sentence: str
) -> None:
    source = tmp_path / "main.py"
    source.write_text(text)
    options = ["--port", str(port), "--source", str(source), "--target", "act"]
    with emulator(data_dir, *options, DATABASE_URL="postgresql://127.0.0.1:1/nowhere") as process:
        said, _ = process.communicate(timeout=30)
    assert (process.returncode, said) == (2, f"Error: {sentence.format(source)}\n")


def test_samples_are_refused_where_a_configured_database_has_other_sources(
    data_dir: Path, port: int, dsn: str
) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("insert into opening_sources (name) values ('umbrella')")
    with emulator(data_dir, "--once", "--port", str(port), DATABASE_URL=dsn) as process:
        said, _ = process.communicate(timeout=30)
    assert (process.returncode, said.count("\n")) == (2, 2), said
    assert re.search(
        r'^Error: database ".*not samples \(umbrella\): unset DATABASE_URL to emulate in', said, re.MULTILINE
    )


def test_a_function_that_dies_is_one_sentence_after_the_verdict(
    data_dir: Path, port: int, dsn: str, cheats: Path
) -> None:
    options = ["--source", str(cheats), "--target", "die", "--port", str(port)]
    with emulator(data_dir, *options, DATABASE_URL=dsn) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    verdict, error = said.partition("\nverdict\n")[2].rsplit("\n", 2)[:2]
    assert verdict.startswith("  hits        1: 0 ran, 0 skipped, 1 without an answer\n  real runs   1 (running 1)\n")
    assert "\n              0 answered, 1 whose answer nobody got\n" in verdict
    assert "\n  note        the only real run did not succeed" in verdict
    assert error.startswith("Error: the function ended with status 3: I am dying; its log is kept: ")
    assert "I am dying" in kept_log(said)
    assert "CRONLEASE_SOURCES" not in said, "it reads no sample feeds"


@pytest.mark.parametrize("more", [["--hit-every", "1h"], thorough(["--once"])])
def test_a_second_ctrl_c_does_not_wait_for_what_the_first_one_waits_for(
    data_dir: Path, port: int, dsn: str, cheats: Path, more: list[str]
) -> None:
    held = "select 1 from refresh_schedule where locked_by is not null"
    options = ["--source", str(cheats), "--target", "block", "--port", str(port), *more]
    with (
        psycopg.connect(dsn, autocommit=True) as conn,
        emulator(data_dir, *options, DATABASE_URL=dsn, CRONLEASE_DRAIN_SECONDS="60") as process,
    ):
        wait_until(lambda: conn.execute(held).fetchone(), "it runs")
        process.send_signal(signal.SIGINT)
        assert process.stdout
        waits = "waiting up to 10 s for the function and its run in progress to end: Ctrl-C ends it now\n"
        assert any(line == waits for line in process.stdout)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=5)
        assert process.returncode == (1 if "--once" in more else 0), said
    assert processes_of(data_dir) == []


PRICES = """
from cronlease import Run, scheduled


@scheduled(lease="5m", every="10m..15m", backoff="20m..40m")
async def refresh_prices(run: Run) -> None:
    async with run.commit() as conn:
        await conn.execute("insert into prices (name) values ('a')")
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A folder of a user's own: a function that writes a table, and the file that makes it."""
    (tmp_path / "main.py").write_text(PRICES)
    (tmp_path / "my.sql").write_text("-- Mine.\n\ncreate table if not exists\n  prices (name text);\n")
    return tmp_path


def verdict_of(said: str) -> dict[str, Any]:
    (line,) = [line for line in said.splitlines() if line.startswith('{"verdict"')]
    found: dict[str, Any] = json.loads(line)["verdict"]
    return found


@pytest.mark.parametrize(
    "how",
    [
        ["--chaos", "--kill-every", "0s", "--pause-every", "0s", "--sigterm-every", "0s", "--db-restart-every", "0s"],
        thorough(["--hit-every", "0.2s"]),
    ],
)
@pytest.mark.thorough
def test_the_times_of_a_decorator_are_shortened_and_the_setup_makes_its_table(
    data_dir: Path, port: int, prices: Path, how: list[str]
) -> None:
    options = ["--setup", str(prices / "my.sql"), "--port", str(port), "--json", *how]
    with emulator(data_dir, *options, cwd=prices, CRONLEASE_EVERY="0.5s..1s") as process:
        assert process.stdout
        runs = (line for line in process.stdout if '"status": "success"' in line)
        assert len(list(itertools.islice(runs, 3))) == 3
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    verdict = verdict_of(said)
    assert (verdict["runs"]["success"] >= 3, verdict["violations"], verdict["too_few"]) == (True, [], None)


@pytest.mark.thorough
def test_in_a_configured_database_times_are_shortened_by_speed_alone(
    data_dir: Path, port: int, dsn: str, prices: Path
) -> None:
    how = ["--schedule", "* * * * *", "--speed", "1000", "--attempt-deadline", "30m"]
    options = ["--setup", str(prices / "my.sql"), "--port", str(port), "--json", *how]
    with psycopg.connect(dsn, autocommit=True) as conn:
        # As a start before has left it.
        conn.execute("create table prices (name text)")
        with emulator(data_dir, *options, cwd=prices, DATABASE_URL=dsn) as process:
            wait_until(lambda: conn.execute("select name from prices offset 2").fetchone(), "three runs")
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "because of --speed a deployed function follows the shortened times for up to an hour" in said
    verdict = verdict_of(said)
    assert (verdict["runs"]["success"] >= 3, verdict["violations"], verdict["too_few"]) == (True, [], None)


@pytest.mark.thorough
@pytest.mark.parametrize("how", [["--hit-every", "0.2s", "--for", "2s"], ["--chaos", "--for", "2s"], ["--once"]])
def test_an_emulation_leaves_the_schedules_of_a_configured_database_as_they_are(
    data_dir: Path, port: int, dsn: str, prices: Path, how: list[str]
) -> None:
    # A function that declares no cadence follows the environment's, which must not be the emulator's.
    (prices / "main.py").write_text(PRICES.replace('every="10m..15m", ', "") if "--once" in how else PRICES)
    planned = "select next_run_at - last_run_at, planned_from, planned_at, slot_at, run_count from refresh_schedule"
    options = ["--setup", "my.sql", "--port", str(port), *how]
    with psycopg.connect(dsn, autocommit=True) as conn:
        with emulator(data_dir, *options, cwd=prices, DATABASE_URL=dsn) as process:
            process.communicate(timeout=30)
        first = conn.execute(planned).fetchall()
        assert [row[1] for row in first] == ["10m..15m"], "the first run is due, and plans by the function's own time"
        with emulator(data_dir, *options, cwd=prices, DATABASE_URL=dsn) as process:
            said, _ = process.communicate(timeout=30)
        assert conn.execute(planned).fetchall() == first, said
    assert ": your schedules keep their times: a hit runs only what is due" in said
    assert process.returncode == ("--chaos" in how), said
    if "--once" not in how:
        assert "\n  times         every 10m..15m, lease 5m, backoff 20m..40m\n" in said
        assert "a function keeps its times in a configured database" in said


@pytest.mark.thorough
def test_chaos_over_too_few_runs_fails_and_says_why(data_dir: Path, port: int, prices: Path) -> None:
    options = ["--chaos", "--setup", str(prices / "my.sql"), "--port", str(port), "--for", "2s"]
    with emulator(data_dir, *options, cwd=prices, CRONLEASE_EVERY="1h") as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1, said
    assert "\n  function      refresh_prices of ./main.py\n" in said
    assert (
        "\n  times         every 10m..15m, lease 3s, backoff 2s..4s (shortened from every 10m..15m, lease 5m" in said
    )
    # How many real runs there were depends on which faults came first.
    assert "\n  violations  0\n  this verdict proves nothing: " in said
    assert kept_log(said)


@pytest.mark.thorough
def test_a_setup_that_cannot_run_twice_is_one_sentence(data_dir: Path, port: int, dsn: str, prices: Path) -> None:
    (prices / "my.sql").write_text("create table prices (name text);\ncreate table prices (name text);")
    with emulator(data_dir, "--setup", "my.sql", "--port", str(port), cwd=prices, DATABASE_URL=dsn) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    sentence = (
        'Error: --setup my.sql, line 2: relation "prices" already exists; the file is run at every start: write'
    )
    assert said.splitlines()[-1].startswith(sentence)


@pytest.mark.thorough
def test_a_promise_that_is_broken_makes_the_exit_status_1(data_dir: Path, port: int, dsn: str, cheats: Path) -> None:
    options = [
        "--source",
        str(cheats),
        "--target",
        "cheat",
        "--port",
        str(port),
        "--hit-every",
        "0.5s",
        "--for",
        "2s",
    ]
    with emulator(data_dir, *options, "--json", DATABASE_URL=dsn) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1, said
    _, *lines, _ = said.splitlines()
    *hits, last = map(json.loads, lines)
    assert "Ran cheat: success" in kept_log(said)
    assert hits[0]["hit"]["body"]["status"] == "success"
    (violation,) = last["verdict"]["violations"]
    assert violation.startswith("a run did not advance the schedule exactly once: cheat, ")


@pytest.mark.thorough
def test_once_says_what_the_hit_was_answered(data_dir: Path, port: int, dsn: str, cheats: Path) -> None:
    options = ["--once", "--oidc", "--source", str(cheats), "--target", "fail", "--port", str(port)]
    answers = []
    for _ in range(2):
        with emulator(data_dir, *options, DATABASE_URL=dsn) as process:
            said, _ = process.communicate(timeout=30)
        _, _, answer, *_ = lines = said.splitlines()
        answers.append((process.returncode, json.loads(answer)["reason"], len(lines)))
        if process.returncode:
            assert "RuntimeError: the flux is not capacitated" in kept_log(said)
    # The failure costs a backoff, also in an emulator; a skip is no failure.
    assert answers == [(1, "failed", 4), (0, "not_due", 3)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--schedule", "*/5 * * *"], "Error: '*/5 * * *' is not a cron expression (it has 4 fields): write five"),
        (["--jobs", "nowhere.json"], "Error: nowhere.json cannot be read: No such file"),
        (["--source", "nowhere.py"], f"Error: there is no file {Path('nowhere.py').absolute()}: pass --source"),
        (["--setup", "nowhere.sql"], f"Error: there is no file {Path('nowhere.sql').absolute()}: pass --setup"),
        (["--schedule", "* * * * *", "--attempt-deadline", "5s"], "Error: an attempt deadline of 5s is refused"),
        (
            ["--jobs", "{}/list.json"],
            "Error: {}/list.json: it is not a JSON object; deploy/jobs.schema.json describes",
        ),
    ],
)
def test_what_cannot_be_scheduled_is_one_sentence(data_dir: Path, options: list[str], sentence: str) -> None:
    (data_dir / "list.json").write_text("[]")
    options, sentence = [option.format(data_dir) for option in options], sentence.format(data_dir)
    done = CliRunner().invoke(main, ["emulate", *options], env={"CRONLEASE_DATA_DIR": str(data_dir)})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--jobs", "jobs.json", "--retry-count", "1"], "--jobs says that already: leave --retry-count out"),
        (["--schedule", "* * * * *", "--hit-every", "1s"], "--schedule and --hit-every exclude each other"),
        (["--speed", "60"], "--speed is for a schedule: pass --schedule CRON or --jobs FILE with it"),
        (
            ["--hit-every", "1s", "--time-zone", "Europe/Berlin"],
            "--time-zone is for a schedule: pass --schedule CRON with",
        ),
        (["--duplicate", "nan"], "Invalid value for '--duplicate': 'nan' is not a number"),
        (["--schedule", "* * * * *", "--speed", "nan"], "Invalid value for '--speed': 'nan' is not a number"),
        (["--min-backoff", "1s"], "--min-backoff is for retries: pass --retry-count N with it"),
        (["--once", "--retry-count", "1"], "--once is a single hit: leave --retry-count out"),
        (["--once", "--for", "5s"], "--once is a single hit: leave --for out"),
        (["--once", "--chaos"], "--once is one hit without faults"),
        (["--once", "--kill-every", "5s"], "--once is one hit without faults"),
        (["--hit-every", "0s"], "--hit-every 0s leaves no pause"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, ["emulate", *options])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"Error: {sentence}")


def test_ctrl_c_while_it_is_imported_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "cronlease", "emulate"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        # Tests that run in the background of a shell inherit that the signal is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (-signal.SIGINT, "")
