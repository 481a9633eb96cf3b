"""The house rules that no linter knows: who may import whom, and what a deployed function loads."""

import ast
import subprocess
import sys
from pathlib import Path

FUNCTIONS = Path(__file__).parents[2] / "functions"
PACKAGE = FUNCTIONS / "cronlease"

# Each module may import only from floors below its own.
FLOORS = [
    {"__main__"},
    {"cli", "sqlalchemy", "testing"},
    {"declare", "loop"},
    {"handler"},
    {"auth", "serving"},
    {"dispatch", "hit"},
    {"run"},
    {"ending", "lending", "skip", "supervise", "transaction"},
    {"action_lock", "blocks", "checkin", "claim", "lease", "oidc", "registry", "schedule"},
    {"job", "migrate"},
    {"adopt", "notes"},
    {"compare", "replace"},
    {"columns"},
    {"difference"},
    {"catalogue"},
    {"database"},
    {"conninfo", "guard", "lifecycle", "raised", "swift", "telemetry"},
    {"wall", "pool", "settings", "sqlstate", "statements", "logs"},
    {"outcome", "cadence", "callers", "cascade", "loopback", "trouble"},
]

PSYCOPG = {"action_lock", "conninfo", "database", "guard", "sqlalchemy", "sqlstate", "swift", "testing"}


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


def test_imports_point_one_way() -> None:
    floor_of = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert modules == set(floor_of), "give a new module its floor"
    for module in modules:
        imported = imports_of(PACKAGE / f"{module}.py")
        for target in modules:
            if f"cronlease.{target}" in imported:
                assert floor_of[module] < floor_of[target], f"{module} must not import {target}"


def test_only_the_command_line_knows_the_verbs_and_they_do_not_know_it() -> None:
    for path in PACKAGE.rglob("*.py"):
        names = imports_of(path)
        knows = any(name.startswith("cronlease.verbs") for name in names)
        assert not knows or path.parent.name == "verbs", f"{path.name} must name a verb only when it is asked for"
        assert path.parent.name != "verbs" or "cronlease.cli" not in names, path.name


def test_only_the_way_to_the_database_knows_psycopg() -> None:
    for path in [*PACKAGE.glob("*.py"), *PACKAGE.glob("verbs/*.py")]:
        knows = any(name.split(".")[0] == "psycopg" for name in imports_of(path))
        assert knows == (path.stem in PSYCOPG), path.name


def test_the_mechanism_and_the_job_know_nothing_of_each_other() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not any(name.startswith("opening_signals") for name in imports_of(path)), path.name
    for path in (FUNCTIONS / "opening_signals").rglob("*.py"):
        assert not any(name.startswith("cronlease") for name in imports_of(path)), path.name


def test_no_package_marker_stands_in_the_source_root() -> None:
    assert not (FUNCTIONS / "__init__.py").exists()


def test_a_deployed_function_loads_neither_cli_nor_emulator_nor_job() -> None:
    probe = "import sys, main; print(*sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", probe], cwd=FUNCTIONS, capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    heavy = {
        "cronlease.cli",
        "cronlease.checkin",
        "cronlease.dispatch",
        "cronlease.loop",
        "cronlease.schedule",
        "cronlease.verbs",
        "cronsim",
        "filelock",
        "cronlease.emulator",
        "cronlease.migrate",
        "opening_signals",
        "httpx2",
        "rich",
        "freezegun",
        "opentelemetry",
        "sqlalchemy",
        "urllib.request",
    }
    assert "cronlease.handler" in loaded
    assert not heavy & loaded
