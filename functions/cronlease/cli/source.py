"""Which file a verb takes its functions from. The order is decided here: --source, FUNCTION_SOURCE, ./main.py in the
working directory, the shipped main.py."""

import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click

import cronlease
from cronlease import registry
from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line
from cronlease.db.migration.packages import OURS, installed, of_actions
from cronlease.job import Job
from cronlease.observe.redact import redact

_FOUND = Path("main.py")
_IN_A_CLONE = Path("functions/main.py")
_NONE = "source: none, there is no ./main.py here: our own tables, and those of jobs that the database has already"
_IMPORTS_US = re.compile(r"^\s*(from|import)\s+cronlease\b", re.MULTILINE)


class Source(NamedTuple):
    """A Python file, and why it was chosen: the option or variable that names it, or the place where it was found."""

    path: Path
    chosen_by: str

    @property
    def name(self) -> str:
        """For a sentence."""
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
        """Says which file is used, on standard error."""
        click.echo(f"source: {one_line(self.described)}", err=True)

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
    return Source(_FOUND, "folder") if _FOUND.is_file() else Source(shipped(), "shipped")


def load_jobs(source: Source, *, announce: bool = False) -> Mapping[str, Job]:
    """The functions that the file declares; raises one sentence where there are none. Verbs that run them and do not
    print JSON say which file it was."""
    if source.chosen_by == "folder":
        _refuse_strangers(source.path)
    try:
        # What the file prints must not get among a verb's answers.
        with redirect_stdout(sys.stderr):
            registry.load_source(source.path)
    except ValueError as error:
        raise UsageError(one_line(redact(str(error)))) from error
    if not registry.jobs():
        raise UsageError(f"{source.name} declares nothing to run: write @scheduled or @action above a function")
    if announce:
        source.announce()
    return registry.jobs()


def load_jobs_or_warn(source: Source, *, announce: bool = False) -> Mapping[str, Job] | None:
    """The same for verbs that run nothing: a ./main.py that cannot be used is a warning there, and None."""
    try:
        return load_jobs(source, announce=announce)
    except UsageError as error:
        if source.chosen_by != "folder":
            raise
        click.echo(f"Warning: {error.message}", err=True)
        return None


class Declared(NamedTuple):
    """The packages whose tables the functions of a source need, and what is wrong with one that does not tell."""

    packages: tuple[str, ...]
    unread: str | None = None


def declared_packages(source: Source, *, announce: bool = False) -> Declared:
    """Only ours where there is no source: whoever migrates in any folder gets no tables of a job."""
    if source.is_shipped:
        if announce:
            source.announce() if source.is_meant else click.echo(_NONE, err=True)
        return Declared(installed() if source.is_meant else (OURS,))
    try:
        return Declared(of_actions(load_jobs(source, announce=announce)))
    except NotASource as error:
        click.echo(f"Warning: {error.message}", err=True)
        return Declared((OURS,))
    except UsageError as error:
        if source.chosen_by != "folder":
            raise
        return Declared((OURS,), error.message)


def _is_a_clone() -> bool:
    """Whether the working directory is one: its main.py is the shipped one, wherever that is installed."""
    try:
        return _IN_A_CLONE.read_bytes() == shipped().read_bytes()
    except OSError:
        return False


def _refuse_strangers(path: Path) -> None:
    """Raises NotASource. Importing a file that nobody named may do anything: many a main.py starts a server."""
    if not _IMPORTS_US.search(path.read_text("utf-8", "replace")):
        raise NotASource(
            "./main.py does not import cronlease, so it was not loaded: pass --source FILE (it may be main.py if that"
            f" declares your functions nevertheless), or --source {shipped()} for the shipped one"
        )


def chosen_job(jobs: Mapping[str, Job], source: Source, target: str | None) -> Job:
    """The function with a row of its own: the named one, or the only one."""
    hittable = [job for job in jobs.values() if job.has_row]
    names = ", ".join(job.name for job in hittable) or "none"
    if target is None:
        if not hittable:
            raise UsageError(f"{source.name} declares only actions: write @scheduled above the function to hit")
        if len(hittable) > 1:
            raise UsageError(f"say which function with --target: {source.name} has {names}")
        return hittable[0]
    if (job := jobs.get(target)) is None or not job.has_row:
        raise UsageError(one_line(f'"{target}" is no @scheduled function of {source.name}: it has {names}'))
    return job


def shipped() -> Path:
    """The deployable in the wheel, else the checkout's."""
    package = Path(cronlease.__file__).parent
    in_wheel = package / "emulator" / "main.py"
    return in_wheel if in_wheel.exists() else package.parent / "main.py"
