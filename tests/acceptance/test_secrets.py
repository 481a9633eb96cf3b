"""Secrets never leave (P24): canaries in every place that holds a secret, every error path, and then a search of all
that was logged, answered, printed and stored."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cronlease import Run
from opening_signals import collect
from tests.acceptance.conftest import Serve, Served
from tests.acceptance.shell import Shell
from tests.conftest import Server
from tests.integration.boards import Feeds, answer, board, job, served
from tests.integration.conftest import Room, wait_until

Hit = Callable[..., str]

LEAKY = Path(__file__).with_name("leaky.py")
PASSWORD, TOKEN, IN_FILE = "canary-password-7f3a", "canary-token-91bc-of-many", "canary-filed-token-44e1"
CALLER, USERINFO, QUERY = "canary-caller-55de-of-many", "canary-userinfo-aa10", "canary-query-c3c3"
PING = "canary-ping-08f2"
HOOK = "canary-hook-77c1"
# A part of each is enough: half a secret is a leak, too.
CANARIES = {secret: secret[:12] for secret in (PASSWORD, TOKEN, IN_FILE, CALLER, USERINFO, QUERY, PING, HOOK)}
CANARIES[TOKEN[::-1]] = TOKEN[::-1][:12]
WHAT = ("address", "password", "token", "file", "ping", "alert", "header", "pairs", "far off")
HOW = ("raise", "cause", "partial", "hint", "late", "log")


def leaked(texts: Iterable[str]) -> set[str]:
    everything = "\n".join(texts)
    return {secret for secret, part in CANARIES.items() if part in everything}


@pytest.fixture
def login(server: Server) -> Iterator[str]:
    """A login with the canary for its password. Name it before the database, so that it is dropped after."""
    name = f"cronlease_test_{uuid4().hex[:12]}"
    with psycopg.connect(server.admin, autocommit=True) as admin:
        who = sql.Identifier(name)
        admin.execute(sql.SQL("create role {} login superuser password {}").format(who, PASSWORD))
        yield name
        admin.execute(sql.SQL("drop role {}").format(who))


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def address(room: Room, login: str, *, password: str = PASSWORD, port: object = None) -> str:
    parts = conninfo_to_dict(room.dsn)
    return f"postgresql://{login}:{password}@{parts['host']}:{port or parts['port']}/{parts['dbname']}"


def sources(feeds: Feeds, tmp_path: Path, *more: str) -> Path:
    """Each source goes wrong in its own way; all have a secret in their address."""
    feeds.serve(
        refused=answer(f"no, {QUERY} is not known".encode(), 401),
        moved=answer(b"", 302, Location=f"http://127.0.0.1:1/?key={QUERY}"),
        lost=answer(b"", 302, Location=f"http://{USERINFO}@127.0.0.1:99999/?key={QUERY}"),
        broken=answer(b'{"jobs": [{"id": '),
        good=board(job(1)),
    )
    here = f"127.0.0.1:{feeds.server.server_port}"
    places = {name: f"{here}/{name}" for name in ("refused", "moved", "lost", "broken", *more)} | {
        "away": "127.0.0.1:1/jobs",
        "nowhere": "host.invalid/jobs",
    }
    path = tmp_path / "secret.toml"
    path.write_text(
        "\n".join(
            f'[[source]]\nname = "{name}"\nkind = "greenhouse"\norganization = "Acme"\nallow_private = true\n'
            f'url = "http://me:{USERINFO}@{place}?key={QUERY}"\n'
            for name, place in places.items()
        )
    )
    return path


def stored(room: Room) -> list[str]:
    tables = ("refresh_schedule", "refresh_runs", "opening_sources", "opening_signals")
    return [row[0] for table in tables for row in room.query(f"select t::text from {table} t")]


def hits(function: Served, room: Room, login: str) -> list[str]:
    """Every way to go wrong over HTTP; answers all that was answered."""
    said: list[str] = []

    def hit(path: str = "/", method: str = "POST", authorization: str = f"Bearer {TOKEN}", **request: Any) -> str:
        response = client.request(method, path, headers={"Authorization": authorization}, **request)
        said.append(f"{response.status_code} {response.headers} {response.text}")
        return response.text

    with httpx2.Client(base_url=function.url, timeout=30) as client:
        _strangers(hit)
        _talkers(hit)
        _shut_out(hit, room, login)
    return said


def _strangers(hit: Hit) -> None:
    for given in (f"Bearer {CALLER}", f"Basic {CALLER}", CALLER, f"Bearer {CALLER}, Bearer {TOKEN}"):
        hit(authorization=given)
        hit("/status", "GET", authorization=given)
    hit(content=b"{", authorization=f"Bearer {IN_FILE}")
    hit("/elsewhere", "GET")


def _talkers(hit: Hit) -> None:
    for what in WHAT:
        for how in HOW:
            hit(json={"force": True, "args": {"what": what, "how": how}})
    hit("/run-due")
    hit("/status", "GET")


def _shut_out(hit: Hit, room: Room, login: str) -> None:
    with psycopg.connect(room.dsn, autocommit=True) as admin:
        who = sql.Identifier(login)
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s"
        admin.execute(sql.SQL("alter role {} password 'another'").format(who))
        admin.execute(cut, [login])
        assert "schedule_read_error" in hit()
        hit("/run-due")
        hit("/status", "GET")
        admin.execute(sql.SQL("alter role {} password {}").format(who, PASSWORD))
    wait_until(lambda: "not_due" in hit())


def test_no_secret_is_logged_answered_or_stored(
    serve: Serve, login: str, room: Room, feeds: Feeds, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text(IN_FILE)
    environment = {
        "CRONLEASE_AUTH": "token",
        "CRONLEASE_TOKEN": TOKEN,
        "CRONLEASE_TOKEN_FILE": str(file),
        "CRONLEASE_SOURCES": str(sources(feeds, tmp_path)),
        # Nobody listens there, which each run says.
        "CRONLEASE_PING_URL": f"http://127.0.0.1:1/{PING}/{{function}}?key={PING}",
        "CRONLEASE_ALERT_URL": f"http://127.0.0.1:1/{HOOK}/T012345?key={HOOK}",
        "CRONLEASE_LOG_LEVEL": "DEBUG",
        "CRONLEASE_DISPATCH_PAUSE": "0s",
    }
    function = serve(address(room, login), target="leak", source=LEAKY, **environment)
    said = hits(function, room, login)
    failed = "select count(*) from opening_sources where last_error is not null"
    assert room.query(failed) == [(6,)]
    # Once more where not every source fails: the run ends as partial then.
    sources(feeds, tmp_path, "good")
    room.query("update refresh_schedule set next_run_at = null where function_name = 'refresh_opening_signals'")
    said.append(function.hit("/run-due", headers={"Authorization": f"Bearer {TOKEN}"}).text)
    assert "partial" in {row[0] for row in room.query("select status from refresh_runs")}
    log = function.log_file.read_text()
    assert log.count("***") > len(WHAT) * len(HOW)
    assert log.count("check_in_failed") > len(WHAT) * len(HOW)
    assert "alert_failed" in log
    assert leaked([*said, log, *stored(room)]) == set()

    # The control: the same with nothing taken out, and a look that finds it in each of the three places.
    bare = serve(address(room, login), target="leak", source=LEAKY, CRONLEASE_TEST_UNREDACTED="1", **environment)
    said = hits(bare, room, login)
    for found in (said, [bare.log_file.read_text()], stored(room)):
        assert leaked(found) >= {PASSWORD, TOKEN, IN_FILE, PING, HOOK, TOKEN[::-1]}


VERBS = (
    "doctor",
    "status",
    "runs",
    "explain tick",
    "schedule list",
    "schedule show tick",
    "schedule unlock tick --yes",
    "migrate",
    "migrate --check",
    "recover",
    "signals --since 1d",
    "sources check",
    "sources check --json",
)


async def nothing(run: Run) -> None: ...


@pytest.mark.parametrize("which", ["good", "wrong password", "unreachable", "no port", "no host", "shifted", "pairs"])
def test_no_secret_is_printed(
    login: str, room: Room, feeds: Feeds, tmp_path: Path, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = {
        "good": address(room, login),
        "wrong password": address(room, login, password=PASSWORD + "x"),
        "unreachable": address(room, login, port=1),
        "no port": address(room, login, port="port"),
        "no host": f"postgresql://me:{PASSWORD}@",
        "shifted": f"postgresql://me:{PASSWORD}/more@of:it@127.0.0.1:1/db",
        "pairs": f"host=127.0.0.1 port=1 user=me password='{PASSWORD}' bad",
    }[which]
    shell = Shell(dsn, tmp_path)
    shell.environment |= {
        "CRONLEASE_TOKEN": TOKEN,
        "CRONLEASE_AUTH": "token",
        "CRONLEASE_SOURCES": str(sources(feeds, tmp_path, "good")),
    }
    printed = []
    for verb in VERBS if which == "good" else [each for each in VERBS if "sources" not in each]:
        status, out, err = shell.quickly("--debug", *verb.split())
        assert status in (0, 1), (verb, out, err)
        printed += [out, err]
    # What a hit says of it, even before anything is taken out.
    skipped = Room(dsn).enter(nothing).skipped
    assert (skipped == "schedule_read_error") is (which != "good")
    printed.append(caplog.text)
    assert leaked(printed) == set()
    assert any(printed)
    # The control: it is there to be found.
    assert leaked([*printed, f"as {dsn} has it"]) == {PASSWORD}


@pytest.mark.parametrize("verb", ["sources check", "sources check --json"])
def test_an_error_nobody_foresaw_is_printed_without_its_secrets(
    room: Room, feeds: Feeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def get(*_: object, **__: object) -> None:
        raise RuntimeError(f"no way to http://me:{USERINFO}@127.0.0.1/?key={QUERY} from here")

    monkeypatch.setattr(collect, "get", get)
    shell = Shell(room.dsn, tmp_path)
    shell.environment["CRONLEASE_SOURCES"] = str(sources(feeds, tmp_path))
    status, out, err = shell.quickly(*verb.split())
    assert status == 1
    assert "RuntimeError: no way to http://***" in out
    assert leaked([out, err]) == set()
