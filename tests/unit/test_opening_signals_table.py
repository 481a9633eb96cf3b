"""Rows as lines for a terminal, and cells for a spreadsheet."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from opening_signals.table import lines, spreadsheet

MOMENT = datetime(2026, 11, 16, 9, 30, 5, tzinfo=UTC)


def test_a_column_is_as_wide_as_its_widest_cell() -> None:
    assert list(lines(["name", "at", "n"], [["acme", None, 8], ["x", MOMENT, 10]])) == [
        "name  at                   n",
        "----  -------------------  --",
        "acme                       8",
        f"x     {MOMENT.astimezone():%Y-%m-%d %H:%M:%S}  10",
    ]


def test_a_long_cell_is_cut_except_the_last() -> None:
    *_, row = lines(["title", "url"], [["t" * 50, "u" * 50]])
    assert row == f"{'t' * 39}…  {'u' * 50}"


def test_nothing_that_moves_the_cursor_gets_through() -> None:
    *_, row = lines(["title", "url"], [["a\x1b[2Jb\n", "c\u202ed\x9be\tf"]])
    assert row == "a?[2Jb?  c?d?e?f"


def test_a_space_of_any_sort_is_a_space() -> None:
    *_, row = lines(["location", "url"], [["New\xa0York,\u2009US", "x"]])
    assert row == "New York, US  x"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+44 20", "'+44 20"),
        ("-2", "'-2"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'?=1"),
        ("\r=1", "'?=1"),
        ("\u3000=1", "' =1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\uff0b1", "'\uff0b1"),
        ("\uff0d1", "'\uff0d1"),
        ("\uff20SUM(A1)", "'\uff20SUM(A1)"),
        ("x;=1+1", "x;'=1+1"),
        ("x; =1+1", "x;' =1+1"),
        ("x,=1", "x,'=1"),
        ("x|@SUM(A1)", "x|'@SUM(A1)"),
        ("x\t=1", "x?=1"),
        ("x;;=1", "x;;'=1"),
        ("x;\uff1d1", "x;'\uff1d1"),
        ("=1;=2", "'=1;'=2"),
        ("a; b, c", "a; b, c"),
        (" =1", "' =1"),
        ("a\x1b[2J\r\nb", "a?[2J??b"),
        ('Café - "x"', 'Café - "x"'),
        ("", ""),
        (7, 7),
        (None, None),
    ],
)
def test_no_cell_of_a_spreadsheet_is_a_formula_or_moves_the_cursor(said: object, written: object) -> None:
    assert spreadsheet(said) == written


def test_any_number_of_rows_is_passed_on_as_it_comes() -> None:
    taken = 0

    def rows() -> Iterator[list[str]]:
        nonlocal taken
        for number in range(100_000):
            taken += 1
            yield [str(number), ""]

    shown = lines(["number", ""], rows())
    next(shown)
    assert taken < 1000
    assert sum(1 for _ in shown) == 100_001
    assert taken == 100_000
