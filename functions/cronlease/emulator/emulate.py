"""Everything on one machine, on loopback: database, sample feeds, the function, and a scheduler that hits it.

Starts and stops them in order, and prints what happens. What they do is theirs.
"""

import os
import queue
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import cronlease
from cronlease.emulator.feeds import FeedServer
from cronlease.emulator.function import EmulatorError, FunctionProcess, claimed_port
from cronlease.emulator.postgres import EmbeddedPostgres, EmbeddedPostgresError, default_data_dir
from cronlease.emulator.scheduler import Hit, Scheduler
from cronlease.emulator.show import hit_line, rows_in_the_database
from cronlease.migrate import MigrationError, migrate
from cronlease.settings import SettingsError, load

# Not the embedded server's default one: samples must not mix with what a person's own function keeps there.
_DATABASE = "emulator"
_FIRST_SCREEN_SECONDS = 30.0
_START_SECONDS = 30.0
_LAST_ANSWERS_SECONDS = 5.0
_FEED_LATENCY = 3.0
# Scaled down so that a success, not_due and locked are all seen within half a minute.
_CADENCE = {"CRONLEASE_EVERY": "6s..9s", "CRONLEASE_BACKOFF": "8s..12s", "CRONLEASE_LEASE": "20s"}
_LOOPBACK = {"CRONLEASE_AUTH": "none", "CRONLEASE_ALLOW_FORCE": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
# DEBUG would make the framework start its development server; the others say that we are on a platform.
_MISLEADING = {"DEBUG", "K_SERVICE", "KUBERNETES_SERVICE_HOST"}

Echo = Callable[[str], None]
# What the main thread waits for: an answered hit, or None when it is told to stop.
Events = queue.SimpleQueue[Hit | None]


def emulate(*, port: int, every: float, source: Path | None, target: str, seconds: float | None, echo: Echo) -> int:
    """Runs until Ctrl-C, SIGTERM or `seconds` after the first hit; answers the exit status.

    Call it from the main thread: signals arrive there, and the children end with it.
    """
    try:
        source = _source(source)
        with claimed_port(port), _stop_signals() as events, ExitStack() as stack:
            env = _CADENCE | {key: value for key, value in os.environ.items() if key not in _MISLEADING} | _LOOPBACK
            server = _embedded(stack, env)
            conninfo = env.get("DATABASE_URL", "")
            psql = server.psql_command(_DATABASE) if server else 'psql "$DATABASE_URL"' if conninfo else "psql"
            migrate(conninfo)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronlease-")))
            feeds = stack.enter_context(FeedServer(latency=_FEED_LATENCY))
            feeds.write_sources(folder / "sources.toml")
            env["CRONLEASE_SOURCES"] = str(folder / "sources.toml")
            function = FunctionProcess(source, target, port, env, folder / "function.log")
            stack.enter_context(function)
            feeds.start()  # after the last fork: a fork copies no threads, but their locks
            if _wait_until_it_answers(function, events):
                echo(_heading(function.url, psql, folder / "function.log"))
                _hit_and_follow(function, server, events, every, seconds, echo, conninfo)
            function.stop()
            echo(f"\n{rows_in_the_database(conninfo)}\n\nstopped")
    except (EmulatorError, EmbeddedPostgresError, MigrationError, SettingsError) as error:
        echo(f"cronlease emulate: {error}")
        return 1
    return 0


@contextmanager
def _stop_signals() -> Iterator[Events]:
    """Ctrl-C and SIGTERM become an event, so that nothing is interrupted half-way and all is stopped in order."""
    events: Events = queue.SimpleQueue()  # its put may be called from a signal handler
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), lambda *_: events.put(None)) for name in names}
    try:
        yield events
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _embedded(stack: ExitStack, env: dict[str, str]) -> EmbeddedPostgres | None:
    """The embedded server, named in the environment as the database; None where one is configured already."""
    if load(env).has_database:
        return None
    server = stack.enter_context(EmbeddedPostgres.start(default_data_dir() / "postgres"))
    env["DATABASE_URL"] = server.create_database(_DATABASE)
    return server


def _source(chosen: Path | None) -> Path:
    """The file with the function: the chosen one, else the one in the wheel, else the checkout's."""
    in_wheel = Path(__file__).with_name("main.py")
    in_checkout = Path(cronlease.__file__).parent.parent / "main.py"
    found = (chosen or (in_wheel if in_wheel.exists() else in_checkout)).absolute()
    if not found.is_file():
        raise EmulatorError(f"there is no file {found}: pass --source path/to/main.py")
    return found


def _wait_until_it_answers(function: FunctionProcess, events: Events) -> bool:
    """False when it was told to stop meanwhile."""
    deadline = time.monotonic() + _START_SECONDS
    while not function.answers():
        if time.monotonic() > deadline:
            raise EmulatorError(f"the function does not answer at {function.url} after {_START_SECONDS:.0f} seconds")
        try:
            if events.get(timeout=0.05) is None:
                return False
        except queue.Empty:
            continue
    return True


def _heading(url: str, psql: str, log: Path) -> str:
    return f"""\
cronlease emulate: Ctrl-C stops it all
  run it now    curl -X POST {url} -d '{{"force": true}}'
  look          curl {url}status
  database      {psql}
  its log       {log}
"""


def _hit_and_follow(
    function: FunctionProcess,
    server: EmbeddedPostgres | None,
    events: Events,
    every: float,
    seconds: float | None,
    echo: Echo,
    conninfo: str,
) -> None:
    scheduler = Scheduler(function.url, every=every, answered=events.put)
    scheduler.start()
    try:
        _follow(function, server, events, seconds, echo, conninfo)
    finally:
        scheduler.stop_hitting()
        function.stop()
        scheduler.close(_LAST_ANSWERS_SECONDS)
    while not events.empty():
        if (hit := events.get()) is not None:
            echo(hit_line(hit))


def _follow(
    function: FunctionProcess,
    server: EmbeddedPostgres | None,
    events: Events,
    seconds: float | None,
    echo: Echo,
    conninfo: str,
) -> None:
    """Prints a line per hit, and the rows at the end of the first screen, until it is told to stop or time is up."""
    began = time.monotonic()
    screen_is_full = False
    while seconds is None or time.monotonic() < began + seconds:
        function.check()
        if server is not None and not server.running:
            raise EmulatorError("the PostgreSQL it had joined stopped with the process that started it: start again")
        if not screen_is_full and time.monotonic() > began + _FIRST_SCREEN_SECONDS:
            screen_is_full = True
            echo(f"\n{rows_in_the_database(conninfo)}\n")
        try:
            hit = events.get(timeout=0.2)
        except queue.Empty:
            continue
        if hit is None:
            return
        echo(hit_line(hit))
