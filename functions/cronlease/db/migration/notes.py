"""What is not wrong with the schema, and should still be known to whoever migrates or looks."""

from collections.abc import Iterator
from typing import Any

from cronlease.db.connection import ask_sync
from cronlease.db.migration.replace import query

A_ROW = "acquire_refresh_lock now answers a row, not a boolean: clients read `.acquired`"
# Not done by migrate itself: other applications of the database may count on the right.
_OPEN = (
    "every role may create in the schema public, where a function of the same name could take our calls:"
    " `revoke create on schema public from public` closes it, and `cronlease migrate --roles` does that, too"
)
_ENCODING = (
    "the encoding of the database is {encoding}, and text that it cannot hold fails: use a database that was created"
    " with encoding 'UTF8'"
)


def answers_a_boolean(conn: Any) -> bool:
    """Whether there is an acquire_refresh_lock of the older generation."""
    return bool(ask_sync(conn, query("migrate_notes"))["answers_a_boolean"])


def notes(conn: Any) -> Iterator[str]:
    found = ask_sync(conn, query("migrate_notes"))
    if found["open"]:
        yield _OPEN
    if found["encoding"] != "UTF8":
        yield _ENCODING.format(**found)
