"""The roles of schema/roles.sql: whether each is there, and what it lacks of what that file grants. Asks, and changes
nothing."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cronlease.db.connection import ask_sync
from cronlease.db.functions import Query
from cronlease.db.migration.migrate import schema_files

if TYPE_CHECKING:
    from psycopg import Connection

RUNNER, READER = "cronlease_runner", "cronlease_reader"
_GRANT = re.compile(r"^grant ([a-z, ]+?)\s+on(?: function)?\s+((?:public\.\w+[,\s]+)+)to (\w+);", re.MULTILINE)


def lacks(conn: "Connection[Any]", role: str, as_much_as: str) -> list[str] | None:
    """What the role lacks of what the file grants to the other, on the objects that are there; None where there is
    no such role."""
    pairs = [
        (privilege, name)
        for privileges, names, to in _GRANT.findall(script())
        if to == as_much_as
        for privilege in privileges.split(", ")
        for name in re.findall(r"public\.(\w+)", names)
    ]
    asked = {
        "role": role,
        "privileges": [privilege for privilege, _ in pairs],
        "names": [name for _, name in pairs],
    }
    text = Path(__file__).with_name("roles.sql").read_text("utf-8")
    found: list[str] | None = ask_sync(conn, Query(text, asked, lambda row: row[0]))
    return found


def look(conn: "Connection[Any]") -> dict[str, list[str] | None]:
    """Both of them, by name."""
    return {role: lacks(conn, role, role) for role in (RUNNER, READER)}


def sentences(found: dict[str, list[str] | None]) -> list[str]:
    """One for each role that is not as the file says."""
    return [
        f"role {role} is missing" if lacking is None else f"role {role} lacks {', '.join(lacking)}"
        for role, lacking in found.items()
        if lacking is None or lacking
    ]


def script() -> str:
    (roles,) = schema_files(".")
    return roles.text
