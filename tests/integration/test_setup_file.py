"""A user's SQL file in a real database: all of it or nothing, and an error says on which line."""

from pathlib import Path

import psycopg
import pytest

from cronlease.emulator.setup import SetupError, run_file

WHOLE = """
-- A comment; with a semicolon.
create table prices (name text, price numeric);
create function latest() returns text language plpgsql as $body$
begin
  return (select name from prices limit 1);
end;
$body$;
insert into prices values ('a;b', 1), ('c:\\', 2);
"""


def test_a_file_of_many_statements_is_run(empty_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "my.sql").write_text(WHOLE)
    run_file(empty_dsn, tmp_path / "my.sql")
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select latest()").fetchone() == ("a;b",)


@pytest.mark.parametrize("schema", ["public", "tenant_a"])
@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("select 1 +;", 'line 10: syntax error at or near ";"'),
        ("\ninsert into nowhere\nvalues (1);", 'line 11: relation "nowhere" does not exist'),
        # The server gives no position for these.
        ("/* ; */ select E'\\';';\n\ncreate table\nprices (id int);", 'line 12: relation "prices" already exists'),
        ("select 1;;\nselect 1 / 0;", "line 11: division by zero"),
        ("copy prices from stdin;", "line 10: COPY has no data here: write INSERT instead"),
        ("\\i other.sql", 'line 10: syntax error at or near "\\"'),
    ],
)
def test_an_error_names_its_line_and_undoes_the_rest(
    empty_dsn: str,
    tmp_path: Path,
    more: str,
    sentence: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CRONLEASE_SCHEMA", schema)
    (tmp_path / "my.sql").write_text(WHOLE + more)
    with pytest.raises(SetupError) as told:
        run_file(empty_dsn, tmp_path / "my.sql")
    assert str(told.value) == f"{tmp_path / 'my.sql'}, {sentence}"
    assert told.value.already_there == ("already exists" in sentence)
    assert caplog.messages == [], "psycopg has nothing to add"
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select to_regclass('prices')").fetchone() == (None,)


def test_a_file_that_cannot_be_read_is_one_sentence(empty_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes("select 'ä'".encode("latin-1"))
    for name, sentence in (("latin.sql", "is not UTF-8, byte 8"), ("none.sql", "cannot be read: No such file")):
        with pytest.raises(SetupError, match=sentence):
            run_file(empty_dsn, tmp_path / name)
