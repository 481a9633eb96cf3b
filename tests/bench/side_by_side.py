"""What every benchmark needs: a real database, pinned cores, alternating rounds, and a table of ratios.

The machine is noisy: variants take turns in short rounds, and a ratio is the median of the rounds' own ratios.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from cronlease.embedded.server import EmbeddedPostgres
from tests.bench.table import Row

ROOT = Path(__file__).resolve().parents[2]
NAME = "refresh_opening_signals"


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def pin(pid: int, core: int | None) -> None:
    """Keeps a process on one core; None, or a system that does not allow it, leaves it where it is."""
    if core is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, {core})


@contextlib.contextmanager
def children_on(core: int | None) -> Iterator[None]:
    """What is started in the block stays on that core; we do not."""
    before = set(cores())
    pin(0, core)
    try:
        yield
    finally:
        if before and sys.platform == "linux":
            os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Bench:
    """A migrated database with one row, its server, and a directory to write in."""

    url: str
    postmaster: int
    place: Path

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=1)

    def another(self, name: str) -> str:
        """The URL of a new, empty database on the same server."""
        with self.connect() as admin:
            admin.execute(f'create database "{name}"'.encode())
        return make_conninfo(self.url, dbname=name)

    @contextlib.contextmanager
    def filled(self, name: str, *statements: str, size: int) -> Iterator[psycopg.Connection[Any]]:
        """A connection to a migrated database of its own that these statements have filled; %(size)s is in them."""
        url = self.another(name)
        migrate(url)
        with psycopg.connect(url, autocommit=True, prepare_threshold=1) as conn:
            for statement in statements:
                conn.execute(statement.encode(), {"size": size})
            conn.execute("vacuum analyze public.refresh_schedule, public.refresh_runs")
            yield conn

    def set_row(self, state: str) -> None:
        """not_due, locked or due."""
        locked_by, minutes = ("somebody else", 600) if state == "locked" else (None, None)
        with self.connect() as conn:
            conn.execute("select public.ensure_schedule(p_function_name => %s)", [NAME])
            conn.execute(
                "update public.refresh_schedule set locked_by = %s, locked_until = now() + %s * interval '1 minute',"
                " next_run_at = now() + %s * interval '1 day' where function_name = %s",
                [locked_by, minutes, 1 if state == "not_due" else -1, NAME],
            )
            conn.execute("vacuum analyze public.refresh_schedule")


@contextlib.contextmanager
def database(core: int | None) -> Iterator[Bench]:
    """The embedded server with its default settings, fsync on, in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="cronlease-bench-") as name:
        place = Path(name)
        place.chmod(0o755)
        with children_on(core):
            server = EmbeddedPostgres.start(place / "pg")
        with server:
            migrate(server.dsn)
            bench = Bench(server.dsn, server.pid, place)
            bench.set_row("not_due")
            yield bench


@contextlib.contextmanager
def pinned() -> Iterator[Bench]:
    """The database on one core and we on the same: wake-ups across cores would be most of what is measured."""
    core = cores()[-1] if cores() else None
    with database(core) as bench:
        pin(0, core)
        print(f"client and backend on core {core}")
        yield bench


class Cost(NamedTuple):
    """What one call took: seconds on the wall clock, and seconds of processor in all the processes it used."""

    wall: float
    cpu: float


Measure = Callable[[], Cost]


def cpu_of(pids: Iterable[int]) -> float:
    """Processor seconds of other processes so far. Another tenant of the core slows the wall clock, not this."""
    total = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(thread.read_text().split()[0])
    return total / 1e9


def resident(field: str) -> float:
    """VmRSS or VmHWM of this process in MB. Not ru_maxrss: that one remembers what was there before the exec."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024 / 1e6


def measured(call: Callable[[], object], times: int, pids: Iterable[int] = ()) -> Measure:
    """Calls it so many times in a row; pids are the processes that work for it beside ours."""
    others = list(pids)

    def measure() -> Cost:
        cpu, wall = time.process_time() + cpu_of(others), time.perf_counter()
        for _ in range(times):
            call()
        wall = time.perf_counter() - wall
        return Cost(wall / times, (time.process_time() + cpu_of(others) - cpu) / times)

    return measure


def alternate(variants: Mapping[str, Measure], rounds: int) -> dict[str, list[Cost]]:
    """One cost of each variant per round. Every other round goes backwards, and every pair begins one further on:
    each variant comes as often before another as after it."""
    names = list(variants)
    for name in names:
        variants[name]()
    found: dict[str, list[Cost]] = {name: [] for name in names}
    for turn in range(rounds):
        start = turn // 2 % len(names)
        order = names[start:] + names[:start]
        for name in order[::-1] if turn % 2 else order:
            found[name].append(variants[name]())
    return found


def compare(
    what: str, found: Mapping[str, list[Cost]], ours: str, base: str, goal: str = "", *, rate: str = ""
) -> Row:
    """Ours beside the base, in time or, given its unit, as a rate. The ratio is the median of the rounds' own."""
    one, other = (statistics.median(cost.wall for cost in found[name]) for name in (ours, base))
    ratio = statistics.median(a.wall / b.wall for a, b in zip(found[ours], found[base], strict=True))
    if rate:
        return Row(what, 1 / one, rate, base, 1 / other, 1 / ratio, goal)
    unit, scale = ("ms", 1e3) if max(one, other) >= 1e-3 else ("us", 1e6)
    return Row(what, one * scale, unit, base, other * scale, ratio, goal)


def show(title: str, found: Mapping[str, list[Cost]], base: str, *, as_rate: bool = False) -> None:
    """The median of each variant, and the median of its rounds' ratios to the base: by wall clock and by processor.

    As a rate, more is better: calls per second, and the ratios turned over.
    """
    wide = max(len(name) for name in found) + 2
    head = f"{'per s' if as_rate else 'wall us':>9}{'ratio':>7}  {'quartiles':<12}{'cpu us':>9}{'ratio':>7}"
    print(f"\n{title}\n{'':{wide}}{head}")
    for name, costs in found.items():
        pairs = list(zip(costs, found[base], strict=True))
        if as_rate:
            pairs = [(other, one) for one, other in pairs]
        low, middle, high = statistics.quantiles([one.wall / other.wall for one, other in pairs], n=4)
        by_cpu = statistics.median(one.cpu / other.cpu if other.cpu else 0.0 for one, other in pairs)
        wall = statistics.median(cost.wall for cost in costs)
        cpu = statistics.median(cost.cpu for cost in costs)
        print(
            f"{name:<{wide}}{1 / wall if as_rate else wall * 1e6:>9.0f}{middle:>7.2f}  {f'{low:.2f}..{high:.2f}':<12}"
            f"{cpu * 1e6:>9.1f}{by_cpu:>7.2f}",
            flush=True,
        )
