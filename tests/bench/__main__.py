"""Runs all benches one after another, prints one table and writes it as JSON.

    python -m tests.bench [--only NAME ...] [--quick] [--markdown] [--json bench.json] [--list]

What a bench says meanwhile goes to standard error. A bench that fails has a row that says so, the others still run,
and the exit status is 1. A goal that is not met, or a peer that cannot be installed, does not change the exit status.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import table
from tests.bench.table import Result, Row

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1]
BENCHES = {
    path.stem.removeprefix("bench_"): f"{__package__}.{path.stem}" for path in sorted(_HERE.glob("bench_*.py"))
}
# Seconds that one bench may take, and then to clean up after itself.
LIMIT = 900.0
_CLEANUP = 30.0


def measure(name: str, module: str, options: Sequence[str] = (), limit: float = LIMIT) -> Result:
    """Runs the bench in a process of its own: it pins itself to a core and sets environment variables."""
    with tempfile.TemporaryDirectory() as place:
        written, start = Path(place) / "rows.json", time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--json", str(written), *options], cwd=ROOT, stdout=2
        )
        ended = f"exit status {process.wait()}" if _ends(process, limit) else f"it took over {limit:.0f} seconds"
        # What a bench could still write also says what failed.
        rows = table.read(written)[0].rows if written.exists() else [Row("all of it", failed=True, note=ended)]
        return Result(name, rows, time.monotonic() - start)


def _ends(process: subprocess.Popen[bytes], limit: float) -> bool:
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_CLEANUP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return False
    return True


def main(arguments: Sequence[str] | None = None, benches: Mapping[str, str] = BENCHES) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(benches), default=list(benches), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, with date and machine")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="where to write it (%(default)s)")
    parser.add_argument("--list", action="store_true", help="print the names of the benches, and measure nothing")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(benches))
        return 0
    where = {**table.machine(), "quick": given.quick}
    results = []
    for name in given.only:
        print(f"\n=== {name}", file=sys.stderr, flush=True)
        results.append(measure(name, benches[name], ["--quick"] if given.quick else []))
        print(f"=== {name}: {results[-1].seconds:.0f} s", file=sys.stderr, flush=True)
        table.write(given.json, results, where)
    print(table.as_markdown(results, where) if given.markdown else f"{table.title(where)}\n{table.as_text(results)}")
    return int(any(row.failed for result in results for row in result.rows))


if __name__ == "__main__":
    sys.exit(main())
