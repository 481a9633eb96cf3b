"""`cronlease signals` and `cronlease sources` as a person runs them: real processes, feeds and database."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from opening_signals.samples.feeds import FeedServer
from tests.acceptance.conftest import FUNCTIONS, clean_environment

pytestmark = pytest.mark.thorough

PROJECT = FUNCTIONS.parent / "pyproject.toml"


@pytest.fixture(scope="session")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that says of the checkout what its installation says: the entry points of pyproject.toml."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    place = tmp_path_factory.mktemp("metadata")
    described = place / f"cronlease-{project['version']}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: cronlease\nVersion: {project['version']}\n")
    (described / "entry_points.txt").write_text(
        "\n".join(
            f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in entries.items())
            for group, entries in project["entry-points"].items()
        )
    )
    return place


class Shell:
    """Runs the command line the way a person's shell does, and without what that person's shell has set."""

    def __init__(self, metadata: Path) -> None:
        self.path = os.pathsep.join([str(FUNCTIONS), str(metadata)])
        self.variables: dict[str, str] = {}

    def __call__(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = clean_environment(**{"PYTHONPATH": self.path, **self.variables, **variables})
        command = [sys.executable, "-m", "cronlease.cli.main", *words]
        return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=50)

    def says(self, *words: str, **variables: str) -> str:
        done = self(*words, **variables)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def refuses(self, *words: str, **variables: str) -> str:
        """The one sentence with which it ends."""
        done = self(*words, **variables)
        assert done.returncode == 1, done
        assert done.stdout == ""
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture
def cronlease(metadata: Path) -> Shell:
    return Shell(metadata)


@pytest.fixture
def signals(cronlease: Shell, dsn: str, conn: psycopg.Connection[Any]) -> Shell:
    """A database in which one opening of each fate was seen within a day, and one long before."""
    cronlease.variables["DATABASE_URL"] = dsn
    conn.execute("set session_replication_role = replica")  # the trigger would not let first_seen_at be old
    conn.execute(
        """
        insert into opening_signals (source, external_id, title, location, url, first_seen_at, changed_at, closed_at)
        select source, external_id, title, 'Leeds, UK', 'https://boards.example/' || external_id,
          now() - first_seen, now() - changed, now() - closed
        from (values
          ('acme', '1', 'Baker', interval '1 h', interval '30 m', null::interval),
          ('acme', '2', 'Cook', '3 d', '2 h', null),
          ('acme', '3', 'Florist', '3 d', '2 d', '3 h'),
          ('globex', '4', 'Pâtissier, "evenings"', '5 h', null, '4 h'),
          ('globex', '5', 'Clerk', '3 d', '2 d', null)
        ) seen (source, external_id, title, first_seen, changed, closed)
        """
    )
    conn.execute(
        """
        insert into opening_changes (changed_at, source, external_id, field, old_value, new_value)
        values (now() - interval '2 h', 'acme', '2', 'title', 'Apprentice', 'Cook'),
          (now() - interval '2 d', 'acme', '2', 'title', 'Trainee', 'Apprentice')
        """
    )
    return cronlease


def fates(text: str) -> list[tuple[str, ...]]:
    return [(row["signal"], row["external_id"]) for row in json.loads(text)]


def test_what_is_new_changed_and_closed_is_shown_the_latest_first(signals: Shell) -> None:
    heading, _, *rows = signals.says("signals").splitlines()
    assert heading.split() == ["signal", "at", "source", "title", "organization", "location", "changes", "url"]
    assert [re.split(r"  +", row)[0] for row in rows] == ["new", "changed", "closed", "closed"]
    assert [row.split()[-1] for row in rows] == [f"https://boards.example/{number}" for number in (1, 2, 3, 4)]
    assert "Baker" in rows[0]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", rows[0])


def test_json_and_csv_say_the_same_in_full(signals: Shell) -> None:
    told = json.loads(signals.says("signals", "--json"))
    assert [(row["signal"], row["external_id"]) for row in told] == [
        ("new", "1"),
        ("changed", "2"),
        ("closed", "3"),
        ("closed", "4"),
    ]
    assert told[3]["title"] == 'Pâtissier, "evenings"'
    assert told[0]["first_seen_at"].endswith("+00:00")
    assert told[0]["closed_at"] is None
    moments = zip(told, ("first_seen_at", "changed_at", "closed_at", "closed_at"), strict=True)
    assert all(row["at"] == row[name] for row, name in moments)
    read = list(csv.DictReader(io.StringIO(signals.says("signals", "--csv"))))
    assert [row.pop("changes") for row in read] == ["", "title: Apprentice -> Cook", "", ""]
    ((change,),) = filter(None, [row.pop("changes") for row in told])
    assert datetime.fromisoformat(change.pop("at")).tzinfo is not None
    assert change == {"field": "title", "from": "Apprentice", "to": "Cook"}
    assert read == [{name: value or "" for name, value in row.items()} for row in told]


def test_since_and_source_choose(signals: Shell) -> None:
    assert fates(signals.says("signals", "--since", "90m", "--json")) == [("new", "1")]
    assert fates(signals.says("signals", "--since", "150m", "--json")) == [("new", "1"), ("changed", "2")]
    week = fates(signals.says("signals", "--since", "7d", "--json"))
    assert week == [("new", "1"), ("closed", "3"), ("closed", "4"), ("new", "2"), ("new", "5")]
    assert fates(signals.says("signals", "--source", "globex", "--json")) == [("closed", "4")]


def test_a_limit_says_how_many_more_there_are_and_json_has_all_unless_one_is_asked_for(
    signals: Shell, conn: psycopg.Connection[Any]
) -> None:
    done = signals("signals", "--limit", "3")
    assert (len(done.stdout.splitlines()), done.stderr) == (5, "1 more: --limit shows more than 3.\n")
    conn.execute(
        "insert into opening_signals (source, external_id, title, url)"
        " select 'many', n::text, 'Clerk', 'https://boards.example' from generate_series(1, 120) n"
    )
    done = signals("signals")
    assert (len(done.stdout.splitlines()), done.stderr) == (102, "24 more: --limit shows more than 100.\n")
    assert len(fates(signals.says("signals", "--json"))) == 124
    assert len(fates(signals.says("signals", "--json", "--limit", "7"))) == 7


def test_nothing_to_show_is_said_in_the_form_asked_for(signals: Shell) -> None:
    nothing = ("signals", "--source", "globex", "--since", "1m")
    assert signals.says(*nothing) == "No opening appeared, changed or closed in that time.\n"
    assert json.loads(signals.says(*nothing, "--json")) == []
    assert signals.says(*nothing, "--csv").startswith('"signal","at","source",')


def test_a_feed_cannot_write_on_the_terminal(signals: Shell, conn: psycopg.Connection[Any]) -> None:
    conn.execute("update opening_signals set title = E'\\x1b[2J\\nroot' where external_id = '1'")
    said = signals.says("signals")
    assert "?[2J?root" in said
    assert "\x1b" not in said
    assert json.loads(signals.says("signals", "--json"))[0]["title"] == "\x1b[2J\nroot"


def test_a_feed_cannot_put_a_formula_in_a_spreadsheet(signals: Shell, conn: psycopg.Connection[Any]) -> None:
    formula = '=HYPERLINK("https://evil.example","x")'
    conn.execute(
        "update opening_signals set title = %s, location = E'\\x1b]0;x\\x07' where external_id = '1'", [formula]
    )
    conn.execute("update opening_signals set title = E'\\t@SUM(A1)' where external_id = '2'")
    conn.execute("update opening_signals set title = 'x;=1+1' where external_id = '3'")
    written = signals.says("signals", "--csv")
    first, second, third, _ = csv.DictReader(io.StringIO(written))
    assert (first["title"], first["location"]) == (f"'{formula}", "?]0;x?")
    assert (second["title"], third["title"]) == ("'?@SUM(A1)", "x;'=1+1")
    # All are quoted: a spreadsheet with other separators does not tear them.
    assert all(line.startswith('"') and line.endswith('"') for line in written.splitlines())
    assert ""","x;'=1+1",""" in written


def test_an_invalid_duration_is_explained(signals: Shell) -> None:
    done = signals("signals", "--since", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is not a duration: write 90s, 5m, 2h or 1d" in done.stderr


def test_a_database_that_cannot_show_them_is_one_sentence(cronlease: Shell, empty_dsn: str) -> None:
    assert "run `cronlease migrate` with the --source" in cronlease.refuses("signals", DATABASE_URL=empty_dsn)
    down = "postgresql://user:opensesame@127.0.0.1:1/none"
    assert "opensesame" not in cronlease.refuses("signals", DATABASE_URL=down)


def test_the_help_shows_the_jobs_verbs_beside_ours(cronlease: Shell) -> None:
    said = cronlease.says("--help")
    assert [word in said for word in ("emulate", "migrate", "signals", "sources")] == [True] * 4
    assert "check" in cronlease.says("sources", "--help")


def test_another_verb_does_not_load_the_job(cronlease: Shell) -> None:
    probe = (
        "import sys, cronlease.cli.main\n"
        "try: cronlease.cli.main.main(['migrate', '--help'])\n"
        "finally: print([name for name in sys.modules if name.startswith('opening_signals')])"
    )
    environment = clean_environment(PYTHONPATH=cronlease.path)
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


def test_without_entry_points_our_own_verbs_still_work(cronlease: Shell) -> None:
    probe = (
        "import sys, cronlease.cli.main\n"
        "from importlib.metadata import EntryPoints\n"
        "cronlease.cli.main.entry_points = lambda **_: EntryPoints(())\n"
        "cronlease.cli.main.main(sys.argv[1:])"
    )

    def run(word: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", probe, word]
        return subprocess.run(command, env=clean_environment(), capture_output=True, text=True)

    assert "migrate" in run("--help").stdout
    assert "signals" not in run("--help").stdout
    assert "No such command 'signals'" in run("signals").stderr


def test_a_verb_that_cannot_be_imported_harms_no_other(cronlease: Shell, tmp_path: Path) -> None:
    described = tmp_path / "broken-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (described / "entry_points.txt").write_text(
        "[cronlease.commands]\nbroken = nowhere.cli:main\nmigrate = nowhere:it\n"
    )
    cronlease.path += f"{os.pathsep}{tmp_path}"
    said = cronlease.says("--help")
    assert re.search(r"broken +\(cannot be loaded\)", said)
    assert re.search(r"migrate +Create our tables", said)
    assert "broken (nowhere.cli:main) cannot be loaded: No module named 'nowhere'" in cronlease.refuses("broken")


@pytest.fixture
def feeds() -> Iterator[FeedServer]:
    with FeedServer(latency=0) as server:
        server.start()
        yield server


@pytest.fixture
def listed(cronlease: Shell, feeds: FeedServer, tmp_path: Path) -> Path:
    """A sources file with two sample boards, in an environment in which there is no database to write to."""
    feeds.write_sources(tmp_path / "sources.toml", ("acme", "globex"))
    cronlease.variables |= {"CRONLEASE_SOURCES": str(tmp_path / "sources.toml"), "CRONLEASE_DATA_DIR": str(tmp_path)}
    return tmp_path / "sources.toml"


def cells(table: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in table.splitlines()]


def test_every_source_is_fetched_and_nothing_is_written(cronlease: Shell, listed: Path) -> None:
    heading, _, *rows = cells(cronlease.says("sources", "check"))
    assert heading == ["name", "kind", "HTTP", "items", "rejected", "repaired", "skipped", "time", "result"]
    assert [row[:7] for row in rows] == [
        [name, "greenhouse", "200", "8", "0", "0", "0"] for name in ("acme", "globex")
    ]
    assert all(re.fullmatch(r"\d+\.\d\d s", row[7]) and row[8] == "ok" for row in rows)
    assert list(listed.parent.iterdir()) == [listed]


def test_one_source_can_be_chosen_by_name(cronlease: Shell, listed: Path) -> None:
    (told,) = json.loads(cronlease.says("sources", "check", "--source", "globex", "--json"))
    assert (told["name"], told["status"], told["items"], told["error"]) == ("globex", 200, 8, None)
    assert "there is no source 'nobody'" in cronlease.refuses("sources", "check", "--source", "nobody")


def test_a_source_that_fails_is_named_and_the_others_are_shown(cronlease: Shell, listed: Path) -> None:
    listed.write_text(listed.read_text().replace("/globex/", "/gone/"))
    done = cronlease("sources", "check")
    assert (done.returncode, done.stderr) == (1, "")
    _, _, first, second, note = cells(done.stdout)
    assert (first[0], first[-1]) == ("acme", "ok")
    assert (second[0], second[2], second[-1]) == ("globex", "404", "failed")
    assert note[0].startswith("globex failed: ")
    assert "404" in note[0]


def test_a_source_that_nobody_answers_has_no_status(cronlease: Shell, listed: Path) -> None:
    listed.write_text(
        '[[source]]\nname = "own"\nkind = "rss"\nurl = "http://127.0.0.1:1/?key=opensesame"\nallow_private = true\n'
    )
    done = cronlease("sources", "check")
    assert done.returncode == 1
    assert cells(done.stdout)[2][:3] == ["own", "rss", "-"]
    assert "own failed: could not connect" in done.stdout
    assert "opensesame" not in done.stdout + done.stderr


def test_a_source_whose_host_is_left_alone_has_not_failed(cronlease: Shell, listed: Path) -> None:
    with board(b"", 429) as url:
        listed.write_text(entry(url, "first") + entry(url, "second"))
        done = cronlease("sources", "check", CRONLEASE_PER_HOST="1")
    assert done.returncode == 1
    assert [row[-1] for row in cells(done.stdout)[2:4]] == ["failed", "not asked"]
    assert "second not asked: its host asked to be left alone" in done.stdout


def test_items_that_are_left_out_or_repaired_are_counted_by_reason(cronlease: Shell, listed: Path) -> None:
    baker = {"id": 1, "title": "Baker"}
    items = [baker | {"first_published": "soon"}, baker, baker, {"id": 2}, {"id": 3}, {"title": "Cook"}]
    with board(json.dumps({"jobs": items, "meta": {"total": 6}}).encode()) as url:
        listed.write_text(entry(url))
        (told,) = json.loads(cronlease.says("sources", "check", "--json"))
        _, _, row, *notes = cronlease.says("sources", "check").splitlines()
    assert told["rejected"] == {"title: is missing": 2, "external_id: is missing": 1}
    late = "posted_at: is not an ISO 8601 time, and was left out"
    assert told["repaired"] == {"external_id: came again, and the last one counts": 2, late: 1}
    assert cells(row)[0][3:7] == ["6", "3", "3", "0"]
    assert notes == [
        "own rejected: title: is missing (2); external_id: is missing (1)",
        f"own repaired: external_id: came again, and the last one counts (2); {late} (1)",
    ]


def entry(url: str, name: str = "own") -> str:
    return f'[[source]]\nname = "{name}"\nkind = "greenhouse"\nurl = "{url}"\nallow_private = true\n'


def test_a_source_that_is_gone_from_the_file_is_named_and_can_be_forgotten(
    signals: Shell, conn: psycopg.Connection[Any], listed: Path
) -> None:
    conn.execute("insert into opening_sources (name) values ('acme'), ('globex')")
    with board(json.dumps({"jobs": []}).encode()) as url:
        listed.write_text(entry(url, "globex"))
        *_, said = signals.says("sources", "check").splitlines()
    assert said == (
        "open openings of sources that are not in the file: acme (2); cronlease sources forget NAME closes them"
    )
    assert signals.says("sources", "forget", "acme", "--yes") == "Forgot 'acme': 2 openings closed.\n"
    assert conn.execute("select source from openings where open").fetchall() == [("globex",)]


@contextmanager
def board(body: bytes, status: int = 200) -> Iterator[str]:
    """An address at which these bytes are served as JSON. With another status it asks to be left alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status != 200:
                self.send_header("Retry-After", "3600")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jobs"
        finally:
            server.shutdown()
            thread.join()


def test_a_broken_sources_file_is_one_sentence(cronlease: Shell, listed: Path) -> None:
    listed.write_text('[[source]]\nname = "acme"\nkind = "greenhose"\n')
    assert "source 'acme': 'kind' is unknown" in cronlease.refuses("sources", "check")
    listed.write_text("[[source]\n")
    assert "is not TOML" in cronlease.refuses("sources", "check")
    listed.unlink()
    assert "cannot be read: No such file" in cronlease.refuses("sources", "check", "--json")


def test_without_sources_one_is_told_where_they_belong(cronlease: Shell) -> None:
    done = cronlease("sources", "check", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert "CRONLEASE_SOURCES" in done.stderr


GUIDE = (FUNCTIONS / "opening_signals" / "README.md").read_text(encoding="utf-8")


def test_the_ten_lines_of_the_guide_are_a_source(cronlease: Shell, listed: Path) -> None:
    (entry,) = re.findall(r'```toml\n(\[\[source\]\]\nname = "city-licences"\n.*?)```', GUIDE, re.DOTALL)
    assert entry.count("\n") == 10
    item = {
        "licence_no": "L-1",
        "trade_name": "Cafe",
        "street": "12 Court St",
        "city": "Leeds",
        "issued_on": "2026-11-09",
    }
    with board(json.dumps({"result": {"records": [item]}}).encode()) as url:
        here = re.sub(r"(?m)^url = .*$", f'url = "{url}"\nallow_private = true', entry)
        listed.write_text(here, encoding="utf-8")
        (told,) = json.loads(cronlease.says("sources", "check", "--json"))
    assert (told["items"], told["rejected"], told["skipped"]) == (1, {}, 0)
