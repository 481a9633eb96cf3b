"""The function and everything it needs, on loopback: database, sample feeds, signing keys. Started in order, stopped
in reverse. Knows nothing of hits."""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cronlease.db.migration.migrate import migrate
from cronlease.db.migration.packages import of_actions
from cronlease.embedded.server import EmbeddedPostgres, default_data_dir
from cronlease.emulator import external_database
from cronlease.emulator.extensions import Extension
from cronlease.emulator.function import EmulatorError, FunctionProcess, Log, claimed_port, log_file
from cronlease.emulator.issuer import Issuer
from cronlease.emulator.setup import SetupError, run_file
from cronlease.emulator.stopping import Stopping
from cronlease.process.emulated import EMULATED, VERDICT, Times
from cronlease.settings import PLATFORM_MARKS, Settings, load

# Not the embedded server's default database: samples must not mix with the data of a user's own function.
_DATABASE = "emulator"
_FEED_LATENCY = 3.0
# In a shell, one command over several lines.
_NEXT_LINE = f" \\\n{' ' * 18}"
# For a person with curl.
_TOKEN_SECONDS = 86_400
# Without auth, callers on this machine may do everything, and a web page in their browser may not.
_LOOPBACK = {"CRONLEASE_AUTH": "", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
# The user may have set this, and the other commands need it too.
_CHOSEN = {"CRONLEASE_SCHEMA"}
# DEBUG would start the framework's development server, the marks claim that this is a platform, and a monitor must
# not mistake these runs for real ones.
_MISLEADING = {"DEBUG", "CRONLEASE_PING_URL", *PLATFORM_MARKS}


@dataclass(frozen=True, slots=True)
class Environment:
    """What is running. `name` is the function with its source; `times` are its cadence, lease and backoff here."""

    name: str
    times: str
    function: FunctionProcess
    server: EmbeddedPostgres | None
    conninfo: str
    psql: str
    log: Log
    # Settings that make other commands behave like the emulated function.
    behaviour: dict[str, str]
    token: Callable[[], str] | None
    token_file: Path | None
    # Where the status page reads the verdict so far.
    verdict_file: Path

    def heading(self) -> str:
        database = [self.server.shell_variables(_DATABASE)] if self.server else []
        verbs = [*database, *(f"{name}={shlex.quote(value)}" for name, value in self.behaviour.items())]
        export = f"\n  other verbs   export {_NEXT_LINE.join(verbs)}" if verbs else ""
        auth = f' -H "Authorization: Bearer $(cat {self.token_file})"' if self.token_file else ""
        browser = "" if auth else f"open {self.function.url}status in a browser, or "
        return f"""\
cronlease emulate: Ctrl-C stops it all
  function      {self.name}
  times         {self.times}
  run it now    curl -X POST {self.function.url}{auth} -d '{{"force": true}}'
  look          {browser}curl {self.function.url}status{auth}
  database      {self.psql}{export}
  its log       {self.log.path}
"""


class Target(NamedTuple):
    """What is emulated: `function` of `source`, shown as `name`, with the times its decorator declares. The user's
    own environment wins over `defaults`. The hits can run `actions`. `setup` is a file of SQL that is run first."""

    source: Path
    function: str
    name: str
    declared: Times
    defaults: dict[str, str]
    setup: Path | None = None
    workers: int = 1
    oidc: bool = False
    actions: tuple[str, ...] = ()
    extensions: tuple[Extension, ...] = ()


@contextmanager
def started(target: Target, port: int, stopping: Stopping, warn: Callable[[str], None]) -> Iterator[Environment]:
    """Runs the target until the block ends. For the main thread: the child processes end with it."""
    with claimed_port(port), ExitStack() as stack:
        kept = {key: value for key, value in os.environ.items() if key not in _MISLEADING}
        env = target.defaults | {"WORKERS": str(target.workers)} | kept | _LOOPBACK
        issuer = stack.enter_context(Issuer(f"http://127.0.0.1:{port}")) if target.oidc else None
        if issuer is not None:
            env |= issuer.environment()
        settings = load(env)
        server = None
        if settings.has_database:
            warn(external_database.notice(env, target.extensions))
        else:
            server = _embedded(stack, env)
        conninfo = env.get("DATABASE_URL", "")
        migrate(conninfo, packages=of_actions(target.actions))
        if target.setup is not None:
            _set_up(conninfo, target.setup)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cronlease-")))
        verdict_file = folder / "verdict.json"
        env[VERDICT] = str(verdict_file)
        # Long enough to see a run in progress, too short for its lease to expire.
        latency = min(_FEED_LATENCY, settings.lease.total_seconds() / 4)
        feeds = [stack.enter_context(each.feeds(folder, env, latency)) for each in target.extensions]
        log = stack.enter_context(log_file())
        function = FunctionProcess(target.source, target.function, port, env, log, stopping)
        stack.enter_context(function)
        for loopback in [*feeds, *([issuer] if issuer else [])]:
            loopback.start()
        variables = [name for each in target.extensions for name in each.variables()]
        yield Environment(
            target.name,
            _times(target.declared, env, settings),
            function,
            server,
            conninfo,
            server.psql_command(_DATABASE) if server else 'psql "$DATABASE_URL"' if conninfo else "psql",
            log,
            {name: env[name] for name in [*target.defaults, *variables, *_CHOSEN.intersection(env)]},
            issuer.token if issuer else None,
            _token_file(folder, issuer) if issuer else None,
            verdict_file,
        )


def _embedded(stack: ExitStack, env: dict[str, str]) -> EmbeddedPostgres:
    """Starts the embedded server and makes it the DATABASE_URL."""
    server = stack.enter_context(EmbeddedPostgres.start(default_data_dir() / "postgres", keep=True))
    env["DATABASE_URL"] = server.create_database(_DATABASE)
    return server


def _set_up(conninfo: str, file: Path) -> None:
    try:
        run_file(conninfo, file)
    except SetupError as error:
        again = "; the file is run at every start: write `if not exists`, `or replace` or `on conflict do nothing`"
        raise EmulatorError(f"--setup {error}{again if error.already_there else ''}") from None


def _times(declared: Times, env: dict[str, str], settings: Settings) -> str:
    """The times of the function here, and the declared ones where they were shortened."""
    how = env.get(EMULATED)
    here = declared.shortened(how, settings) if how else declared
    shortened = "" if here == declared else f" (shortened from {declared})"
    return f"{here.filled(settings)}{shortened}"


def _token_file(folder: Path, issuer: Issuer) -> Path:
    file = folder / "token"
    file.write_text(issuer.token(_TOKEN_SECONDS), encoding="ascii")
    return file
