"""Cells for a terminal and for a spreadsheet."""

from datetime import UTC, datetime

import pytest

from opening_signals.output import cell, spreadsheet_cell

MOMENT = datetime(2026, 11, 16, 9, 30, 5, tzinfo=UTC)


def test_a_time_is_local_and_null_is_nothing() -> None:
    assert cell(MOMENT) == f"{MOMENT.astimezone():%Y-%m-%d %H:%M:%S}"
    assert (cell(None), cell(8)) == ("", "8")


def test_nothing_that_moves_the_cursor_gets_through() -> None:
    assert cell("a\x1b[2Jb\nc\u202ed\x9be\tf") == "a?[2Jb?c?d?e?f"


def test_a_space_of_any_sort_is_a_space() -> None:
    assert cell("New\xa0York,\u2009US") == "New York, US"


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
    assert spreadsheet_cell(said) == written
