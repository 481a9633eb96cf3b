"""tests/README.md explains every promise that a test names by its number, and which tests would falsify it."""

import re
from pathlib import Path

from tests.faults.profile import SIZES

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "tests" / "README.md").read_text()
ROWS = {
    name: f"{said} | {more}"
    for name, said, more in re.findall(r"^\| (P\d+|soak) \| (.*?) \| (.*) \|$", GUIDE, re.MULTILINE)
}
# A size that is not called by its promise's number.
NAMES = {"paging": "P37"}


def mentioned() -> dict[str, Path]:
    """Each number that a file of the repository names, and one such file."""
    files = [path for folder in ("functions", "schema", "tests", "deploy") for path in (ROOT / folder).rglob("*.*")]
    texts = {path: path.read_text() for path in files if path.suffix in (".py", ".sql", ".md", ".sh", ".toml")}
    return {name: path for path, text in texts.items() for name in re.findall(r"\bP[1-9]\d?\b", text)}


def test_each_promise_has_one_row_and_no_number_is_left_unexplained() -> None:
    numbers = [int(name) for name in re.findall(r"^\| P(\d+) \|", GUIDE, re.MULTILINE)]
    (unused,) = re.findall(r"^(.*) (?:is|are) not in use\.$", GUIDE, re.MULTILINE) or [""]
    not_in_use = [int(number) for number in re.findall(r"P(\d+)", unused)]
    assert sorted([*numbers, *not_in_use]) == list(range(1, max(numbers) + 1))
    assert numbers == sorted(numbers)


def test_every_number_that_is_named_anywhere_has_a_row() -> None:
    found = {name: path for name, path in mentioned().items() if path != ROOT / "tests" / "README.md"}
    assert {"P1", "P28"} <= found.keys()
    assert {name: path for name, path in found.items() if name not in ROWS} == {}


def test_every_row_names_tests_that_exist() -> None:
    assert len(ROWS) > 30
    for name, row in ROWS.items():
        files = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert files, name
        assert [file for file in files if not (ROOT / file).exists()] == [], name
        assert any(Path(file).name.startswith("test_") for file in files), name


def test_a_test_that_names_a_promise_is_in_its_row() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        # What a module says at its top is what it is for; elsewhere it may only refer to another.
        for name in re.findall(r"^\"\"\"(P\d+)(?: and (P\d+))?:", path.read_text())[:1]:
            for number in filter(None, name):
                assert f"`{path.relative_to(ROOT)}`" in ROWS[number], f"{path} is not in the row of {number}"


def test_the_sizes_are_those_of_the_profiles() -> None:
    for name, size in SIZES.items():
        row = ROWS[NAMES.get(name, name.split()[0])]
        said = (
            f"not in quick / {size.ci} s / {size.long:,} s" if name == "soak" else " / ".join(f"{n:,}" for n in size)
        )
        assert said in row, f"{name}: {said}"


def test_the_test_command_is_the_one_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    (command,) = re.findall(r"<!-- the test command -->\n```sh\n(python3 .*)\n```", readme)
    assert command in GUIDE
