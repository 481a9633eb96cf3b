"""No parameter leaves Python without its type: with an untyped one somebody else's function could be called."""

import re
from pathlib import Path

import pytest

from tests.schema.test_overloads import calls

PACKAGE = Path(__file__).parents[2] / "functions" / "cronlease"
FILES = sorted(PACKAGE.rglob("*.sql"))
UNTYPED = re.compile(r"%\(\w+\)s(?!::)")


def test_every_parameter_of_a_call_has_its_type() -> None:
    for query in calls():
        assert UNTYPED.findall(query.text) == [], query.text
        assert "public." in query.text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_parameter_of_a_question_has_its_type(path: Path) -> None:
    text = path.read_text()
    assert UNTYPED.findall(text) == []
    assert re.findall(r"(?<![\w.])(?:refresh|opening)_\w+\(", text) == [], "called without its schema"
