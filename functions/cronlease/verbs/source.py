"""Which functions this command line can run: those that a main.py declares."""

from collections.abc import Mapping
from pathlib import Path

import cronlease
from cronlease import registry
from cronlease.job import Job
from cronlease.logs import redact
from cronlease.verbs.mistake import Mistake
from cronlease.verbs.table import shown


def load_jobs(chosen: Path | None) -> Mapping[str, Job]:
    """The functions of the chosen file, else of the shipped one; one sentence where there are none."""
    path = chosen or shipped()
    try:
        registry.load_source(path)
    except ValueError as error:
        raise Mistake(shown(redact(str(error)))) from error
    if not registry.jobs():
        raise Mistake(f"{path} declares nothing to run: write @scheduled or @action above a function")
    return registry.jobs()


def chosen_job(jobs: Mapping[str, Job], source: Path | None, target: str | None) -> Job:
    """The function with a row of its own: the named one, or the only one."""
    path = source or shipped()
    hittable = [job for job in jobs.values() if job.has_row]
    names = ", ".join(job.name for job in hittable) or "none"
    if target is None:
        if len(hittable) != 1:
            raise Mistake(f"say which function with --target: {path} has {names}")
        return hittable[0]
    if (job := jobs.get(target)) is None or not job.has_row:
        raise Mistake(shown(f'"{target}" is no @scheduled function of {path}: it has {names}'))
    return job


def shipped() -> Path:
    """The deployable in the wheel, else the checkout's."""
    package = Path(cronlease.__file__).parent
    in_wheel = package / "emulator" / "main.py"
    return in_wheel if in_wheel.exists() else package.parent / "main.py"
