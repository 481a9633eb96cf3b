"""What the doctor finds in the database, from the server itself to the rows of the schedules. Writes nothing."""

import time
from collections.abc import Collection, Iterator
from typing import Any

from cronlease.cadence import Cadence
from cronlease.cli.doctor import alerts
from cronlease.cli.doctor.finding import Finding, broken, info, ok, warning
from cronlease.cli.drift import BY_HAND, MIGRATE, drift
from cronlease.cli.roles import READER, RUNNER, lacks
from cronlease.db.conninfo import SyncConnection
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
from cronlease.db.questions import Questions
from cronlease.db.schema import in_schema
from cronlease.errors import DatabaseTrouble, NotPermitted, SchemaMissing
from cronlease.explain.backends import blocking_backends, description, how_to_end
from cronlease.explain.format import counted
from cronlease.settings import Settings

_ask = Questions(__file__)
_OLDEST = 140000
_SKEW_SECONDS = 2.0
_MOST_CRONS = 10
_A_CLAIM = "execute on acquire_refresh_lock"
_OWNER = "run the doctor again as the owner of the schema"


def check(
    conn: SyncConnection, settings: Settings, known: Collection[str] | None, declared: Collection[str]
) -> Iterator[Finding]:
    """`known` are the actions of the source, if there is one; `declared` the packages whose tables belong here."""
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
        sentence, _, fix = str(error).partition(": ")
        yield broken("schema", sentence, fix)
    except DatabaseTrouble as trouble:
        yield broken("schema", str(trouble), MIGRATE)
    if there != "absent":
        yield from _tried("grants", _grants(conn, server["role"]))
        yield from _tried("strangers", _strangers(conn, declared))
    if there == "complete":
        yield from _tried("leases", _leases(conn))
        yield from _tried("backends", _backends(conn))
        yield from _tried("cadences", _readable("cadences", _cadences(conn)))
        yield from _tried("args", _readable("args", _unreadable(conn, "args", "args", "cannot be read", "--args")))
        yield from _tried("alerts", alerts.check(conn, settings.alert_url))
        if known is not None:
            yield from _tried("actions", _actions(conn, known))
        else:
            yield info("actions", "not checked: --source main.py shows which schedules your functions cannot run")


def scheduled(conn: SyncConnection) -> set[str]:
    """The actions that have a schedule; none if that cannot be read."""
    try:
        return set(_ask(conn, "scheduled"))
    except DatabaseTrouble:
        return set()


def _tried(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Trouble in one check is a finding, and the other checks go on."""
    try:
        yield from findings
    except (SchemaMissing, MigrationError):
        # The check of the schema has reported that already.
        return
    except DatabaseTrouble as trouble:
        yield warning(check, f"this role cannot check it: {trouble}", _OWNER)


def _server(conn: SyncConnection, server: dict[str, Any]) -> Iterator[Finding]:
    version, creators = server["version"], ", ".join(server["creators"])
    yield ok("connection", f"PostgreSQL {version}, database {server['database']}, as {server['role']}")
    if conn.info.server_version < _OLDEST:
        sentence = f"the server is PostgreSQL {version}, but 14 or newer is needed"
        yield broken("server", sentence, "upgrade the server, or use a newer one")
    may_create = in_schema("may create objects in the schema public, even functions with the names of ours")
    if server["open_schema"]:
        fix = in_schema("run `revoke create on schema public from public` as the owner of the database")
        yield warning("server", f"everybody {may_create}", fix)
    if creators:
        fix = in_schema(f"unless that is intended, `revoke create on schema public from {creators}`")
        yield warning("server", f"{creators} {may_create}", fix)
    if server["encoding"] != "UTF8":
        sentence = f"the database is encoded as {server['encoding']}: text with other characters fails, or is misread"
        fix = "use a database made with `create database ... encoding 'UTF8' template template0`"
        yield warning("server", sentence, fix)
    if server["read_only"]:
        yield broken("server", "the database is read-only", "connect to the primary, not to a standby or a replica")


def _clock(server_now: float, before: float, after: float) -> Iterator[Finding]:
    """The server's time was read between `before` and `after`: the clocks are at least that far apart."""
    apart = max(before - server_now, server_now - after, 0.0)
    if apart > _SKEW_SECONDS:
        which = "behind" if server_now > after else "ahead of"
        sentence = f"this machine's clock is at least {apart:.0f} s {which} the database's"
        fix = "synchronize both machines with a time server (NTP): leases do not depend on it, but tokens and logs do"
        yield warning("clock", sentence, fix)
    else:
        yield ok("clock", "this machine's clock and the database's agree")


def _pooler(conn: SyncConnection, server: dict[str, Any], settings: Settings) -> Iterator[Finding]:
    """Behind a pooler, the process that answers is not the one that accepted the connection."""
    is_there = server["pid"] != conn.info.backend_pid
    sentence = f"{'a' if is_there else 'no'} pooler in between, CRONLEASE_POOLER is {settings.pooler}"
    if is_there and settings.pooler == "none":
        yield broken("pooler", f"{sentence}: prepared statements will fail", "set CRONLEASE_POOLER=transaction")
    elif not is_there and settings.pooler == "transaction":
        fix = "leave CRONLEASE_POOLER at auto, unless the function itself connects through a pooler"
        yield warning("pooler", f"{sentence}: nothing is prepared, which costs time at each hit", fix)
    else:
        yield ok("pooler", sentence)


def _absent(
    conn: SyncConnection, there: str, server: dict[str, Any], settings: Settings, declared: Packages
) -> Iterator[Finding]:
    sentence, role = "the database has no schema of ours yet", server["role"]
    if there == "adoptable":
        sentence = "the database has tables or functions of an older generation"
        if refused := drift(conn, declared).refused:
            yield broken("schema", f"{sentence}, which cannot be adopted: {'; '.join(refused)}", BY_HAND)
            return
    elif foreign := [each.sentence for each in refusals(bearers(conn, pending(conn, declared), declared))]:
        yield broken("schema", f"{sentence}, and migrate refuses: {'; '.join(foreign)}", BY_HAND)
        return
    if not server["may_create"]:
        fix = f'run `cronlease migrate --roles` as the owner of the database, then `grant {RUNNER} to "{role}"`'
        sentence = in_schema(f"{sentence}, and {role} may not create anything in schema public")
        yield broken("schema", sentence, in_schema(fix))
    elif settings.migrate == "never":
        yield broken("schema", f"{sentence}, and CRONLEASE_MIGRATE is never", MIGRATE)
    else:
        yield warning("schema", sentence, f"{MIGRATE}, or let the first hit create it")


def _schema(conn: SyncConnection, declared: Packages) -> Iterator[Finding]:
    and_more = ", no migration is missing"
    try:
        behind = drift(conn, declared)
    except NotPermitted as trouble:
        yield warning("schema", f"this role cannot read the migrations: {trouble}", _OWNER)
        behind, and_more = drift(conn, declared, ledger=False), ""
    if behind.is_there:
        # Runs can live with a constraint that somebody added on purpose.
        ours = (
            behind.migrations or behind.differences or behind.newer or not all(each.theirs for each in behind.tables)
        )
        yield (broken if ours else warning)("schema", "; ".join(behind.sentences()), behind.fix)
    else:
        yield ok("schema", f"every table, function and view is as its file says{and_more}")


def _grants(conn: SyncConnection, role: str) -> Iterator[Finding]:
    # A run needs what the files grant to the role of a deployment.
    lacking = lacks(conn, role, RUNNER)
    if lacking and _A_CLAIM in lacking and not lacks(conn, role, READER):
        fix = f'nothing, if it is for a person who only reads; a deployment needs `grant {RUNNER} to "{role}"`'
        yield warning("grants", f"{role} may read, but not run anything", in_schema(fix))
    elif lacking:
        fix = f'run `cronlease migrate --roles` as the owner, then `grant {RUNNER} to "{role}"`'
        yield broken("grants", f"{role} lacks {', '.join(lacking)}", in_schema(fix))
    else:
        yield ok("grants", f"{role} may do all that a run needs")


def _backends(conn: SyncConnection) -> Iterator[Finding]:
    """Backends that have blocked a schedule for longer than a claim or a lease lasts."""
    blocking = blocking_backends(conn)
    for each in blocking:
        what = "its row" if each.holds_row else "the advisory lock of a claim"
        sentence = f'every hit of "{each.function_name}" is skipped as locked: {what} is held by {description(each)}'
        yield warning("backends", sentence, how_to_end(each))
    if not blocking:
        yield ok("backends", "no backend keeps a schedule from running")


def _strangers(conn: SyncConnection, declared: Packages) -> Iterator[Finding]:
    packages = wanted(conn, declared)
    tables_and_more = tables_of(schema_files("migrations", packages))
    names = [*tables_and_more, *(file.name for file in functions_and_views(packages))]
    for stranger in _ask(conn, "strangers", names=names):
        role, tables, functions = stranger["role"], stranger["tables"], stranger["functions"]
        objects = [*tables, *functions]
        listed = _names({"names": objects[:3], "count": len(objects)})
        sentence = f"{role} may use {counted(len(objects), 'object')} of ours: {listed}"
        revokes = [f"revoke all on {', '.join(tables)} from {role}"] if tables else []
        revokes += [f"revoke all on function {', '.join(functions)} from {role}"] if functions else []
        if stranger["by_default"]:
            yield warning("strangers", sentence, f"unless that is intended, `{'; '.join(revokes)}`")
        else:
            yield info("strangers", sentence)


def _leases(conn: SyncConnection) -> Iterator[Finding]:
    stale = _ask(conn, "leases")
    if stale["count"]:
        sentence = f"{counted(stale['count'], 'lease')} ran out before the run finished: {_names(stale)}"
        fix = (
            "run `cronlease recover --all`, or wait: the next hit takes over, unless the schedule is paused or a"
            " backend has its row locked"
        )
        yield warning("leases", sentence, fix)
    else:
        yield ok("leases", "no lease has run out under its run")


def _readable(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    found = list(findings)
    yield from found or [ok(check, f"the {check} of all schedules can be read")]


def _cadences(conn: SyncConnection) -> Iterator[Finding]:
    yield from _unreadable(conn, "cadences", "every", "holds no cadence", "--every 10m..15m")
    unreadable = [(each, why) for each in _ask(conn, "crons") if (why := _mistake(**each["cadence"]))]
    for each, why in unreadable[:_MOST_CRONS]:
        sentence = f"{counted(each['count'], 'schedule')} cannot be planned: {_names(each)}; {why}"
        yield broken("cadences", sentence, _replace('--cron "0 9 * * 1-5"'))
    if more := unreadable[_MOST_CRONS:]:
        sentence = f"{counted(len(more), 'more cron')} cannot be read"
        yield broken("cadences", sentence, "correct those above, and run the doctor again")


def _mistake(cron: str, time_zone: str | None, has_form: bool) -> str | None:
    """Why that cron cannot be read, by the code that plans or by the claim, which checks only its form."""
    try:
        Cadence.of_cron(cron, time_zone)
    except ValueError as error:
        return str(error)
    return None if has_form else f"{cron!r} is not a cron expression: write five fields, such as */5 * * * *"


def _unreadable(conn: SyncConnection, check: str, column: str, how: str, option: str) -> Iterator[Finding]:
    unreadable = _ask(conn, "unreadable", column=column)
    if unreadable["count"]:
        count = counted(unreadable["count"], "schedule")
        sentence = f"{count} cannot run, the column {column} {how}: {_names(unreadable)}"
        yield broken(check, sentence, _replace(option))


def _replace(option: str) -> str:
    return f"run `cronlease schedule create NAME --replace {option} ...` for each, or correct the column by hand"


def _names(some: dict[str, Any]) -> str:
    return ", ".join(some["names"]) + (", ..." if some["count"] > len(some["names"]) else "")


def _actions(conn: SyncConnection, known: Collection[str]) -> Iterator[Finding]:
    unknown: dict[str, int] = _ask(conn, "actions", known=sorted(known))
    for action, count in unknown.items():
        sentence = f'the source has no action "{action}", which {counted(count, "schedule")} would run'
        yield warning("actions", sentence, "declare it with @action, or `cronlease schedule delete` what needs it")
    if not unknown:
        yield ok("actions", "the source has the action of every schedule, apart from leases of exec and lease()")
