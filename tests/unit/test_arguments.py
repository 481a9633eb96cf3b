"""Arguments of a run: stored exactly as they were written, or refused in one sentence."""

import json
from typing import Any

import pytest

from cronlease import arguments

NESTED: Any = json.loads("[" * 201 + "]" * 201)


@pytest.mark.parametrize("text", ["0.1", "1.10", "1e22", "-0.30000000000000004", "12345678901234567890123", "0.0"])
def test_a_number_that_python_holds_exactly_is_read(text: str) -> None:
    assert arguments.decode(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["0.12345678901234567890", "1234567890123456789.5", "1e-400", "1e-99999999999999999999", b"1e-400"]
)
def test_a_number_that_would_be_rounded_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="has more digits than a number can have here: write it as text"):
        arguments.decode(text)


def test_a_whole_number_that_python_does_not_read_is_refused_in_words_of_our_own() -> None:
    assert arguments.decode("-" + "1" * 4300) < 0
    with pytest.raises(ValueError, match=r"^a number in it has more than 4300 digits$"):
        arguments.decode('{"n": -' + "1" * 4301 + "}")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("\0", "text with a NUL"),
        ("\ud800", "half a character"),
        (arguments.decode("1e999"), "a number that large"),
        (-(10**300), "a number that large"),
        pytest.param(10**5000, "a number that large", id="too long to be shown"),
        (float("nan"), "NaN"),
        ((1e301,), "a number that large"),
        (NESTED, "nested more than 200 levels deep"),
        (object(), "not JSON serializable"),
    ],
)
def test_what_the_database_cannot_keep_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        arguments.encode({"a": [{"b": value}]})


def test_the_rest_is_written_as_it_is() -> None:
    args = {"text": "\\u0000 é", "number": 1.5, "parts": [None, True, {"n": 10**299}]}
    assert json.loads(arguments.encode(args)) == args
