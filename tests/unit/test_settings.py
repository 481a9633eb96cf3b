import re
from datetime import timedelta

import pytest

from cronlease.cadence import Every
from cronlease.settings import SettingsError, load


def test_an_empty_environment_works() -> None:
    settings = load({})
    assert settings.lease == timedelta(minutes=5)
    assert str(settings.every) == "10m..15m"
    assert str(settings.backoff) == "20m..40m"
    assert settings.limits().acquire == timedelta(seconds=10)
    assert settings.limits().max_run == timedelta(minutes=15)


def test_limits_that_were_not_set_follow_a_short_lease() -> None:
    limits = load({"CRONLEASE_LEASE": "3s"}).limits()
    assert limits.acquire <= limits.lease
    assert limits.renew_every == timedelta(seconds=1)
    assert limits.idle_in_transaction == timedelta(seconds=1.5)


def test_a_short_run_limit_alone_shortens_the_claim_instead_of_refusing() -> None:
    assert load({"CRONLEASE_MAX_RUN": "6s"}).limits().acquire == timedelta(seconds=3)


def test_the_run_limit_is_the_platforms_request_timeout() -> None:
    assert load({"CLOUD_RUN_TIMEOUT_SECONDS": "120"}).limits().max_run == timedelta(minutes=2)
    both = {"CLOUD_RUN_TIMEOUT_SECONDS": "120", "CRONLEASE_MAX_RUN": "90s"}
    assert load(both).limits().max_run == timedelta(seconds=90)


def test_a_limit_of_the_platform_is_refused_by_its_own_name() -> None:
    with pytest.raises(SettingsError, match=r"^CLOUD_RUN_TIMEOUT_SECONDS is 5s, .* CRONLEASE_ACQUIRE_TIMEOUT, 10s$"):
        load({"CLOUD_RUN_TIMEOUT_SECONDS": "5", "CRONLEASE_ACQUIRE_TIMEOUT": "10s"})


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        (
            {"CRONLEASE_LEASE": "5s", "CRONLEASE_ACQUIRE_TIMEOUT": "6s"},
            ["CRONLEASE_ACQUIRE_TIMEOUT", "CRONLEASE_LEASE"],
        ),
        ({"CRONLEASE_MAX_RUN": "5s", "CRONLEASE_ACQUIRE_TIMEOUT": "5s"}, ["CRONLEASE_MAX_RUN", "CRONLEASE_ACQUIRE"]),
        ({"CRONLEASE_BACKOFF_CAP": "10m"}, ["CRONLEASE_BACKOFF_CAP", "CRONLEASE_BACKOFF"]),
        ({"CRONLEASE_LEASE": "0.5s"}, ["CRONLEASE_LEASE"]),
        (
            {"CRONLEASE_ANNOUNCE_SECONDS": "5", "CRONLEASE_DRAIN_SECONDS": "4"},
            ["CRONLEASE_ANNOUNCE_SECONDS is 5", "CRONLEASE_DRAIN_SECONDS, 4"],
        ),
        ({"CRONLEASE_LEASE": "25h"}, ["CRONLEASE_LEASE", "at most 1d"]),
        ({"CRONLEASE_RETENTION": "59m"}, ["CRONLEASE_RETENTION", "at least 1h"]),
        ({"CRONLEASE_BACKOFF": "1d..401d"}, ["CRONLEASE_BACKOFF", "at most 400d"]),
        ({"CRONLEASE_BACKOFF_CAP": "401d"}, ["CRONLEASE_BACKOFF_CAP", "at most 400d"]),
    ],
)
def test_contradictory_numbers_are_refused_by_name(environment: dict[str, str], names: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment)
    assert all(name in str(refused.value) for name in names)
    assert "\n" not in str(refused.value)


def test_a_long_announcement_alone_makes_the_drain_as_long() -> None:
    assert load({"CRONLEASE_ANNOUNCE_SECONDS": "9"}).drain_seconds == 9
    assert load({"CRONLEASE_ANNOUNCE_SECONDS": "2"}).drain_seconds == 6


def test_a_long_backoff_alone_raises_the_cap_that_nobody_set() -> None:
    rule = load({"CRONLEASE_BACKOFF": "8h..9h"}).backoff_rule()
    assert rule.cap == timedelta(hours=9)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        *(
            (
                f"CRONLEASE_{name}",
                "0s",
                f"CRONLEASE_{name}: '0s' must be longer than zero: write a longer time, or leave it out",
            )
            for name in ("MAX_RUN", "ACQUIRE_TIMEOUT", "RETENTION")
        ),
        ("CRONLEASE_LEASE", "soon", "CRONLEASE_LEASE: 'soon' is not a duration: write 90s, 5m, 2h or 1d"),
        ("CRONLEASE_EVERY", "15m..10m", "CRONLEASE_EVERY: '15m..10m' is the wrong way round: write 10m..15m"),
        ("CRONLEASE_POOLER", "maybe", "CRONLEASE_POOLER: 'maybe' is not one of auto, none, transaction"),
        ("CRONLEASE_BACKOFF_GROWTH", "0.5", "CRONLEASE_BACKOFF_GROWTH: '0.5' is not a number from 1 to 10"),
        ("CRONLEASE_AUTH", "magic", "CRONLEASE_AUTH: 'magic' is not one of none, iam, oidc, token"),
        ("CRONLEASE_OIDC_KEYS_URL", "file:///keys", "CRONLEASE_OIDC_KEYS_URL: it is not an address that starts with"),
        ("CRONLEASE_OIDC_ISSUER", "https://", "CRONLEASE_OIDC_ISSUER: it is not an address that starts with"),
        *(
            ("CRONLEASE_PAUSE_AFTER", text, f"CRONLEASE_PAUSE_AFTER: {text!r} is not a whole number from 1 to 1000")
            for text in ("1.5", "0", "-1", "often", "1001")
        ),
        ("CRONLEASE_PROBE", "0s", "CRONLEASE_PROBE: '0s' must be longer than zero"),
        ("CRONLEASE_STATUS_URL", "here", "CRONLEASE_STATUS_URL: it is not an address that starts with https://"),
        (
            "CRONLEASE_ALERT_URL",
            "https://a.example/k3y,hooks.example/k3y",
            "CRONLEASE_ALERT_URL: it is not an address that starts with https://",
        ),
        *(
            ("CRONLEASE_PING_URL", address, "CRONLEASE_PING_URL: it is not an address that starts with https://")
            for address in (
                "hc.example/k3y",
                "file:///k3y",
                "https://",
                "https://me:k3y@hc.example/",
                "https://hc.example:k3y/",
                "http://[hc.example/k3y",
                "https://hc.example/k3y k3y",
                "https://hc.example/k3yé",
            )
        ),
        ("CRONLEASE_ALLOW_FORCE", "yes", "CRONLEASE_ALLOW_FORCE: 'yes' is not one of 0, 1"),
        ("CRONLEASE_DRAIN_SECONDS", "6s", "CRONLEASE_DRAIN_SECONDS: '6s' is not a number from 0 to 3600"),
        ("CRONLEASE_DISPATCH_PAUSE", "soon", "CRONLEASE_DISPATCH_PAUSE: 'soon' is not a duration"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_in_one_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: value})
    assert str(refused.value).startswith(sentence)
    assert "k3y" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({"CRONLEASE_LEASE": "", "DATABASE_URL": ""}) == load({})


@pytest.mark.parametrize(
    "mark",
    [
        "K_SERVICE",
        "KUBERNETES_SERVICE_HOST",
        "CLOUD_RUN_JOB",
        "AWS_LAMBDA_FUNCTION_NAME",
        "VERCEL",
        "FUNCTIONS_WORKER_RUNTIME",
        "RENDER",
        "FLY_APP_NAME",
        "RAILWAY_ENVIRONMENT",
        "DYNO",
    ],
)
def test_on_a_platform_database_and_auth_must_be_set(mark: str) -> None:
    with pytest.raises(SettingsError, match="set DATABASE_URL"):
        load({mark: "x", "CRONLEASE_AUTH": "iam"})
    with pytest.raises(SettingsError, match="CRONLEASE_AUTH is not set"):
        load({mark: "x", "DATABASE_URL": "postgresql://h/d"})
    assert load({mark: "x", "PGHOST": "h", "CRONLEASE_AUTH": "none"}).libpq_target


def test_a_functions_own_lease_is_checked_too() -> None:
    settings = load({"CRONLEASE_ACQUIRE_TIMEOUT": "8s"})
    with pytest.raises(SettingsError, match="CRONLEASE_ACQUIRE_TIMEOUT is 8s"):
        settings.check(lease=timedelta(seconds=5))
    settings.check(backoff=Every.parse("1s..2s"))


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({"CRONLEASE_AUTH": "token"}, {"CRONLEASE_TOKEN", "CRONLEASE_TOKEN_FILE"}),
        ({"CRONLEASE_AUTH": "oidc"}, {"CRONLEASE_OIDC_AUDIENCE", "CRONLEASE_OIDC_EMAILS"}),
        ({"CRONLEASE_AUTH": "oidc", "CRONLEASE_OIDC_AUDIENCE": "https://x"}, {"CRONLEASE_OIDC_EMAILS"}),
        ({"CRONLEASE_AUTH": "oidc", "CRONLEASE_OIDC_EMAILS": "a@x.example"}, {"CRONLEASE_OIDC_AUDIENCE"}),
        ({"CRONLEASE_OIDC_ISSUER": "https://me"}, {"CRONLEASE_OIDC_ISSUER", "CRONLEASE_OIDC_KEYS_URL"}),
    ],
)
def test_a_way_to_check_callers_that_lacks_its_means_is_refused_by_what_is_missing(
    environment: dict[str, str], missing: set[str]
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environment)
    assert set(re.findall(r"CRONLEASE_(?!AUTH\b)\w+", str(refused.value))) == missing


@pytest.mark.parametrize(
    "nonsense",
    [
        ",",
        " ",
        "a@x.example,,b@x.example",
        "a@x.example,",
        "x.example",
        "a@b@x.example",
        "a@x",
        "@x.example",
        "*@x.example",
        "serviceAccount:a@x.example",
        "A <a@x.example>",
        "a@x.example; b@x.example",
    ],
)
def test_a_list_of_callers_that_nobody_can_be_on_is_refused(nonsense: str) -> None:
    with pytest.raises(SettingsError, match=r"^CRONLEASE_OIDC_EMAILS: '.*' is not an e-mail address: write [^\n]+$"):
        load({"CRONLEASE_OIDC_EMAILS": nonsense})


def test_callers_stand_apart_by_commas_or_lines() -> None:
    assert load({"CRONLEASE_OIDC_EMAILS": "a.b+c@x.example, d@y.z.example\ne@x.example\n"}).oidc_emails == (
        "a.b+c@x.example",
        "d@y.z.example",
        "e@x.example",
    )


@pytest.mark.parametrize(
    "nonsense",
    [
        " ",
        "the service",
        "https://x.example ",
        "https://",
        "https:///status",
        "ftp://x.example",
        "https://x.example,https://y.example",
        '"https://x.example"',
        "a,b",
    ],
)
def test_an_audience_that_no_token_can_have_is_refused(nonsense: str) -> None:
    with pytest.raises(SettingsError, match=r"^CRONLEASE_OIDC_AUDIENCE: '.*' is neither an address [^\n]+$"):
        load({"CRONLEASE_OIDC_AUDIENCE": nonsense})


@pytest.mark.parametrize(
    "audience",
    [
        "https://tick-abc123-ew.a.run.app",
        "http://127.0.0.1:8080/run?a=b",
        "http://[::1]:80",
        "32555940559.apps.googleusercontent.com",
        "/projects/1/global/backendServices/2",
        "urn:tick",
    ],
)
def test_an_audience_is_an_address_or_a_plain_id(audience: str) -> None:
    assert load({"CRONLEASE_OIDC_AUDIENCE": audience}).oidc_audience == audience


def test_a_token_is_validated_only_where_tokens_are_checked() -> None:
    short = {"CRONLEASE_TOKEN": "short"}
    with pytest.raises(SettingsError, match=r"^CRONLEASE_TOKEN: a token has at least 16 ASCII characters"):
        load({**short, "CRONLEASE_AUTH": "token"})
    for other in ({}, {"CRONLEASE_AUTH": "none"}, {"CRONLEASE_AUTH": "iam"}):
        assert load({**short, **other}).token == ()


def test_several_addresses_for_alerts_are_each_taken_once() -> None:
    settings = load({"CRONLEASE_ALERT_URL": "https://a.example/1, https://b.example/2,https://a.example/1"})
    assert settings.alert_url == ("https://a.example/1", "https://b.example/2")
    assert load({"CRONLEASE_PAUSE_AFTER": "10", "CRONLEASE_PROBE": "2h"}).pause_after == 10
    assert load({}).alert_url == ()


def test_the_status_address_is_set_or_follows_from_the_audience() -> None:
    assert load({}).status_address is None
    assert load({"CRONLEASE_OIDC_AUDIENCE": "https://a.example/"}).status_address == "https://a.example/status"
    assert load({"CRONLEASE_OIDC_AUDIENCE": "client-id"}).status_address is None
    assert load({"CRONLEASE_STATUS_URL": "https://b.example/s"}).status_address == "https://b.example/s"
