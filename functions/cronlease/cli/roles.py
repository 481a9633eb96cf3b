"""The roles of schema/*/roles.sql: whether each exists, and what it lacks of what those files grant. Reads only."""

import re
from typing import NamedTuple

from cronlease.db.conninfo import SyncConnection
from cronlease.db.migration.schema_files import Packages, files_named
from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema, schema

_ask = Questions(__file__)
# As the files write them.
RUNNER, READER = "cronlease_runner", "cronlease_reader"
_GRANT = re.compile(r"^grant ([a-z, ]+?)\s+on(?: function)?\s+((?:public\.\w+[,\s]+)+)to (\w+);", re.MULTILINE)
WITH_ROLES = "run `cronlease migrate --roles` as the owner of the schema, who may create roles"


class Roles(NamedTuple):
    """By role, the privileges it lacks; None for a role that does not exist."""

    lacking: dict[str, list[str] | None]

    @property
    def sentences(self) -> list[str]:
        """One for each role that differs from the files."""
        return [
            f"role {role} is missing" if lacking is None else f"role {role} lacks {', '.join(lacking)}"
            for role, lacking in self.lacking.items()
            if lacking is None or lacking
        ]

    @property
    def fix(self) -> str:
        """Only the owner of the schema can grant usage on it: PostgreSQL only warns anybody else."""
        usage = _usage()
        shut_out = [role for role, lacking in self.lacking.items() if usage in (lacking or ())]
        if not shut_out:
            return WITH_ROLES
        return f"let the owner of the schema run `grant {usage} to {', '.join(shut_out)}`"

    @property
    def lack_only_usage(self) -> bool:
        return all(lacking in ([], [_usage()]) for lacking in self.lacking.values())


def _usage() -> str:
    return f"usage on schema {schema()}"


def lacks(conn: SyncConnection, role: str, as_much_as: str) -> list[str] | None:
    """The privileges on existing objects that the files grant to `as_much_as` and this role lacks; None if the role
    does not exist."""
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


def missing_grants(conn: SyncConnection) -> Roles:
    return Roles({in_schema(role): lacks(conn, in_schema(role), role) for role in (RUNNER, READER)})


def script(packages: Packages = None) -> str:
    """The files of these packages, in order, for our schema."""
    return in_schema(_text(packages))


def _text(packages: Packages) -> str:
    return "\n".join(file.text for file in files_named("roles", packages))
