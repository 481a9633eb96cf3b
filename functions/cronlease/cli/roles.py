"""The roles of schema/*/roles.sql: whether each is there, and what it lacks of what those files grant. Asks, and
changes nothing."""

import re
from typing import TYPE_CHECKING, Any

from cronlease.cli.questions import questions_of
from cronlease.db.migration.schema_files import Packages, files_named
from cronlease.db.schema import in_schema, schema

if TYPE_CHECKING:
    from psycopg import Connection

_ask = questions_of(__file__)
# As the files write them.
RUNNER, READER = "cronlease_runner", "cronlease_reader"
_GRANT = re.compile(r"^grant ([a-z, ]+?)\s+on(?: function)?\s+((?:public\.\w+[,\s]+)+)to (\w+);", re.MULTILINE)


def lacks(conn: "Connection[Any]", role: str, as_much_as: str) -> list[str] | None:
    """What the role lacks of what the file grants to the other, on the objects that are there; None where there is
    no such role."""
    pairs = [
        (privilege, name)
        for privileges, names, to in _GRANT.findall(_text(None))
        if to == as_much_as
        for privilege in privileges.split(", ")
        for name in re.findall(r"public\.(\w+)", names)
    ]
    privileges, names = [privilege for privilege, _ in pairs], [name for _, name in pairs]
    lacking: list[str] | None = _ask(conn, "missing_grants", role=role, privileges=privileges, names=names)
    return lacking


def missing_grants(conn: "Connection[Any]") -> dict[str, list[str] | None]:
    """Of both roles, by name; None for a role that is missing."""
    return {in_schema(role): lacks(conn, in_schema(role), role) for role in (RUNNER, READER)}


def sentences(missing: dict[str, list[str] | None]) -> list[str]:
    """One for each role that is not as the file says."""
    return [
        f"role {role} is missing" if lacking is None else f"role {role} lacks {', '.join(lacking)}"
        for role, lacking in missing.items()
        if lacking is None or lacking
    ]


def for_the_owner(missing: dict[str, list[str] | None]) -> str | None:
    """The statement that only the owner of the schema may run, where roles lack the way into it: PostgreSQL answers
    the grant of another role with no more than a warning."""
    usage = f"usage on schema {schema()}"
    shut_out = [role for role, lacking in missing.items() if usage in (lacking or ())]
    return f"grant {usage} to {', '.join(shut_out)}" if shut_out else None


def script(packages: Packages = None) -> str:
    """Of these packages, in order; about our schema."""
    return in_schema(_text(packages))


def _text(packages: Packages) -> str:
    return "\n".join(file.text for file in files_named("roles", packages))
