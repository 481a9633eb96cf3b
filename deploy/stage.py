"""Makes DIR, the directory to deploy: all of FOLDER, the wheel of this checkout, requirements pinned by hash, and the
Dockerfile. Nothing else is needed to build or to serve it. After a failure there is no DIR.

FOLDER has a main.py and a jobs.json, and perhaps a requirements.txt and a schema.sql: `cronlease init` makes such a
folder. The default is functions/, the job that cronlease ships with; SOURCES names the sources file of that job.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from folder import ROOT, SHIPPED, Refused, end, files, read_jobs
from imports import unpinned

_USAGE = "usage: deploy/stage.sh DIR [FOLDER], where DIR is empty or not there yet"
_MARK = "# deploy/stage.sh writes the settings of jobs.json here.\n"
_NO_SCHEMA = "-- This folder has no schema.sql of its own.\n"


def main(words: list[str]) -> None:
    if not 1 <= len(words) <= 2 or any(not word or word.startswith("-") for word in words):
        end(_USAGE, 2)
    # An exception removes what is half made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        stage(Path(words[0]), Path(words[1]) if len(words) == 2 else SHIPPED, os.environ.get("SOURCES"))
    except Refused as sentence:
        end(str(sentence), 1)
    except OSError as error:
        end(f"nothing was staged: {error.filename}: {error.strerror}", 1)


def stage(target: Path, folder: Path, sources: str | None) -> None:
    """Fills a directory beside the target and renames it when it is complete."""
    jobs = read_jobs(folder, sources)
    if target.resolve().is_relative_to(folder.resolve()):
        raise Refused(f"{target} is inside {folder} and would be deployed too: name a place outside it")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise Refused(f"{target} is not a directory: name another")
    if target.is_dir() and any(target.iterdir()):
        raise Refused(f"{target} is not empty, and its files would be deployed too: empty it or name another")
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".stage-", dir=target.parent))
    try:
        _fill(made, folder, jobs, sources)
        made.chmod(0o755)
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _fill(made: Path, folder: Path, jobs: dict[str, Any], sources: str | None) -> None:
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    _run(*pip, "--wheel-dir", made, ROOT)
    (wheel,) = made.glob("cronlease-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        in_wheel = {name.partition("/")[0] for name in packed.namelist()}
    for file in files(folder, in_wheel):
        _copy(file, made / file.relative_to(folder))
    if sources:
        _copy(Path(sources), made / "sources.toml")
    (made / "jobs.json").write_text(json.dumps(jobs, indent=2) + "\n", "utf-8")
    if not (made / "schema.sql").exists():
        (made / "schema.sql").write_text(_NO_SCHEMA, "utf-8")
    (made / "requirements.txt").write_text(_pinned(folder, wheel), "utf-8")
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    (made / "Dockerfile").write_text(text.replace(_MARK, f"ENV {_settings(jobs)}\n"), "utf-8")
    for name, (file, package) in unpinned(made, in_wheel).items():
        add = f"add {package} to {folder / 'requirements.txt'}"
        print(f"warning: {file} imports {name}, which no requirement provides: {add}", file=sys.stderr)  # noqa: T201


def _copy(file: Path, to: Path) -> None:
    """Copies a file, readable by everyone: the image does not run as its owner here."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    to.chmod(0o755 if os.access(file, os.X_OK) else 0o644)


def _pinned(folder: Path, wheel: Path) -> str:
    """Every requirement of the folder and of cronlease, by hash; just our lock if the folder adds none."""
    own, lock = folder / "requirements.txt", (ROOT / "requirements.lock").read_text("utf-8")
    lines = [line.partition("#")[0].strip() for line in own.read_text("utf-8").splitlines()] if own.exists() else []
    if not set(lines) - {"", "cronlease"}:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        return f"{lock}./{wheel.name} \\\n    --hash=sha256:{digest}\n"
    # uv keeps the versions in an existing output file: those of the folder's own lock, else of ours.
    earlier, compiled, ours = folder / "requirements.lock", wheel.with_name("pinned.txt"), wheel.with_name("ours.txt")
    known = earlier.read_text("utf-8") if earlier.exists() else lock
    # The wheel of an earlier stage is not here.
    compiled.write_text(re.sub(r"^\./cronlease-.*(\n    .*)*\n", "", known, flags=re.MULTILINE), "utf-8")
    ours.write_text(f"./{wheel.name}[oidc]\n", "utf-8")
    how = ("--universal", "--generate-hashes", "--python-version", "3.11", "--no-annotate", "--no-header", "--quiet")
    # With extras: in hash mode, an older pip rejects `psycopg[binary]` if only `psycopg==` is listed.
    into = ("--no-strip-extras", "--no-emit-index-url", "--output-file", compiled.name)
    _run(*_uv(), "pip", "compile", own.resolve(), ours.name, *how, *into, cwd=wheel.parent)
    made = compiled.read_text("utf-8")
    compiled.unlink()
    ours.unlink()
    return made


def _uv() -> list[str]:
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    if (found := shutil.which("uv")) is None:
        raise Refused("uv, which pins what the folder requires, is not installed: `pip install uv`")
    return [found]


def _settings(jobs: dict[str, Any]) -> str:
    """The default environment of the image. A worker runs all functions in one process, so it gets the longest
    limits."""
    functions = jobs["functions"]
    lease, max_run = (
        max((function[name] for function in functions.values()), key=lambda text: int(text.removesuffix("s")))
        for name in ("lease", "max_run")
    )
    own = {"CRONLEASE_LEASE": lease, "CRONLEASE_MAX_RUN": max_run, "FUNCTION_TARGET": next(iter(functions))}
    quoted = {
        name: re.sub(r'(["\\$])', r"\\\1", value) for name, value in (jobs.get("environment", {}) | own).items()
    }
    return " \\\n    ".join(f'{name}="{value}"' for name, value in quoted.items())


def _run(*words: str | Path, cwd: Path | None = None) -> None:
    """Runs a command; its output goes to our standard error."""
    if subprocess.run([*map(str, words)], cwd=cwd, stdout=sys.stderr).returncode != 0:  # noqa: S603
        raise Refused("nothing was staged: the lines above say why")


if __name__ == "__main__":
    main(sys.argv[1:])
