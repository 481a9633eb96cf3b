"""Which file a verb takes its functions from: --source, else FUNCTION_SOURCE, else ./main.py, else the shipped
main.py."""

import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click

import cronlease
from cronlease import registry
from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line
from cronlease.db.migration.packages import OURS, MigrationError, installed, of_actions
from cronlease.errors import DatabaseTrouble
from cronlease.job import Job
from cronlease.observe.redact import redact

_IN_THE_FOLDER = Path("main.py")
_IN_A_CLONE = Path("functions/main.py")
_NONE = "none, there is no ./main.py here: our own tables, and those of jobs that the database already has"
_IMPORTS_US = re.compile(r"^\s*(from|import)\s+cronlease\b", re.MULTILINE)


class Source(NamedTuple):
    """A Python file, and why it was chosen: the option or variable that names it, `folder` or `shipped`."""

    path: Path
    chosen_by: str

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return {"folder": "./main.py", "shipped": "the shipped main.py"}.get(self.chosen_by, str(self.path))

    @property
    def is_shipped(self) -> bool:
        """Nobody chose it, so it says nothing about the user's own deployment."""
        return self.chosen_by == "shipped"

    @property
    def is_meant(self) -> bool:
        """Whether its functions belong to this folder: the shipped ones do in a clone of ours, nowhere else."""
        return not self.is_shipped or _is_a_clone()

    def announce(self) -> None:
        """Says on standard error which file is used."""
        _announce(self.described)

    @property
    def described(self) -> str:
        if self.is_shipped:
            return f"{self.path}, the shipped one: there is no ./main.py here"
        return f"{self.name} (FUNCTION_SOURCE)" if self.chosen_by == "FUNCTION_SOURCE" else self.name


class NotASource(UsageError):
    """A ./main.py that nobody named and that does not look like a source. It was not imported."""


def choose(ctx: click.Context, parameter: click.Parameter, given: Path | None) -> Source:
    """The callback of --source: decides, and does not read the file yet."""
    if given is not None:
        by_variable = ctx.get_parameter_source(parameter.name or "") is click.core.ParameterSource.ENVIRONMENT
        return Source(given, "FUNCTION_SOURCE" if by_variable else "--source")
    return Source(_IN_THE_FOLDER, "folder") if _IN_THE_FOLDER.is_file() else Source(shipped(), "shipped")


def load_jobs(source: Source, *, announce: bool = False) -> Mapping[str, Job]:
    """The functions that the file declares; raises UsageError if there are none. Verbs that run them announce the
    file, unless they print JSON."""
    if source.chosen_by == "folder":
        _refuse_strangers(source.path)
    try:
        # What the file prints must not mix with the verb's answer.
        with redirect_stdout(sys.stderr):
            registry.load_source(source.path)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not registry.jobs():
        raise UsageError(f"{source.name} declares nothing to run: write @scheduled or @action above a function")
    if announce:
        source.announce()
    return registry.jobs()


def load_jobs_or_warn(source: Source, *, announce: bool = False) -> Mapping[str, Job] | None:
    """For verbs that run nothing: a ./main.py that cannot be used is only a warning, and the answer is None."""
    try:
        return load_jobs(source, announce=announce)
    except UsageError as error:
        if source.chosen_by != "folder":
            raise
        _warn(error)
        return None


class Declared(NamedTuple):
    """The packages whose tables the functions of a source need, and why a ./main.py could not be read."""

    packages: tuple[str, ...]
    unread: str | None = None


def declared_packages(source: Source, *, announce: bool = False) -> Declared:
    """Without a source, only ours: migrating in an unrelated folder must not make a job's tables."""
    if source.is_shipped:
        if announce:
            _announce(source.described if source.is_meant else _NONE)
        return Declared(installed() if source.is_meant else (OURS,))
    try:
        return Declared(of_actions(load_jobs(source, announce=announce)))
    except NotASource as error:
        _warn(error)
        return Declared((OURS,))
    except UsageError as error:
        if source.chosen_by != "folder":
            raise
        return Declared((OURS,), error.message)


def refuse_to_make_its_tables(source: Source, names: Iterable[str], url: str) -> None:
    """Raises UsageError where nobody named the shipped job and the database is one of other functions: a run would
    make the job's tables there. `names` are the functions of the source."""
    if source.is_meant:
        return
    # Only here: a deployed function names its source, and starts faster without these.
    from cronlease.db.conninfo import connect_sync
    from cronlease.db.migration.schema_files import has_ledger, packages_in

    names = list(names)
    try:
        with closing(connect_sync(url)) as conn:
            has_tables = not has_ledger(conn) or set(of_actions(names)) <= packages_in(conn)
    except (DatabaseTrouble, MigrationError):
        # The verb itself reports that.
        return
    if not has_tables:
        raise UsageError(
            f"there is no ./main.py here, and this database has no tables of {', '.join(names)}, the shipped job:"
            f" pass --source FILE for your own function, --source {source.path} to run the shipped one anyway"
        )


def _announce(which: str) -> None:
    click.echo(f"source: {one_line(which)}", err=True)


def _warn(error: UsageError) -> None:
    click.echo(f"Warning: {one_line(redact(error.message))}", err=True)


def _is_a_clone() -> bool:
    """Whether the working directory is a clone of ours: its main.py is the shipped one, wherever that is."""
    try:
        return _IN_A_CLONE.read_bytes() == shipped().read_bytes()
    except OSError:
        return False


def _refuse_strangers(path: Path) -> None:
    """Raises NotASource. Importing a file that nobody named is risky: many a main.py starts a server."""
    if not _IMPORTS_US.search(path.read_text("utf-8", "replace")):
        raise NotASource(
            "./main.py does not import cronlease, so it was not loaded: pass --source FILE (it may be main.py if that"
            f" declares your functions nevertheless), or --source {shipped()} for the shipped one"
        )


def chosen_job(jobs: Mapping[str, Job], source: Source, target: str | None) -> Job:
    """The named function that has a row of its own, or the only one that has."""
    hittable = [job for job in jobs.values() if job.has_row]
    names = ", ".join(job.name for job in hittable) or "none"
    if target is None:
        if not hittable:
            raise UsageError(f"{source.name} declares only actions: write @scheduled above the function to hit")
        if len(hittable) > 1:
            raise UsageError(f"say which function with --target: {source.name} has {names}")
        return hittable[0]
    if (job := jobs.get(target)) is None or not job.has_row:
        raise UsageError(f'"{target}" is not a @scheduled function of {source.name}: it has {names}')
    return job


def shipped() -> Path:
    """The deployable in the wheel, else the checkout's."""
    package = Path(cronlease.__file__).parent
    in_wheel = package / "emulator" / "main.py"
    return in_wheel if in_wheel.exists() else package.parent / "main.py"
