"""The virtual environment of the libraries that we are compared with. Nothing is ever installed beside our own.

It lies over the environment that runs the benches: what is there already is used from there, so that a peer uses the
same driver as we do.
"""

import importlib.util
import re
import site
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

_HERE = Path(__file__).resolve().parent
ENVIRONMENT = _HERE / ".venv"
_REQUIREMENTS = _HERE / "requirements.txt"


def is_entered() -> bool:
    """Whether this process runs in the peers' environment."""
    return Path(sys.prefix).resolve() == ENVIRONMENT


def is_installed(peer: str) -> bool:
    return importlib.util.find_spec(peer.lower()) is not None


def python_with(peers: Iterable[str]) -> Path | None:
    """The Python of the peers' environment, with what was missing installed. None: there is no such environment.

    A peer that cannot be installed is left out, and pip says why.
    """
    python = ENVIRONMENT / "bin" / "python"
    try:
        _lay_over(python)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"there is no environment for the peers: {error}", file=sys.stderr)
        return None
    for peer in peers:
        command = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", requirement(peer)]
        if subprocess.run(command, stdout=2, check=False).returncode:
            print(f"{peer} cannot be installed", file=sys.stderr)
    return python


def _lay_over(python: Path) -> None:
    """Makes the environment where it is missing or of another Python, and points it to what runs us now."""
    ours = [path for path in site.getsitepackages() if Path(path).is_dir()]
    points_to = "".join(f"import site; site.addsitedir({path!r})\n" for path in ours)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pointer = ENVIRONMENT / "lib" / version / "site-packages" / "benches.pth"
    if not (python.exists() and pointer.exists() and pointer.read_text() == points_to):
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        pointer.write_text(points_to)


def requirement(peer: str) -> str:
    """The line of requirements.txt that names it."""
    names = re.compile(rf"{re.escape(peer)}\b", re.IGNORECASE)
    (line,) = (line for line in _REQUIREMENTS.read_text().splitlines() if names.match(line))
    return line
