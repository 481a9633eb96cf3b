"""What fills the status page, and the cookies by which a browser proves who it is. No database, no server."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from freezegun import freeze_time

from cronlease.explain.rows import Schedule
from cronlease.page.chart import bars, chart, label, quantile
from cronlease.page.details import coming
from cronlease.page.overview import Asked
from cronlease.page.render import address, render
from cronlease.settings import Settings
from cronlease.triggers.auth import Tokens
from cronlease.triggers.request import Refused
from cronlease.triggers.sign_in import check_form, check_origin, is_signed_in, sign_in
from cronlease.triggers.status import name_in

NOW = datetime(2026, 12, 24, 18, tzinfo=UTC)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "javascript:alert(1)",
    "{{ 7 * 7 }}",
    "</title></style></script>",
    "a/b",
    "a/",
    "..",
    ".",
    "../../etc",
    "a?b#c&d=e",
    " leading",
    "%2e%2e",
    "naïve ☃ 名前",
    "a\\b",
    "`code`",
]


def scope(**headers: str) -> dict[str, Any]:
    return {"headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_address_of_a_schedule_leads_back_to_its_name(name: str) -> None:
    path, _, query = address("/cron", name, said="ran").partition("?")
    asked = {"path": unquote(path), "raw_path": path.encode(), "root_path": "/cron", "query_string": query.encode()}

    assert name_in(asked) == name
    # What a browser makes of the path before it asks.
    assert not {"", ".", ".."} & set(unquote(path).split("/")[1:]), "a browser would go elsewhere"
    assert "\\" not in unquote(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_sentence_is_text_whatever_is_in_it(name: str) -> None:
    page = render(
        "notice.html", root="", nonce="n", form="f", can_sign_out=False, sentence=name, because=name
    ).decode()

    assert "<script>alert" not in page
    assert "<img" not in page
    assert "49" not in page.partition("<main")[2].partition("</main>")[0]


def test_bars_are_as_tall_as_runs_took_long_and_the_newest_is_at_the_right() -> None:
    drawn = bars([("success", 1.0), ("failed", 2.0), ("running", None)], places=4, height=20)

    assert drawn.paths == [("success", "M6.5 20V9"), ("failed", "M11.5 20V0"), ("running", "M16.5 20V0")]
    assert drawn.width == 18
    assert drawn.label == ("The last 3 runs: 1 succeeded, 1 failed, 1 running; the last took 2.0s, the longest 2.0s")
    assert label([]) == "No runs yet"
    assert bars([("success", 0.0)]).paths[0][1].endswith("V22"), "a run of no time has a bar"


def test_the_chart_leaves_out_runs_of_which_nobody_knows_how_long_they_worked() -> None:
    assert chart([("abandoned", 900.0), ("running", None)]) is None
    made = chart([("success", 1.0), ("abandoned", 900.0), ("success", 3.0), ("failed", 2.0)])
    assert made is not None
    assert (made.median, made.p95, made.most) == (2.0, 3.0, 3.0)
    assert [quantile([1, 2, 3, 4], share) for share in (0.0, 0.5, 0.51, 0.95, 1.0)] == [1, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ({}, Asked()),
        ({"search": " oslo ", "health": "late", "page": "3"}, Asked("oslo", "late", 3)),
        ({"health": "<b>", "page": "-1"}, Asked()),
        ({"page": "99"}, Asked(page=20)),
        ({"page": "9" * 5000}, Asked()),
        ({"page": "²"}, Asked()),
        ({"search": "x" * 300}, Asked("x" * 200)),
    ],
)
def test_what_was_asked_for_is_read_or_ignored(query: dict[str, str], asked: Asked) -> None:
    assert Asked.of(query) == asked


def planned(**row: Any) -> tuple[list[str], str]:
    found = coming(Schedule("job", "pending", False, "work", **row), NOW)
    return [f"{moment:%d %H:%M}" for moment in found.times], found.cadence


def test_the_next_slots_of_a_schedule() -> None:
    soon = NOW + timedelta(minutes=10)
    assert planned(cron="30 6 * * *", time_zone="Europe/Berlin") == (
        [f"{day} 05:30" for day in range(25, 30)],
        "30 6 * * * Europe/Berlin",
    )
    assert planned(planned_from="6h", next_run_at=soon, slot_at=soon)[0] == [
        *("24 18:10", "25 00:10", "25 06:10", "25 12:10", "25 18:10"),
    ]
    retried = planned(planned_from="6h", next_run_at=NOW - timedelta(minutes=1), slot_at=NOW - timedelta(minutes=1))
    assert retried[0][:2] == ["24 17:59", "24 23:59"]
    assert len(retried[0]) == 5
    assert planned(every="10m..15m", next_run_at=soon) == (["24 18:10"], "10m..15m, counted from the end of each run")
    assert planned(planned_from="hit") == ([], "at each hit: the trigger decides when")
    assert planned(cron="30 6 * * *", paused_at=NOW)[0] == []
    assert planned(once=True, next_run_at=soon) == (["24 18:10"], "once")
    assert planned(cron="never", next_run_at=soon)[0] == ["24 18:10"]


def test_a_sign_in_holds_for_half_a_day_and_as_long_as_its_token_does() -> None:
    tokens = Tokens(Settings(auth="token", token=("an old secret", "a new secret")))
    with freeze_time(NOW) as time:
        value = sign_in(tokens, " a new secret\n")
        cookie = scope(cookie=f"other=1; cronlease_signed_in={value}")
        assert is_signed_in(tokens, cookie)
        assert not is_signed_in(Tokens(Settings(auth="token", token=("an old secret",))), cookie)
        expiry, _, seal = value.partition(".")
        for forged in (
            f"{int(expiry) + 1}.{seal}",
            f"{expiry}.",
            f"{expiry}.{'0' * 64}",
            "",
            ".",
            f"²{expiry}.{seal}",
        ):
            assert not is_signed_in(tokens, scope(cookie=f"cronlease_signed_in={forged}")), forged
        time.tick(timedelta(hours=12, seconds=1))
        assert not is_signed_in(tokens, cookie)
    with pytest.raises(Refused):
        sign_in(tokens, "a guess")
    with pytest.raises(Refused):
        sign_in(tokens, "")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"sec_fetch_site": "same-origin", "origin": "https://a.example"}, True),
        ({"sec_fetch_site": "same-origin", "origin": "http://localhost:8080", "host": "a.run.app"}, True),
        ({"origin": "https://a.example", "host": "a.example"}, True),
        ({"sec_fetch_site": "same-site", "origin": "http://localhost:3000", "host": "localhost:8080"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "https://a.example", "host": "a.example"}, False),
        ({"sec_fetch_site": "none", "host": "a.example"}, False),
        ({"origin": "https://evil.example", "host": "a.example"}, False),
        ({"origin": "http://localhost:3000", "host": "localhost:8080"}, False),
        ({"origin": "null", "host": "a.example"}, False),
        ({"host": "a.example"}, False),
        ({}, False),
    ],
)
def test_a_form_is_taken_from_our_own_pages_only(headers: dict[str, str], ours: bool) -> None:
    if ours:
        check_origin(scope(**headers))
    else:
        with pytest.raises(Refused):
            check_origin(scope(**headers))


def test_a_form_repeats_the_text_of_its_cookie() -> None:
    check_form(scope(cookie="cronlease_forms=abc"), "abc")
    for cookie, given in (("abc", "abd"), ("abc", ""), ("", ""), ("", "abc")):
        with pytest.raises(Refused):
            check_form(scope(cookie=f"cronlease_forms={cookie}"), given)
