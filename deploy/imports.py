"""What the modules of a staged directory import, although none of its requirements provides it. Runs none of them.

Only this Python knows which package provides a module, so one that it does not have is not missed.
"""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path


def unpinned(made: Path, in_wheel: set[str]) -> dict[str, tuple[Path, str]]:
    """Import -> the file that has it, and the package that would provide it."""
    lines = (made / "requirements.txt").read_text("utf-8")
    pinned = {_normal(name) for name in re.findall(r"^\w[\w.-]*", lines, re.MULTILINE)}
    files = [path.relative_to(made) for path in sorted(made.rglob("*.py"))]
    known = {*sys.stdlib_module_names, *in_wheel, *(file.parts[0].removesuffix(".py") for file in files)}
    packages, found = packages_distributions(), dict[str, tuple[Path, str]]()
    for file in files:
        for name in sorted(_imports(made / file) - known - found.keys()):
            providers = packages.get(name, [])
            if providers and pinned.isdisjoint(map(_normal, providers)):
                found[name] = file, providers[0]
    return found


def _imports(path: Path) -> set[str]:
    """The first parts of what it always imports: an import below `try` or `if` may be meant to fail."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError):
        return set()  # no module that the function imports
    names = {each.name for node in body if isinstance(node, ast.Import) for each in node.names}
    names |= {node.module for node in body if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
