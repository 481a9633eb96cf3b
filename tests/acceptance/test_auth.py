"""Who may call, at a real server: a caller who is not let in costs no connection and learns one sentence (P23)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.callers import AUDIENCE, CALLER, SECRETS, Issuer, bad_bearers, by_oidc, by_token, issuing
from tests.acceptance.conftest import Serve, Served
from tests.integration.conftest import Room, wait_until


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def ask(served: Served, authorization: str | None, path: str = "/", method: str = "POST") -> httpx2.Response:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    return served.hit(path, method=method, headers=headers)


def connections(room: Room) -> int:
    return len(room.query("select 1 from pg_stat_activity where application_name = 'cronlease'"))


@pytest.mark.parametrize("way", [by_token, by_oidc])
def test_a_caller_who_is_not_let_in_costs_nothing(
    serve: Serve, room: Room, issuer: Issuer, way: Callable[..., Served]
) -> None:
    served = way(serve, room.dsn, issuer)
    asked_before = issuer.asked
    for kind, authorization in bad_bearers(issuer).items():
        for path, method in (("/", "POST"), ("/run-due", "POST"), ("/status", "GET")):
            answer = ask(served, authorization, path, method)
            assert answer.status_code in (401, 403), (kind, path, answer.text)
            assert answer.json()["ok"] is False
    assert connections(room) == 0
    assert room.query("select count(*) from refresh_schedule") == [(0,)]
    assert issuer.asked - asked_before <= 1, "strangers cannot make us ask for keys again and again"
    assert ask(served, None, "/health/live", "GET").status_code == 200
    assert ask(served, None, "/health/ready", "GET").status_code == 200
    # The control: with the right word the same door opens.
    for secret in SECRETS if way is by_token else [issuer.token()]:
        assert ask(served, f"Bearer {secret}").json()["reason"] in (None, "not_due")
    assert connections(room) > 0

    def refused() -> set[tuple[str, str]]:
        return {(line["reason"], line["path"]) for line in served.log() if line.get("action") == "hit_refused"}

    wait_until(lambda: {("unauthorized", path) for path in ("/", "/run-due", "/status")} <= refused())
    log = served.log_file.read_text()
    assert not any(secret in log for secret in [*SECRETS, issuer.token().split(".")[2]])


def test_the_refusal_says_what_to_do(serve: Serve, room: Room, issuer: Issuer) -> None:
    served = by_oidc(serve, room.dsn, issuer)
    bad = bad_bearers(issuer)
    said = {kind: ask(served, bad[kind]) for kind in bad}
    assert "CRONLEASE_AUTH=iam" in said["signature removed"].json()["error"]
    assert said["nothing"].headers["www-authenticate"] == "Bearer"
    assert "expired" in said["expired"].json()["error"]
    assert "CRONLEASE_OIDC_AUDIENCE" in said["another audience"].json()["error"]
    assert (said["an unknown address"].status_code, said["another key"].status_code) == (403, 401)
    # Google writes its own name both ways.
    assert ask(served, "Bearer " + issuer.token(iss="accounts.google.com")).json()["ok"]


def test_tokens_in_a_file_are_read_again_when_it_changes(serve: Serve, room: Room, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(SECRETS[0] + "\n")
    served = serve(room.dsn, CRONLEASE_AUTH="token", CRONLEASE_TOKEN_FILE=str(file))
    assert ask(served, f"Bearer {SECRETS[0]}").status_code == 200
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 401
    (tmp_path / "new").write_text(f"{SECRETS[1]}\n")
    (tmp_path / "new").rename(file)
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 200
    assert ask(served, f"Bearer {SECRETS[0]}").status_code == 401
    file.unlink()
    assert ask(served, f"Bearer {SECRETS[1]}").status_code == 200


def test_nobody_checked_means_no_force_no_args_and_no_status_unless_said(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, CRONLEASE_AUTH="none")
    for body in ({"force": True}, {"args": {"sleep": 1}}):
        answer = served.hit(json=body)
        assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden")
        assert "CRONLEASE_ALLOW_FORCE=1" in answer.json()["error"]
    assert served.hit("/status", method="GET").status_code == 403
    assert connections(room) == 0
    assert served.hit().json()["status"] == "success"
    allowed = serve(room.dsn, CRONLEASE_AUTH="none", CRONLEASE_ALLOW_FORCE="1")
    assert allowed.force(key="s3cret")["status"] == "success"
    status = allowed.hit("/status", method="GET")
    assert [row["status"] for row in status.json()["runs"]] == ["success", "success"]
    assert "s3cret" not in status.text
    assert "args" not in status.text


def test_keys_that_cannot_be_fetched_are_reported_to_both_sides(serve: Serve, room: Room, issuer: Issuer) -> None:
    served = serve(
        room.dsn,
        CRONLEASE_AUTH="oidc",
        CRONLEASE_OIDC_AUDIENCE=AUDIENCE,
        CRONLEASE_OIDC_EMAILS=CALLER,
        CRONLEASE_OIDC_KEYS_URL="http://127.0.0.1:1/certs",
    )
    answer = ask(served, "Bearer " + issuer.token())
    assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
    line = served.logged(action="keys_failed")
    assert (line["severity"], "CRONLEASE_OIDC_KEYS_URL" in line["message"]) == ("ERROR", True)
    assert connections(room) == 0
