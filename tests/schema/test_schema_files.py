"""The files of schema/ are named after what they hold."""

import re

from cronlease.db.migration.schema_files import schema_files

CREATED = re.compile(r"^create (?:or replace )?(\w+) (?:if not exists )?public\.(\w+)", re.MULTILINE)


def test_migrations_are_numbered_once_and_named_in_words() -> None:
    names = [file.name for file in schema_files("migrations")]

    assert [name for name in names if not re.fullmatch(r"\d{4}_[a-z]+(_[a-z]+)*", name)] == []
    assert len({name[:4] for name in names}) == len(names), "a number is given once, in whatever package"


def test_each_function_file_creates_exactly_what_it_is_named_after() -> None:
    for file in schema_files("functions"):
        created = CREATED.findall(file.text)
        assert [name for _, name in created] == [file.name]
        assert created[0][0] in ("function", "view")
        assert len(re.findall(r"^create\b", file.text, re.MULTILINE | re.IGNORECASE)) == 1
        assert "create or replace" in file.text, "it is applied again on every migrate"


def test_arguments_and_times_are_written_as_we_write_them() -> None:
    """Arguments are p_*; no function takes a time, and none reads the time of the transaction's start."""
    for file in schema_files("functions"):
        if "returns trigger" in file.text or "create or replace view" in file.text:
            continue
        head, _, body = file.text.partition("as $$")
        arguments = head[head.index("(") + 1 :]
        for line in re.findall(r"^  (\w+ \w+.*)$", arguments, re.MULTILINE):
            assert line.startswith(("p_", "out ")), f"{file.name}: {line}"
        assert not re.search(r"\b(now\(\)|current_timestamp|transaction_timestamp|statement_timestamp)", body), (
            file.name
        )


def test_a_function_that_forbids_a_kind_of_plan_is_never_compiled() -> None:
    """Before PostgreSQL 18 what is forbidden is reckoned as endlessly dear, and dear queries are compiled: 0.3 s."""
    forbidding = [file for file in schema_files("functions") if "\nset enable_" in file.text]
    assert forbidding
    assert [file.name for file in forbidding if "\nset jit = off\n" not in file.text] == []
