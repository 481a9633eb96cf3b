"""The guides match the code: links lead somewhere, commands exist, and tables name everything."""

import ast
import inspect
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

import cronlease
from cronlease.cli.main import Toolbox, main
from cronlease.decorators import When
from cronlease.emulator.faults import CHAOS, Faults
from cronlease.outcome import FailReason, SkipReason
from cronlease.run.run import Run
from cronlease.triggers.http import _ROUTES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "functions" / "cronlease"
PROJECT = PACKAGE / "cli" / "commands" / "project"
PLACES = (".github", "deploy", "functions", "schema", "tests")
GUIDES = sorted([*ROOT.glob("*.md"), *(path for place in PLACES for path in (ROOT / place).rglob("*.md"))])
README, JOBS, TRIGGERS, EMULATOR = (
    (folder / "README.md").read_text() for folder in (ROOT, PACKAGE, PACKAGE / "triggers", PACKAGE / "emulator")
)
each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(text: str, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in found if language in languages]


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(text))


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the rows under that heading."""
    rows = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def anchors(text: str) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_guide
def test_links_and_pictures_lead_somewhere(guide: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(guide.read_text())):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        leads_to = guide.parent / name if name else guide
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to.read_text()), target


@each_guide
def test_files_that_are_named_are_there(guide: Path) -> None:
    for span in spans(guide.read_text()):
        for name in re.findall(rf"(?<![\w./])(?:{'|'.join(PLACES[1:])})/[\w./-]*\w", span):
            assert any((place / name).exists() for place in (ROOT, guide.parent)), name


def commands(text: str) -> Iterator[list[str]]:
    """What follows the word cronlease in the lines of shell blocks, up to the next command."""
    for block in blocks(text, "sh", ""):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:.*(?:&&|;) )?(?:\S*/)?cronlease (?=[a-z])(.*)", line):
                words = shlex.split(found[1], comments=True)
                yield words[: next((at for at, word in enumerate(words) if word in ("&&", ";", "|")), None)]


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The verb that the words begin with, and the words after it."""
    command: click.Command = main
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(main), words[0])
        assert found is not None, f"there is no verb {words[0]}"
        command, words = found, words[1:]
    return command, words


def flags(command: click.Command) -> set[str]:
    return {flag for option in command.params for flag in option.opts if flag.startswith("--")} | {"--help"}


@each_guide
def test_commands_can_be_given(guide: Path) -> None:
    text = guide.read_text()
    for words in commands(text):
        command, rest = resolved(words)
        command.make_context(command.name, rest, parent=click.Context(main, obj=Toolbox()))
    for span in spans(text):
        if re.match(r"cronlease [a-z][a-z-]+( |$)", span):
            command, _ = resolved(span.split()[1:])
            given = span.split(" -- ")[0]
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", given)) <= flags(command), span


@each_guide
def test_samples_can_be_read_by_their_language(guide: Path) -> None:
    text = guide.read_text()
    for block in blocks(text, "python"):
        compile(block, str(guide), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for block in blocks(text, "toml"):
        tomllib.loads(block)
    for block in blocks(text, "sh"):
        subprocess.run(["sh", "-n"], input=block, text=True, check=True)


def test_the_readme_is_short_and_leads_to_every_guide() -> None:
    assert len(README.splitlines()) <= 150
    led_to = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#\s]+\.md)", README)}
    assert {guide for guide in GUIDES if guide.name == "README.md" and guide.parent != PROJECT} - led_to == {
        ROOT / "README.md"
    }


def test_the_readme_shows_the_project_that_init_makes() -> None:
    """tests/acceptance/test_init.py runs it."""
    made = "".join((PROJECT / name).read_text() for name in ("main.py", "test_main.py"))
    shown = blocks(README, "python")
    assert len(shown) == 2
    assert [block for block in shown if block not in made] == []


def test_the_picture_is_for_light_and_dark_pages() -> None:
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]+\.svg)\)", README)
    text = (ROOT / picture).read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme: dark" in text


def test_the_table_of_a_run_names_all_that_a_run_has() -> None:
    names = re.findall(r"self\.([a-z]\w*) = ", inspect.getsource(Run.__init__))
    public = {*names, *(name for name in vars(Run) if not name.startswith("_"))}
    shown = [span for row in table(JOBS, "| on `run` | |") for span in spans(row[0])]
    assert sorted(span.partition("(")[0] for span in shown) == sorted(public)


def test_the_names_of_the_package_and_of_its_decorators_are_all_there() -> None:
    at = JOBS.index("## Names of the package")
    shown = [span for row in table(JOBS[at:], "| | |") for span in spans(row[0])]
    assert sorted(shown) == sorted(cronlease.__all__)
    (sentence,) = re.findall(r"^The decorator takes .*?\.$", JOBS, re.MULTILINE | re.DOTALL)
    assert sorted(spans(sentence.replace("\n", " "))) == sorted(When.__annotations__)


def test_the_map_names_every_module() -> None:
    at = JOBS.index("## A map of the code")
    shown = [span for row in table(JOBS[at:], "| | |") for span in spans(row[0])]
    there = {f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir()}
    unnamed = {"README.md", "__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    assert sorted(shown) == sorted(there - unnamed)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    shown = [span for row in table(JOBS, "| entry point group |") for span in spans(row[0])]
    assert sorted(shown) == sorted(group for group in groups if group.startswith("cronlease."))


def test_every_verb_and_only_options_that_it_has_are_in_the_table() -> None:
    named: set[str] = set()
    for first, *_ in table(JOBS, "| verb | |"):
        is_group = spans(first)[0].startswith("schedule ")
        for span in spans(first):
            verb, *_ = span.removeprefix("schedule ").split()
            verb = f"schedule {verb}" if is_group else verb
            command, _ = resolved(verb.split())
            assert set(re.findall(r"--[a-z][a-z-]+", span)) <= flags(command), span
            named.add(verb)
    schedule = main.get_command(click.Context(main), "schedule")
    assert isinstance(schedule, click.Group)
    verbs = {*main.list_commands(click.Context(main))} - {"schedule"}
    assert named == verbs | {f"schedule {name}" for name in schedule.commands}


def test_the_http_contract_names_every_path_reason_and_error() -> None:
    shown = [span for row in table(TRIGGERS, "| request |") for span in spans(row[0])]
    assert sorted(shown) == sorted(f"{methods[0]} {path}" for path, methods in _ROUTES.items())
    reasons = [span for row in table(TRIGGERS, "| `reason` of a skip |") for span in spans(row[0])]
    assert sorted(reasons) == sorted(SkipReason)
    not_ok = {row[0] for row in table(TRIGGERS, "| not ok |")}
    assert {f"{reason.http_status} `{reason}`" for reason in FailReason} <= not_ok


def test_the_emulator_s_options_and_what_chaos_does_are_all_there() -> None:
    command, _ = resolved(["emulate"])
    assert sorted(flags(command) - {flag for flag in flags(command) if flag in EMULATOR}) == ["--help", "--target"]
    shown = {spans(row[0])[0].split()[0]: row[1].strip("`") for row in table(EMULATOR, "| option | with `--chaos` |")}

    def written(name: str) -> str:
        value = getattr(CHAOS, name)
        return "on" if value is True else f"{value:g}s" if name.endswith("_every") else f"{value:g}"

    assert shown == {f"--{name.replace('_', '-')}": written(name) for name in Faults._fields}
