"""What an error of the server says about the lease. Knows SQLSTATEs, ours (CL...) and the server's; sends nothing."""

import psycopg

from cronlease.errors import (
    AlreadyThere,
    Ambiguous,
    ConnectionLost,
    Contended,
    DatabaseTrouble,
    LeaseLost,
    Mismatch,
    NameTaken,
    NotPermitted,
    SchemaMissing,
    StillRunning,
    UnknownSchedule,
    Unreadable,
)

_MEANING: dict[str, type[DatabaseTrouble]] = {
    "CL001": LeaseLost,
    "CL002": UnknownSchedule,
    "CL003": AlreadyThere,
    "CL004": StillRunning,
    "CL007": NameTaken,
    "40001": Contended,
    "40P01": Contended,
    "55P03": Contended,
    "42883": SchemaMissing,
    "42P01": SchemaMissing,
    "42703": SchemaMissing,
    "3F000": SchemaMissing,
    "42501": NotPermitted,
    "42725": Ambiguous,
    "42P13": Mismatch,
    "42P16": Mismatch,
    # The schema was migrated under a prepared statement: treated as a lost connection, since a new one plans anew.
    "0A000": ConnectionLost,
    "26000": ConnectionLost,
}


def meaning(error: psycopg.Error, *, lost: bool) -> DatabaseTrouble:
    """What the error says about the lease; one of the classes of errors.py."""
    kind = _MEANING.get(error.sqlstate or "", ConnectionLost if lost else DatabaseTrouble)
    return kind(sentence(error))


def unreadable(error: Exception) -> Unreadable:
    """For an answer that Python cannot read, whatever the reason: a number too long, JSON too deep, a year 20000."""
    return Unreadable(f"the database's answer cannot be read: {' '.join(str(error).split())[:200]}")


def sentence(error: psycopg.Error) -> str:
    """The server's message in one line, without the statement that it is about."""
    return error.diag.message_primary or " ".join(str(error).split())
