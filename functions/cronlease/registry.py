"""Which functions this deployment can run, by the name in a schedule row's `action`. The decorators fill it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cronlease.job import Job

_jobs: dict[str, Job] = {}
# By name, what _execution says of the function.
_declared_in: dict[str, object] = {}


def jobs() -> Mapping[str, Job]:
    return MappingProxyType(_jobs)


def register(job: Job) -> None:
    """Raises ValueError for another function of the same name; declaring the same one again replaces it."""
    known, module = _jobs.get(job.name), _execution(job.function)
    if known is not None:
        again = _home(known.function) == _home(job.function)
        if again and module is not None and module is _declared_in.get(job.name):
            # In the same execution of the same file: a function, and further down one with its name.
            again = _line(known.function) == _line(job.function)
        if not again:
            raise ValueError(f"two functions are registered as {job.name!r}: give one of them another name")
    _jobs[job.name], _declared_in[job.name] = job, module


def load_source(path: Path) -> None:
    """Runs a main.py as the framework would, so that its decorators register what it declares. Raises ValueError,
    one sentence."""
    import importlib.util
    import sys

    path = path.absolute()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no Python file {path}: pass --source path/to/main.py")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        if str(error.code).startswith("cronlease"):
            # A sentence of the decorators.
            raise
        raise ValueError(f"{path} cannot be imported, SystemExit: {error.code}") from error
    except Exception as error:
        raise ValueError(f"{path} cannot be imported, {type(error).__name__}: {error}") from error


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    code = getattr(function, "__code__", None)
    return (getattr(code, "co_filename", function.__module__), function.__qualname__)


def _execution(function: Callable[..., Any]) -> object:
    """The execution of the file that declares it at top level: a module that is loaded again has another spec."""
    return None if "<locals>" in function.__qualname__ else getattr(function, "__globals__", {}).get("__spec__")


def _line(function: Callable[..., Any]) -> int | None:
    return getattr(getattr(function, "__code__", None), "co_firstlineno", None)
