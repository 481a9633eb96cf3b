"""What the job's verbs refuse, and how they say it: in this process, on a real database."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cronlease.cli.main import Toolbox
from cronlease.outcome import Status
from cronlease.run.run import watcher
from opening_signals import cli
from opening_signals.collect import PAGE
from opening_signals.job import refresh
from tests.integration.boards import Feeds, board, job, served
from tests.integration.conftest import Room

Call = Callable[..., Result]


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def test_whoever_watches_a_run_is_told_how_far_it_is(room: Room, feeds: Feeds) -> None:
    feeds.serve(acme=board(*(job(number) for number in range(PAGE + 1))), globex=board(job(1)))
    told: list[tuple[str, int, int]] = []
    before = watcher.set(lambda *said: told.append(said))
    try:
        assert room.enter(refresh).status == Status.SUCCESS
    finally:
        watcher.reset(before)
    whole = f"{PAGE + 2:,} openings"
    assert told[-2][0].endswith(f": {whole} fetched, sources")
    assert [told[-2][1:], len(told)] == [(2, 2), 6]
    assert told[-1][0].endswith(f": writing what changed of {whole}")


@pytest.fixture
def call(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs a verb where the sources file has acme, and the database has openings of acme and globex."""
    listed = tmp_path / "sources.toml"
    listed.write_text('[[source]]\nname = "acme"\nkind = "greenhouse"\nboard = "acme"\n')
    monkeypatch.setenv("CRONLEASE_SOURCES", str(listed))
    monkeypatch.setenv("DATABASE_URL", room.dsn)
    room.query(
        "insert into opening_signals (source, external_id, title) values ('acme', '1', 'a'), ('globex', '2', 'b')"
    )

    def run(verb: click.Command, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(verb, words, obj=Toolbox(), input=answer)

    return run


def refusal(done: Result) -> str:
    """The one sentence with which it ends."""
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.output
    return done.stderr.removeprefix("Error: ").rstrip("\n")


def test_a_source_that_nobody_knows_has_no_signals(call: Call, room: Room) -> None:
    said = refusal(call(cli.signals, "--source", "nobody", "--json"))
    assert said == "there is no source 'nobody', neither in the database nor in the file"
    assert call(cli.signals, "--source", "globex", "--json").exit_code == 0
    room.query("delete from opening_signals where source = 'acme'")
    assert call(cli.signals, "--source", "acme").stdout == "No opening appeared, changed or closed in that time.\n"


def test_json_and_csv_together_are_a_usage_error(call: Call) -> None:
    done = call(cli.signals, "--json", "--csv")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--json and --csv exclude each other" in done.stderr


def test_a_source_has_no_more_time_than_it_is_given(call: Call, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        entry = f'[[source]]\nname = "own"\nkind = "rss"\nurl = "{url}"\nallow_private = true\n'
        (tmp_path / "sources.toml").write_text(entry)
        done = call(cli.sources, "check", "--timeout", "0.2s")
    assert (done.exit_code, done.stderr) == (1, "")
    assert "own failed: was not done after 0.2 s" in done.stdout
    assert "longer than 0" in call(cli.sources, "check", "--timeout", "0s").stderr


def test_an_invalid_bound_is_one_sentence(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_SOURCES_AT_ONCE", "many")
    said = refusal(call(cli.sources, "check"))
    assert said == "CRONLEASE_SOURCES_AT_ONCE: 'many' is not a whole number from 1 to 64"


def test_only_a_source_that_is_known_and_not_in_the_file_is_forgotten_and_only_after_a_yes(
    call: Call, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "'acme' is still in the sources file" in refusal(call(cli.sources, "forget", "acme", "--yes"))
    assert refusal(call(cli.sources, "forget", "nobody", "--yes")) == "there is no source 'nobody' in the database"
    assert call(cli.sources, "forget", "globex", answer="n\n").exit_code == 1
    with monkeypatch.context() as patched:
        patched.delenv("CRONLEASE_SOURCES")
        assert "CRONLEASE_SOURCES is not set" in refusal(call(cli.sources, "forget", "globex", "--yes"))
    assert room.query("select count(*) from openings where open") == [(2,)]
    done = call(cli.sources, "forget", "globex", answer="y\n")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "Forgot 'globex': 1 opening closed.")
    assert room.query("select source from openings where open") == [("acme",)]
    room.query("insert into opening_signals (source, external_id) values ('globex', '3')")
    done = call(cli.sources, "forget", "globex", "--json", answer="y\n")
    assert json.loads(done.stdout) == {"source": "globex", "closed": 1}


def test_the_status_of_each_source_is_shown(call: Call, room: Room, tmp_path: Path) -> None:
    names = ("new", "fine", "failing", "resting", "doubted")
    listed = "".join(f'[[source]]\nname = "{name}"\nkind = "greenhouse"\nboard = "x"\n' for name in names)
    (tmp_path / "sources.toml").write_text(listed)
    room.query(
        """
        insert into opening_sources (name, items, last_ok_at, failures, last_error, next_fetch_at, doubt, doubted_at)
        values ('fine', 7, now(), 0, null, null, null, null),
          ('failing', 7, now(), 2, 'answered 404', now() - interval '1 s', null, null),
          ('resting', null, null, 3, 'answered 429', now() + interval '1 h', null, null),
          ('doubted', 0, now(), 0, null, null, 'it has no openings any more, and had 7', now()),
          ('globex', 1, now(), 0, null, null, null, null),
          ('forgotten', 1, now(), 0, null, null, null, null)
        """
    )
    told = json.loads(call(cli.sources, "status", "--json").output)
    said = [(row["name"], row["state"], row["items"], row["failures"], row["until"] is None) for row in told]
    assert said == [
        ("new", "new", None, 0, True),
        ("fine", "ok", 7, 0, True),
        ("failing", "failing", 7, 2, True),
        ("resting", "left alone", None, 3, False),
        ("doubted", "doubted", 0, 0, True),
        ("globex", "not in the file", 1, 0, True),
    ]
    assert [row["why"] for row in told[2:5]] == [
        "answered 404",
        "answered 429",
        "it has no openings any more, and had 7: closed when another run gets the same answer",
    ]
    heading, _, *rows = call(cli.sources, "status").output.splitlines()
    assert heading.split() == ["name", "kind", "state", "last_ok_at", "items", "failures", "until", "why"]
    assert [row.split()[0] for row in rows] == [*names, "globex"]


def test_without_sources_the_status_says_where_they_belong(call: Call, tmp_path: Path) -> None:
    (tmp_path / "sources.toml").write_text("")
    assert "CRONLEASE_SOURCES" in call(cli.sources, "status").output
