"""The command line that every bench has in common.

A bench is a module with a function `rows` that measures and yields the rows of the table one by one. Its keyword
arguments are the options of its command line, and QUICK has the values of those for a quick try.
"""

import argparse
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import peers as environment
from tests.bench import table
from tests.bench.table import Result, Row

Rows = Callable[..., Iterator[Row]]


def run(rows: Rows, quick: Mapping[str, Any], *, peers: Sequence[str] = ()) -> None:
    """Measures, and prints the rows below what the bench itself has said. Ends the process with 1 if it failed.

    A bench with peers goes on in an environment that has them.
    """
    main = sys.modules["__main__"]
    assert main.__spec__ is not None, "run it as a module: python -m"
    given = _parser(rows, main.__doc__).parse_args()
    if peers and not environment.is_entered() and (python := environment.python_with(peers)):
        os.execv(python, [str(python), "-m", main.__spec__.name, *sys.argv[1:]])
    options = {name: value for name, value in vars(given).items() if name not in ("json", "quick")}
    if given.quick:
        options |= {name: value for name, value in quick.items() if options[name] == _default(rows, name)}
    found = list(collect(rows, options))
    result = Result(main.__spec__.name.rpartition(".")[2].removeprefix("bench_"), found)
    if given.json:
        table.write(given.json, [result], {})
    else:
        print(f"\n{table.as_text([result])}")
    sys.exit(any(row.failed for row in found))


def collect(rows: Rows, options: Mapping[str, Any]) -> Iterator[Row]:
    """The rows up to the first error, which is a row itself."""
    try:
        yield from rows(**options)
    except Exception as error:
        traceback.print_exc()
        yield Row("the rest of this bench", failed=True, note=f"{type(error).__name__}: {error}".splitlines()[0])


def _default(rows: Rows, name: str) -> Any:
    return inspect.signature(rows).parameters[name].default


def _parser(rows: Rows, doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in inspect.signature(rows).parameters:
        option, default = f"--{name.replace('_', '-')}", _default(rows, name)
        if isinstance(default, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=default)
        else:
            parser.add_argument(option, type=type(default), default=default, help=f"default: {default}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--json", type=Path, help="write the rows there instead of printing them")
    return parser
