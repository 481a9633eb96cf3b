"""A folder to deploy: checks its jobs.json, and lists the files to copy.

As a script, `python3 deploy/folder.py FOLDER` prints the jobs.json as it will be staged.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "functions"
# Set elsewhere: in jobs.json, by the deployment, or by the Dockerfile.
RESERVED = {
    *("CRONLEASE_AUTH", "CRONLEASE_LEASE", "CRONLEASE_MAX_RUN", "CRONLEASE_MIGRATE", "DATABASE_URL"),
    *("FUNCTION_SOURCE", "FUNCTION_TARGET", "GOOGLE_CLOUD_PROJECT", "PORT"),
}
_SCHEMA = "deploy/jobs.schema.json describes it"
_TEST = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py|pytest\.ini|.*\.pyc")
# The staged directory has its own file with that name, which would replace this one.
_STAGED = re.compile(r"Dockerfile|cronlease-.*\.whl")


class Refused(Exception):
    """One sentence that says what to do."""


def end(sentence: str, status: int) -> NoReturn:
    print(sentence, file=sys.stderr)  # noqa: T201
    sys.exit(status)


def read_jobs(folder: Path, sources: str | None = None) -> dict[str, Any]:
    """The jobs.json of the folder, checked as far as staging depends on it. A sources file adds CRONLEASE_SOURCES."""
    for name in ("main.py", "jobs.json"):
        if not (folder / name).is_file():
            raise Refused(f"{folder} has no {name}, so it cannot be deployed: `cronlease init` makes such a folder")
    if sources and not Path(sources).is_file():
        raise Refused(f"SOURCES is {sources}, but there is no such file, seen from {Path.cwd()}")
    path = folder / "jobs.json"
    try:
        jobs: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if not isinstance(jobs, dict):
            raise Refused(f"{path} is not a JSON object: {_SCHEMA}")
        functions, environment = jobs["functions"], jobs.get("environment", {})
        hit = {job["function"] for job in jobs["jobs"].values()}
        limits = {
            f"{name} of {called}": function[name]
            for called, function in functions.items()
            for name in ("lease", "max_run")
        }
        texts, secrets = list(environment.values()), jobs.get("secrets", {})
        named = [re.fullmatch(r"[A-Za-z0-9_-]{1,255}", secret) for secret in secrets.values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{path} cannot be used ({error!r}): {_SCHEMA}") from None
    if not functions:
        raise Refused(f"{path} needs a function: {_SCHEMA}")
    for name, limit in limits.items():
        if not re.fullmatch(r"[1-9]\d*s", str(limit)):
            raise Refused(f"{path} has {limit!r} as the {name}: write seconds such as 300s")
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        raise Refused(f"{path} has values in its environment that are not texts of one line")
    if not all(named):
        raise Refused(f"{path} has values in its secrets that are not names of secrets: {_SCHEMA}")
    if taken := sorted(RESERVED & {*environment, *secrets}):
        raise Refused(f"{path} has {taken[0]} among its variables, which is set elsewhere: {_SCHEMA}")
    if unknown := sorted(hit - set(functions)):
        raise Refused(f"{path} has a job for {unknown[0]}, which is not one of its functions")
    declared = _declared(folder / "main.py")
    if declared is not None and (missing := sorted(set(functions) - declared)):
        raise Refused(f"{path} names the function {missing[0]}, which main.py does not have")
    if sources:
        jobs["environment"] = {**environment, "CRONLEASE_SOURCES": "sources.toml"}
    return jobs


def _declared(path: Path) -> set[str] | None:
    """The names that the module binds at its top level; None if only running it would tell."""
    try:
        body = ast.parse(path.read_text("utf-8")).body
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Refused(f"{path} is not Python: {error}") from None
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif not isinstance(node, ast.Expr | ast.ClassDef):
            return None
    return None if "*" in names else names


def files(folder: Path, in_wheel: set[str]) -> Iterator[Path]:
    """All but hidden files, tests, bytecode, virtual environments, and the packages of the wheel."""
    for place, folders, names in os.walk(folder):
        here, is_top = Path(place), Path(place) == folder
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in ("__pycache__", "tests")
            and not (is_top and name in in_wheel)
            and not (here / name / "pyvenv.cfg").exists()
        )
        names = [name for name in sorted(names) if not name.startswith(".") and not _TEST.fullmatch(name)]
        for path in [here / name for name in (*folders, *names)]:
            if path.is_symlink() and not path.is_file():
                raise Refused(f"{path} is a link to a folder or to nothing: replace it by what it stands for")
        for name in names:
            if is_top and _STAGED.fullmatch(name):
                raise Refused(f"{here / name} would be lost, since the staged directory has its own: rename it")
            yield here / name


if __name__ == "__main__":
    try:
        given = read_jobs(Path(sys.argv[1]) if sys.argv[1:] else SHIPPED, os.environ.get("SOURCES"))
    except Refused as sentence:
        end(str(sentence), 1)
    print(json.dumps(given))  # noqa: T201
