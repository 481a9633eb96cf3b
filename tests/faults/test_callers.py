"""P23: a caller who is not let in costs nothing: no run, no connection, no error, however often and however tried."""

import http.client
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.callers import Issuer, bad_bearers, by_oidc, by_token, issuing
from tests.acceptance.conftest import Serve, Served
from tests.faults.profile import Profile
from tests.integration.conftest import Room
from tests.proxy import proxied

KINDS = 30
AT_ONCE = 4
ROUND = 1000
ASKED_FOR = (
    ("POST", "/", '{"force": true}'),
    ("POST", "/", None),
    ("POST", "/run-due", None),
    ("GET", "/status", None),
)


class Asked(NamedTuple):
    kind: str
    authorization: str | None
    method: str
    path: str
    body: str | None


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def storm(served: Served, issuer: Issuer, requests: int, profile: Profile) -> Counter[tuple[str, int]]:
    """So many requests of strangers, on connections that are kept; kind and status of each answer."""
    chosen = profile.random("P23")
    seen: Counter[tuple[str, int]] = Counter()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in range(requests // ROUND):
            # Fresh ones: a token that has grown old is refused for its age alone.
            kinds = itertools.cycle(bad_bearers(issuer).items())
            asked = [Asked(*next(kinds), *chosen.choice(ASKED_FOR)) for _ in range(ROUND)]
            for answered in threads.map(
                answers, [served] * AT_ONCE, [asked[part::AT_ONCE] for part in range(AT_ONCE)]
            ):
                seen.update(answered)
    return seen


def answers(served: Served, asked: list[Asked]) -> Counter[tuple[str, int]]:
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    seen: Counter[tuple[str, int]] = Counter()
    for each in asked:
        try:
            status = ask(connection, each)
        except ConnectionError:
            # On a busy machine a kept connection may have been idle for too long.
            connection.close()
            status = ask(connection, each)
        seen[each.kind, status] += 1
    connection.close()
    return seen


def ask(connection: http.client.HTTPConnection, asked: Asked) -> int:
    headers = {} if asked.authorization is None else {"Authorization": asked.authorization}
    connection.request(asked.method, asked.path, asked.body, headers)
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", [by_token, by_oidc])
def test_strangers_are_refused_and_cost_no_connection(
    serve: Serve, dsn: str, issuer: Issuer, profile: Profile, way: Callable[..., Served]
) -> None:
    requests = profile.n("P23")
    with proxied(dsn) as proxy:
        served = way(serve, proxy.dsn, issuer)
        began, asked_before = time.monotonic(), issuer.asked
        seen = storm(served, issuer, requests, profile)
        seconds = time.monotonic() - began
        connections = proxy.connections
    statuses = Counter(dict.fromkeys((200, 401, 403, 500), 0))
    for (_, status), count in seen.items():
        statuses[status] += count
    profile.record(
        "P23",
        statuses[401] + statuses[403],
        requests,
        way=way.__name__,
        kinds=len({kind for kind, _ in seen}),
        statuses=dict(statuses),
        connections=connections,
        seconds=round(seconds, 1),
    )
    assert connections == 0
    assert len({kind for kind, _ in seen}) >= KINDS
    assert issuer.asked - asked_before <= 1 + seconds // 60, "strangers cannot make us ask for keys again and again"
    assert Room(dsn).query("select count(*) from refresh_schedule") == [(0,)]


@pytest.mark.thorough
def test_a_function_that_believes_every_token_is_seen(
    serve: Serve, dsn: str, issuer: Issuer, profile: Profile
) -> None:
    """The negative control."""
    with proxied(dsn) as proxy:
        served = by_oidc(serve, proxy.dsn, issuer, source=Path(__file__).with_name("gullible.py"))
        seen = storm(served, issuer, ROUND, profile)
        assert proxy.connections > 0
    let_in = {kind for kind, status in seen if status == 200}
    assert {"signature of another", "another key", "expired"} <= let_in
    assert "an unknown address" not in let_in
    assert any(status >= 500 for _, status in seen), "what is no token is an error of its own"
