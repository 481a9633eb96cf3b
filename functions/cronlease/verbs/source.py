"""Which functions this command line can run: those that a main.py declares."""

from collections.abc import Mapping
from pathlib import Path

import click

import cronlease
from cronlease import registry
from cronlease.job import Job
from cronlease.logs import redact
from cronlease.verbs.table import shown


def load_jobs(chosen: Path | None) -> Mapping[str, Job]:
    """The functions of the chosen file, else of the shipped one; one sentence where there are none."""
    path = chosen or shipped()
    try:
        registry.load_source(path)
    except ValueError as error:
        raise click.ClickException(shown(redact(str(error)))) from None
    if not registry.jobs():
        raise click.ClickException(f"{path} declares nothing to run: write @scheduled or @action above a function")
    return registry.jobs()


def shipped() -> Path:
    """The deployable in the wheel, else the checkout's."""
    package = Path(cronlease.__file__).parent
    in_wheel = package / "emulator" / "main.py"
    return in_wheel if in_wheel.exists() else package.parent / "main.py"
