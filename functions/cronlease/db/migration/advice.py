"""What whoever migrates should know about the database, although it is no error of the schema."""

from collections.abc import Iterator
from typing import Any

from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema

_ask = Questions(__file__)
# Not done by migrate itself: other applications of the database may count on the right.
_OPEN = (
    "every role may create in the schema public, where a function of the same name could take our calls:"
    " `revoke create on schema public from public` closes it, and `cronlease migrate --roles` does that, too"
)
_ENCODING = (
    "the encoding of the database is {encoding}, and text that it cannot hold fails: use a database that was created"
    " with encoding 'UTF8'"
)
_ELSEWHERE = (
    "the table {schema}.refresh_schedule was left alone, since everything of ours is in the schema public: if it"
    " is the older schedule, run `alter table {schema}.refresh_schedule set schema public` before the first migrate"
)


def advice(conn: Any) -> Iterator[str]:
    """Yields a sentence for each."""
    facts = _ask(conn, "notes")
    for another in _ask(conn, "elsewhere"):
        yield in_schema(_ELSEWHERE).format(schema=another)
    if facts["open"]:
        yield in_schema(_OPEN)
    if facts["encoding"] != "UTF8":
        yield _ENCODING.format(**facts)
