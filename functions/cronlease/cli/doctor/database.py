"""What the doctor sees in the database, from the server itself to what the schedules say. Writes nothing."""

import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from cronlease.cli.doctor import alerts
from cronlease.cli.doctor.finding import Finding, broken, info, ok, warning
from cronlease.cli.drift import BY_HAND, MIGRATE, drift
from cronlease.cli.questions import questions_of
from cronlease.cli.roles import READER, RUNNER, lacks
from cronlease.db.migration.bearers import bearers, refusals
from cronlease.db.migration.migrate import state
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import (
    Packages,
    functions_and_views,
    pending,
    schema_files,
    tables_of,
    wanted,
)
from cronlease.db.schema import in_schema
from cronlease.errors import DatabaseTrouble, NotPermitted, SchemaMissing
from cronlease.explain.backends import blocking_backends, description, how_to_end
from cronlease.explain.format import counted
from cronlease.settings import Settings

if TYPE_CHECKING:
    from psycopg import Connection

_ask = questions_of(__file__)
_OLDEST = 140000
_SKEW_SECONDS = 2.0
_A_CLAIM = "execute on acquire_refresh_lock"
_OWNER = "look once more as the owner of the schema"


def check(
    conn: "Connection[Any]", settings: Settings, known: Collection[str] | None, declared: Collection[str]
) -> Iterator[Finding]:
    """Known are the actions of a source, where one was given; declared, the packages whose tables belong here."""
    before = time.time()
    server = _ask(conn, "server")
    yield from _server(conn, server)
    yield from _clock(server["now"], before, time.time())
    yield from _pooler(conn, server, settings)
    there = None
    try:
        there = state(conn, declared)
        ours = there not in ("absent", "adoptable")
        yield from _schema(conn, declared) if ours else _absent(conn, there, server, settings, declared)
    except MigrationError as error:
        said, _, fix = str(error).partition(": ")
        yield broken("schema", said, fix)
    except DatabaseTrouble as trouble:
        yield broken("schema", str(trouble), MIGRATE)
    if there != "absent":
        yield from _tried("grants", lambda: _grants(conn, server["role"]))
        yield from _tried("strangers", lambda: _strangers(conn, declared))
    if there == "complete":
        yield from _tried("leases", lambda: _leases(conn))
        yield from _tried("backends", lambda: _backends(conn))
        yield from _tried("cadences", lambda: _cadences(conn))
        yield from _tried("args", lambda: _args(conn))
        yield from _tried("alerts", lambda: alerts.check(conn, settings.alert_url))
        if known is not None:
            yield from _tried("actions", lambda: _actions(conn, known))
        else:
            yield info("actions", "not looked at: with --source main.py it says which schedules that cannot run")


def scheduled(conn: "Connection[Any]") -> set[str]:
    """The actions that have a schedule; none where that cannot be read."""
    try:
        return set(_ask(conn, "scheduled"))
    except DatabaseTrouble:
        return set()


def _tried(check: str, findings: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Trouble in one check is a finding, and the others go on."""
    try:
        yield from findings()
    except (SchemaMissing, MigrationError):
        # What is missing, or not ours, is a finding of the schema's already.
        return
    except DatabaseTrouble as trouble:
        yield warning(check, f"this role cannot look at it: {trouble}", _OWNER)


def _server(conn: "Connection[Any]", server: dict[str, Any]) -> Iterator[Finding]:
    where = f"PostgreSQL {server['version']}, database {server['database']}, as {server['role']}"
    yield ok("connection", where)
    if conn.info.server_version < _OLDEST:
        said = f"the server is PostgreSQL {server['version']}, and it takes 14 or newer"
        yield broken("server", said, "upgrade the server, or take a newer one")
    if server["open_schema"]:
        said = "everybody may create things in the schema public, also functions with the names of ours"
        fix = "run `revoke create on schema public from public` as the owner of the database"
        yield warning("server", in_schema(said), in_schema(fix))
    if server["creators"]:
        roles = ", ".join(server["creators"])
        said = f"{roles} may create things in the schema public, also functions with the names of ours"
        fix = f"unless that is meant, `revoke create on schema public from {roles}`"
        yield warning("server", in_schema(said), in_schema(fix))
    if server["encoding"] != "UTF8":
        said = f"the database is encoded as {server['encoding']}: text with other characters fails, or is misread"
        yield warning(
            "server", said, "use a database made with `create database ... encoding 'UTF8' template template0`"
        )
    if server["read_only"]:
        yield broken("server", "the database is read-only", "connect to the primary, not to a standby or a replica")


def _clock(server_now: float, before: float, after: float) -> Iterator[Finding]:
    """The answer was written somewhere between: how far apart the clocks are at least."""
    apart = max(before - server_now, server_now - after, 0.0)
    if apart > _SKEW_SECONDS:
        which = "behind" if server_now > after else "ahead of"
        said = f"this machine's clock is at least {apart:.0f} s {which} the database's"
        fix = "let both machines ask a time server (NTP): leases do not mind, but tokens and logs do"
        yield warning("clock", said, fix)
    else:
        yield ok("clock", "this machine's clock and the database's agree")


def _pooler(conn: "Connection[Any]", server: dict[str, Any], settings: Settings) -> Iterator[Finding]:
    """Behind a pooler the process that greeted us is not the one that answers."""
    seen = server["pid"] != conn.info.backend_pid
    said = f"{'a' if seen else 'no'} pooler in between, CRONLEASE_POOLER is {settings.pooler}"
    if seen and settings.pooler == "none":
        yield broken("pooler", f"{said}: prepared statements will fail", "set CRONLEASE_POOLER=transaction")
    elif not seen and settings.pooler == "transaction":
        fix = "leave CRONLEASE_POOLER at auto, unless the function itself connects through one"
        yield warning("pooler", f"{said}: nothing is prepared, which costs time at each hit", fix)
    else:
        yield ok("pooler", said)


def _absent(
    conn: "Connection[Any]", there: str, server: dict[str, Any], settings: Settings, declared: Packages
) -> Iterator[Finding]:
    said = "the database has no schema of ours yet"
    if there == "adoptable":
        said = "the database has tables or functions of an older generation"
        if refused := drift(conn, declared).refused:
            yield broken("schema", f"{said}, which cannot be adopted: {'; '.join(refused)}", BY_HAND)
            return
    elif foreign := [each.sentence for each in refusals(bearers(conn, pending(conn, declared), declared))]:
        yield broken("schema", f"{said}, and migrate refuses: {'; '.join(foreign)}", BY_HAND)
        return
    if not server["may_create"]:
        role = server["role"]
        fix = f'run `cronlease migrate --roles` as the owner of the database, then `grant {RUNNER} to "{role}"`'
        said = in_schema(f"{said}, and {role} may not create anything in schema public")
        yield broken("schema", said, in_schema(fix))
    elif settings.migrate == "never":
        yield broken("schema", f"{said}, and CRONLEASE_MIGRATE is never", MIGRATE)
    else:
        yield warning("schema", said, f"{MIGRATE}, or let the first hit create it")


def _schema(conn: "Connection[Any]", declared: Packages) -> Iterator[Finding]:
    and_more = ", no migration is missing"
    try:
        found = drift(conn, declared)
    except NotPermitted as trouble:
        yield warning("schema", f"this role cannot look at the migrations: {trouble}", _OWNER)
        found, and_more = drift(conn, declared, ledger=False), ""
    if found.is_there:
        # Runs may well live with a rule that somebody added on purpose.
        ours = found.migrations or found.differences or found.newer or not all(each.theirs for each in found.tables)
        yield (broken if ours else warning)("schema", "; ".join(found.sentences()), found.fix)
    else:
        yield ok("schema", f"every table, function and view is as its file says{and_more}")


def _grants(conn: "Connection[Any]", role: str) -> Iterator[Finding]:
    # What the file gives to the role of a deployment is what a run needs.
    lacking = lacks(conn, role, RUNNER)
    if lacking and _A_CLAIM in lacking and not lacks(conn, role, READER):
        fix = f'nothing, where it is for a person who looks; a deployment needs `grant {RUNNER} to "{role}"`'
        yield warning("grants", f"{role} may look, and not run anything", in_schema(fix))
    elif lacking:
        fix = f'run `cronlease migrate --roles` as the owner, then `grant cronlease_runner to "{role}"`'
        yield broken("grants", f"{role} lacks {', '.join(lacking)}", in_schema(fix))
    else:
        yield ok("grants", f"{role} may do all that a run needs")


def _backends(conn: "Connection[Any]") -> Iterator[Finding]:
    """Those that keep every hit of a schedule away for longer than a claim or a lease lasts."""
    found = blocking_backends(conn)
    for each in found:
        what = "its row" if each.holds_row else "the advisory lock of a claim"
        said = f'every hit of "{each.function_name}" is skipped as locked: {what} is held by {description(each)}'
        yield warning("backends", said, how_to_end(each))
    if not found:
        yield ok("backends", "no backend keeps a schedule from running")


def _strangers(conn: "Connection[Any]", declared: Packages) -> Iterator[Finding]:
    packages = wanted(conn, declared)
    tables_and_more = tables_of(schema_files("migrations", packages))
    names = [*tables_and_more, *(file.name for file in functions_and_views(packages))]
    for found in _ask(conn, "strangers", names=names):
        role, tables, functions = found["role"], found["tables"], found["functions"]
        things = [*tables, *functions]
        listed = _names({"names": things[:3], "count": len(things)})
        said = f"{role} may use {counted(len(things), 'thing')} of ours: {listed}"
        revokes = [f"revoke all on {', '.join(tables)} from {role}"] if tables else []
        revokes += [f"revoke all on function {', '.join(functions)} from {role}"] if functions else []
        if found["by_default"]:
            yield warning("strangers", said, f"unless that is meant, `{'; '.join(revokes)}`")
        else:
            yield info("strangers", said)


def _leases(conn: "Connection[Any]") -> Iterator[Finding]:
    stale = _ask(conn, "leases")
    if stale["count"]:
        said = f"{counted(stale['count'], 'lease')} ran out before the run finished: {_names(stale)}"
        fix = "run `cronlease recover --all`, or wait: the next hit takes over, unless a backend has the row locked"
        yield warning("leases", said, fix)
    else:
        yield ok("leases", "no lease has run out under its run")


def _cadences(conn: "Connection[Any]") -> Iterator[Finding]:
    unreadable = _ask(conn, "cadences")
    if unreadable["count"]:
        count = counted(unreadable["count"], "schedule")
        said = f"{count} cannot run, what is in the column every is no cadence: {_names(unreadable)}"
        fix = (
            "run `cronlease schedule create NAME --replace --every 10m..15m ...` for each, or mend the column by hand"
        )
        yield broken("cadences", said, fix)
    else:
        yield ok("cadences", "the cadence of every schedule can be read")


def _args(conn: "Connection[Any]") -> Iterator[Finding]:
    unreadable = _ask(conn, "args")
    if unreadable["count"]:
        count = counted(unreadable["count"], "schedule")
        said = f"{count} cannot run, what is in the column args cannot be read: {_names(unreadable)}"
        fix = "run `cronlease schedule create NAME --replace --args ...` for each, or correct the column by hand"
        yield broken("args", said, fix)
    else:
        yield ok("args", "the args of every schedule can be read")


def _names(found: dict[str, Any]) -> str:
    """Some of them, and whether there are more."""
    return ", ".join(found["names"]) + (", ..." if found["count"] > len(found["names"]) else "")


def _actions(conn: "Connection[Any]", known: Collection[str]) -> Iterator[Finding]:
    unknown: dict[str, int] = _ask(conn, "actions", known=sorted(known))
    for action, count in unknown.items():
        said = f'the source has no action "{action}", and {counted(count, "schedule")} would run it'
        yield warning("actions", said, "declare it with @action, or `cronlease schedule delete` what needs it")
    if not unknown:
        yield ok(
            "actions", "the source has the action of every schedule that is no lease of exec or of cronlease.lease()"
        )
