"""Where the fault tests play: the shipped job behind two real servers, one of which can be hurt; one database.

The point at which a run is hurt is chosen by what can be seen from outside: a message that the proxy holds, a feed
that keeps its reader waiting. The product has no hooks for it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.conftest import FUNCTIONS, Serve, Served, serving
from tests.conftest import Server
from tests.faults.processes import workers
from tests.integration.boards import Feeds, answer, board, job
from tests.integration.conftest import Room, wait_until
from tests.proxy import Held, Proxy, proxied

NAME = "refresh_opening_signals"
OPENINGS = 40
LEASE_SECONDS = 3
LEASE = f"{LEASE_SECONDS}s"
# Half of the lease, as the settings derive it.
IDLE_SECONDS = 1.5


class Feed:
    """One source whose openings carry the number of the request that fetched them: a batch that is half one and half
    another is seen at once."""

    def __init__(self, directory: Path) -> None:
        self.sources = directory / "sources.toml"
        self._feeds = Feeds(self.sources)
        self._feeds.serve(acme=self._answer)
        self.asked = 0
        self.holding = False
        self.arrived = threading.Event()
        self._go = threading.Event()
        self._thread = threading.Thread(
            target=self._feeds.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def hold(self) -> None:
        """The next reader waits until it is let go."""
        self.arrived.clear()
        self._go.clear()
        self.holding = True

    def let_go(self) -> None:
        self._go.set()

    def close(self) -> None:
        self.let_go()
        self._feeds.server.shutdown()
        self._thread.join()
        self._feeds.server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked += 1
        number = self.asked
        if self.holding:
            self.holding = False
            self.arrived.set()
            self._go.wait(30)
        answer(board(*(job(each, f"Baker {number}") for each in range(OPENINGS))))(handler)


class Hit(threading.Thread):
    """A hit on its way while the test goes on. Nobody answers a hit at a process that was killed."""

    def __init__(self, served: Served, path: str = "/", **body: Any) -> None:
        super().__init__(daemon=True)
        self._served, self._path, self._body = served, path, body
        self._response: httpx2.Response | None = None
        self.start()

    def run(self) -> None:
        with suppress(httpx2.TransportError):
            self._response = self._served.hit(self._path, json=self._body)

    def answer(self, seconds: float = 20) -> tuple[int, dict[str, Any]]:
        self.join(seconds)
        assert self._response is not None, "the hit was not answered"
        return self._response.status_code, self._response.json()


class Point:
    """A place in a run where the next one that comes there is made to stop."""

    def __init__(self, scene: "Scene", name: str) -> None:
        self._scene, self.name = scene, name
        self._held: Held | None = None
        if name == "fetching":
            scene.feed.hold()
        else:
            self._held = scene.proxy.hold(*POINTS[name])

    def wait(self) -> None:
        reached = self._scene.feed.arrived if self._held is None else self._held.reached
        assert reached.wait(20), f"no run came to the point {self.name}"

    def release(self) -> None:
        """The run may go on."""
        if self._held is None:
            self._scene.feed.let_go()
        else:
            self._held.release()

    def deliver(self) -> None:
        """What was on its way has arrived, if the other side still listens, though nobody may have looked yet."""
        self.release()
        assert self._held is None or self._held.settled.wait(20)

    def drop(self) -> None:
        """The run's process is gone: what was on its way is not delivered."""
        if self._held is None:
            self._scene.feed.let_go()
        else:
            self._held.drop()


# From the first message of a run to its last. The NUL keeps "read committed" out.
POINTS = {
    "asking": (b"acquire_refresh_lock", "request"),
    "claimed": (b"acquire_refresh_lock", "reply"),
    "dispatched": (b"claim_due_refresh", "reply"),
    "fetching": (b"", ""),
    "staging": (b"copy public.opening_staging", "request"),
    "begun": (b"assert_lease", "request"),
    "fenced": (b"assert_lease", "reply"),
    "writing": (b"insert into public.opening_signals", "reply"),
    "merged": (b"finish_refresh_run", "request"),
    "committing": (b"commit\0", "request"),
    "committed": (b"commit\0", "reply"),
}
# The run's own transaction is open there and has the schedule row locked.
IN_TRANSACTION = ("fenced", "writing", "merged", "committing")


class Scene:
    """A victim behind the proxy, another server straight at the database, and what the database says."""

    def __init__(self, dsn: str, proxy: Proxy, feed: Feed, serve: Serve) -> None:
        self.room = Room(dsn)
        self.proxy = proxy
        self.feed = feed
        self._serve = serve
        # Nothing is prepared, so that each message has its text in it.
        self.environment = {
            "CRONLEASE_SOURCES": str(feed.sources),
            "CRONLEASE_LEASE": LEASE,
            "CRONLEASE_POOLER": "transaction",
        }
        self.victim = self.start(proxy.dsn)
        self.other = self.start(dsn)

    def start(self, dsn: str, source: Path = FUNCTIONS / "main.py", **more: str) -> Served:
        """A server that has run once: a first run imports what it needs, and takes longer."""
        served = self._serve(dsn, target=NAME, source=source, **self.environment, **more)
        assert served.hit(json={"force": True}).json()["status"] == "success", served.log_file.read_text()
        return served

    def reset(self) -> None:
        """As before the first run, and with the SQL functions as they are shipped."""
        self.proxy.drop_held()
        self.room.query(";".join([FENCED, EMPTY]))

    def make_due(self) -> None:
        self.room.query("update refresh_schedule set next_run_at = null where locked_by is null")

    def expire(self) -> None:
        """The lease runs out now; waits for whoever has the row locked."""
        self.room.query("update refresh_schedule set locked_until = clock_timestamp() where locked_by is not null")

    def pause(self) -> None:
        os.killpg(self.victim.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.victim.process.pid, signal.SIGCONT)

    def kill_worker(self) -> None:
        """kill -9 at the process that serves; its master starts another, as a platform would."""
        (worker,) = workers(self.victim)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: bool(workers(self.victim)) and worker not in workers(self.victim))

    def runs(self) -> dict[str, str]:
        return {str(key): status for key, status in self.room.query("select request_id, status from refresh_runs")}

    def row(self, columns: str) -> Any:
        return self.room.query(f"select {columns} from refresh_schedule where function_name = '{NAME}'")[0]

    def batch(self) -> tuple[int, list[str]]:
        """How many openings there are, and of which fetches."""
        rows = self.room.query("select title, count(*) from opening_signals group by title order by title")
        return sum(count for _, count in rows), [title for title, _ in rows]

    def connections(self, application: str = "cronlease") -> int:
        ((count,),) = self.room.query(
            "select count(*) from pg_stat_activity"
            f" where application_name = '{application}' and datname = current_database()"
        )
        return int(count)


def until_it_runs(hit: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Hits again and again, as a scheduler does, until one of them is a run."""
    found: list[dict[str, Any]] = []

    def ran() -> bool:
        body = hit()
        found.append(body)
        return not body["skipped"]

    wait_until(ran, seconds)
    return found[-1]


@contextmanager
def playing(server: Server, directory: Path) -> Iterator[Scene]:
    name = server.migrated()
    feed = Feed(directory)
    try:
        with proxied(server.url(name)) as proxy, serving() as serve:
            yield Scene(server.url(name), proxy, feed, serve)
    finally:
        feed.close()
        server.drop(name)


def sql(name: str) -> str:
    (file,) = (Path(__file__).parents[2] / "schema").glob(f"*/functions/{name}.sql")
    return file.read_text()


def mutant(text: str, *changes: str) -> str:
    """The text with each old piece (at even places) replaced by the new one after it; all of them must be there."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, f"no mutant without {old!r}"
        text = text.replace(old, new)
    return text


FENCED = sql("assert_lease") + sql("end_refresh_runs")
# The SQL functions without their fence, for the negative controls: whoever asks is taken for the holder.
UNFENCED = mutant(
    FENCED,
    "    and s.fence = p_fence\n",
    "",
    "    and s.locked_by = p_request_id::text\n",
    "",
    "s.locked_by = run.request_id::text\n      and s.fence = run.fence",
    "true",
)
EMPTY = """
truncate refresh_runs, opening_signals, opening_sources, opening_pages, opening_staging, opening_staging_pages;
update refresh_schedule
set locked_by = null, locked_until = null, next_run_at = null, last_status = null,
    failures = 0, abandoned = 0, run_count = 0
"""
