"""The command line itself: its help, and what becomes of an unexpected error."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cronlease.cli.doctor.environment import parts, variables
from cronlease.cli.main import Toolbox, main

FUNCTIONS = Path(__file__).parents[2] / "functions"


@pytest.fixture
def boom() -> Iterator[None]:
    """A verb with a mistake in it."""

    @main.command("boom")
    @click.option("--sentence")
    def boom_command(sentence: str | None) -> None:
        if sentence:
            raise click.ClickException(sentence)
        raise LookupError("postgresql://me:opensesame@host/db\x1b[2J")

    yield
    del main.commands["boom"]


def test_the_help_groups_the_verbs_and_says_the_exit_statuses() -> None:
    said = CliRunner().invoke(main, ["--help"]).stdout
    titles = re.findall(r"^(\w[\w ]*):$", said, re.MULTILINE)
    assert titles == ["Options", "Run", "Look", "Schedules", "The job", "Set up"]
    job = said.partition("The job:")[2].partition("Set up:")[0]
    assert re.findall(r"^  (\w+)", job, re.MULTILINE) == ["signals", "sources"]
    assert "1  a run failed" in said
    assert "exec exits with the status of its command" in said
    assert "..." not in said.partition("Run:")[2], "a summary was cut"
    listed = set(re.findall(r"^  ([a-z]\S*)", said, re.MULTILINE))
    assert listed == set(main.list_commands(click.Context(main)))


def test_every_verb_can_print_json() -> None:
    ctx = click.Context(main)

    def verbs(group: click.Group) -> Iterator[click.Command]:
        for name in group.list_commands(ctx):
            verb = group.get_command(ctx, name)
            assert verb is not None
            if isinstance(verb, click.Group):
                yield from verbs(verb)
            else:
                yield verb

    without = {verb.name for verb in verbs(main) if not any("--json" in option.opts for option in verb.params)}
    # These answer nothing of their own: two servers, and a command whose output is its own.
    assert without == {"exec", "serve", "ui"}


@pytest.mark.usefixtures("boom")
def test_an_unexpected_error_is_one_sentence_without_debug() -> None:
    done = CliRunner().invoke(main, ["boom"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: an unexpected error, LookupError: postgresql://***@host/db?[2J: --debug shows where\n"
    )
    assert CliRunner().invoke(main, ["boom", "--sentence", "no\x1b[2J"]).stderr == "Error: no?[2J\n"


def test_a_run_that_could_not_even_write_its_end_is_one_sentence() -> None:
    with pytest.raises(click.ClickException, match="its lease runs out by itself"), Toolbox().troubles():
        raise asyncio.CancelledError


@pytest.mark.usefixtures("boom")
@pytest.mark.parametrize(("words", "environment"), [(["--debug"], {}), ([], {"CRONLEASE_DEBUG": "1"})])
def test_with_debug_it_is_a_traceback_without_secrets(words: list[str], environment: dict[str, str]) -> None:
    done = CliRunner().invoke(main, [*words, "boom"], env=environment, color=True)
    assert done.exit_code == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "in boom_command" in done.stderr
    assert "opensesame" not in done.stderr
    assert "\x1b" not in done.stderr


def test_no_color_turns_colours_off_even_on_a_terminal() -> None:
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        words = ["doctor"]
        env = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "NO_COLOR": None, **environment}
        done = CliRunner().invoke(main, words, env=env, color=True)
        assert ("\x1b[" in done.stdout) == coloured, done.stdout


def test_the_doctor_knows_every_variable_that_the_code_reads() -> None:
    written = {
        name
        for path in FUNCTIONS.rglob("*.py")
        for name in re.findall(r"[\"'](CRONLEASE_[A-Z_]*[A-Z])[\"']", path.read_text("utf-8"))
    }
    assert "CRONLEASE_SPAWNED" in written
    (found,) = variables(parts(), dict.fromkeys(written, "x"))
    assert found.level == "ok"


def test_a_misspelt_variable_is_found_and_a_service_of_kubernetes_is_not() -> None:
    environment = dict.fromkeys(
        [
            "CRONLEASE_LAESE",
            "CRONLEASE_FLAVOUR",
            "CRONLEASE_LEASE",
            "CRONLEASE_SERVICE_HOST",
            "CRONLEASE_PORT_80_TCP",
        ],
        "x",
    )
    flavour, lease = variables(parts(), environment)
    assert flavour.said == "CRONLEASE_FLAVOUR is set, but nothing reads it"
    assert lease.fix == "write CRONLEASE_LEASE"


def test_a_mistyped_verb_is_told_which_one_was_meant() -> None:
    for words, sentence in (
        (["statsu"], "Error: No such command 'statsu': did you mean status?"),
        (["signal"], "Error: No such command 'signal': did you mean signals?"),
        (["frobnicate"], "Error: No such command 'frobnicate': `cronlease --help` lists the commands"),
    ):
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, sentence)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyboardInterrupt, "Error: stopped by Ctrl-C: run it again to go on\n"),
        (click.Abort, "Error: stopped at the question: run it again and answer y\n"),
    ],
)
def test_what_a_person_stops_says_what_to_do(error: type[BaseException], sentence: str) -> None:
    @main.command("stops")
    def stops_command() -> None:
        raise error

    try:
        done = CliRunner().invoke(main, ["stops"])
    finally:
        del main.commands["stops"]
    assert (done.exit_code, done.stderr) == (1, sentence)
