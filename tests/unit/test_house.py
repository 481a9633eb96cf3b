"""House rules that import-linter does not know: who may import psycopg, and what a deployed function loads."""

import ast
import subprocess
import sys
from pathlib import Path

FUNCTIONS = Path(__file__).parents[2] / "functions"
PACKAGE = FUNCTIONS / "cronlease"


def imports_of(path: Path) -> set[str]:
    """Modules imported by the file, those only for type checking left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def test_only_db_and_sqlalchemy_import_psycopg() -> None:
    rooms = [PACKAGE / room for room in ("run", "triggers", "process", "observe", "cli")]
    for path in [*PACKAGE.glob("*.py"), *(path for room in rooms for path in room.rglob("*.py"))]:
        if path.parent.name == "project":
            # What `cronlease init` writes is the user's own code.
            continue
        knows = any(name.split(".")[0] == "psycopg" for name in imports_of(path))
        assert knows == (path.stem == "sqlalchemy"), path


def test_no_package_marker_stands_in_the_source_root() -> None:
    assert not (FUNCTIONS / "__init__.py").exists()


def test_a_deployed_function_loads_neither_cli_nor_emulator_nor_job() -> None:
    probe = "import sys, main; print(*sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", probe], cwd=FUNCTIONS, capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    heavy = {
        *("cronlease.cli", "cronlease.emulator", "cronlease.embedded", "cronlease.testing", "opening_signals"),
        *("cronlease.observe.ping", "cronlease.triggers.dispatch", "cronlease.triggers.worker"),
        *("cronlease.run.ends", "cronlease.run.finish", "cronlease.run.heartbeat", "cronlease.run.supervise"),
        *("difflib", "hashlib", "hmac", "tomllib"),
        *("cronlease.db.schedule", "cronlease.db.migration", "cronlease.process.emulated"),
        *("cronsim", "freezegun", "httpx2", "opentelemetry", "rich", "sqlalchemy", "urllib.request"),
    }
    assert "cronlease.triggers.http" in loaded
    assert not heavy & loaded
