"""Which texts would end or begin a transaction, read as the server reads them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronlease.db.statements import transaction_control

BODY = "create {} f() returns int begin atomic {} end"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("commit", "commit"),
        ("COMMIT", "commit"),
        ("  commit;", "commit"),
        ("commit and chain", "commit"),
        ("commit work and no chain", "commit"),
        ("commit prepared 'x'", "commit"),
        ("rollback", "rollback"),
        ("rollback and chain", "rollback"),
        ("rollback work", "rollback"),
        ("rollback prepared 'x'", "rollback"),
        ("rollback transaction;", "rollback"),
        ("end", "end"),
        ("end transaction", "end"),
        ("abort", "abort"),
        ("abort work", "abort"),
        ("begin", "begin"),
        ("begin isolation level serializable", "begin"),
        ("start transaction", "start transaction"),
        ("start transaction read only", "start transaction"),
        ("prepare transaction 'x'", "prepare transaction"),
        ("select 1; commit", "commit"),
        ("select 1;commit;select 2", "commit"),
        (";;; commit", "commit"),
        ("/*x*/ commit", "commit"),
        ("/* /* nested */ still */ commit", "commit"),
        ("-- a comment\ncommit", "commit"),
        ("-- a comment\r commit", "commit"),
        ("commit -- really", "commit"),
        ("commit/**/", "commit"),
        ("rollback /* to */ ; select 1", "rollback"),
        ("rollback -- to\n work", "rollback"),
        ("select 'it''s'; commit", "commit"),
        (r"select '\'; commit", "commit"),
        (r"select e'\\'; commit", "commit"),
        (r"select E'\''; commit", "commit"),
        ("select E'a'\n'b\\''; commit", "commit"),
        ("select E'a' -- more\n -- and more\n 'b\\''; commit", "commit"),
        (r"select somee'\'; commit", "commit"),
        ('select "a;b"; commit', "commit"),
        ('select "a""b"; commit', "commit"),
        ("select $$ ; $$; commit", "commit"),
        ("select $a$ $b$ $a$; commit", "commit"),
        ("select a$b$; commit; select $b$", "commit"),
        ("select $1; commit", "commit"),
        ("do $$ begin end $$; end", "end"),
        (BODY.format("function", "select 1;") + "; commit", "commit"),
        (BODY.format("function", "select 1 as case;") + "; end", "end"),
        (BODY.format("function", "select 1 case;") + "; end", "end"),
        (BODY.format("procedure", "") + "; end", "end"),
        ("create view v as select begin atomic from t; end", "end"),
        ("create function f(begin atomic) returns int language sql as 'select 1'; end", "end"),
        ("\0commit", "commit"),
    ],
)
def test_what_ends_or_begins_a_transaction_is_found(text: str, refused: str) -> None:
    assert transaction_control(text.encode()) == refused


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "select 1",
        "savepoint a",
        "release a",
        "rollback to a",
        "rollback to savepoint a",
        "ROLLBACK WORK TO a",
        "rollback transaction to savepoint a",
        "rollback /* x */ to a",
        "rollback to commit",
        "prepare p as select 1",
        "prepare p (int) as select $1",
        "execute p",
        "set transaction read only",
        "set session characteristics as transaction isolation level serializable",
        "insert into commit values ('commit')",
        "select case when a then b end",
        "select case when a then b end; select case a when 1 then 2 end",
        "update t set start = 1, begin = 2",
        'select "commit"; select 1',
        '"commit"',
        "select 'x; commit'",
        "select 'x''; commit'",
        r"select e'x\'; commit'",
        "select E'a'\n'b\\'; commit'",
        "select $$; commit $$",
        "select $a$ $$; commit; $$ $a$",
        "-- commit",
        "select 1 -- ; commit",
        "/* ; commit */ select 1",
        "/* /* */ ; commit */ select 1",
        "select $$ unterminated ; commit",
        "do $$ begin commit; end $$",
        "create function f() returns int language sql as $$ select 1; $$",
        BODY.format("function", "select 1;"),
        BODY.format("or replace function", "select case when true then 1 end; select 2;"),
        BODY.format("procedure", "insert into t values (1); insert into t values (2);") + "; select 1",
        "copy t from stdin",
        "declare c cursor for select 1",
        "commits",
        "_commit",
        "commité",
    ],
)
def test_what_does_neither_is_let_through(text: str) -> None:
    assert transaction_control(text.encode()) is None


def test_backslashes_escape_in_plain_quotes_where_the_server_says_so() -> None:
    text = rb"select 'a\''; commit; --'"
    assert transaction_control(text) is None
    assert transaction_control(text, backslashes=True) == "commit"


HIDING = ("'{}'", '"{}"', "$${}$$", "$tag${}$tag$", "/*{}*/", "/* /*{}*/ */", "-- {}\n", "e'\\'{}'")
HARMLESS = ("select 1", "rollback to a", "insert into t values (1)", "select case when a then b end", "")
ENDING = ("commit", "END work", "Rollback", "abort", "begin", "start transaction", "prepare transaction 'a'")

hidden = st.builds(lambda form, text: form.format(text), st.sampled_from(HIDING), st.sampled_from(ENDING))
harmless = st.builds(lambda first, rest: f"{first} {rest}", st.sampled_from(HARMLESS), hidden)
gap = st.sampled_from(("", " ", "\n", "/* ; commit */", "-- ; commit\n"))


@given(st.lists(harmless, max_size=5), gap, st.sampled_from(ENDING))
def test_a_statement_is_found_behind_anything_and_not_in_it(before: list[str], between: str, ends: str) -> None:
    # A quote or a comment at the start is no statement of its own, so each begins with a select.
    before = [f"select 1 {text}" for text in before]
    assert transaction_control(";".join(before).encode()) is None
    found = transaction_control(";".join([*before, between + ends]).encode())
    assert found is not None
    assert ends.lower().startswith(found)


@pytest.mark.parametrize(
    "piece",
    [
        "'",
        '"',
        "/*",
        "*/",
        "--",
        "$a$",
        "e'\\",
        "'a'\n",
        "'a' ",
        "begin atomic ",
        "select 1;",
        "$a",
        "\\",
        "-- \n'",
        "(",
    ],
)
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = b"select end " + (piece * (length // len(piece))).encode()
        started = time.process_time()
        transaction_control(text)
        return time.process_time() - started

    # Ten times the text, ten times the time: a quadratic one would take a hundred.
    assert seconds(200_000) < 30 * max(seconds(20_000), 0.001)
