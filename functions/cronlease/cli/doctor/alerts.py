"""Alerts that could not be delivered. Their addresses are secrets."""

from collections.abc import Iterator, Sequence

from cronlease.cli.doctor.finding import Finding, info, ok, warning
from cronlease.db.alerts import name_of
from cronlease.db.conninfo import SyncConnection
from cronlease.db.questions import Questions
from cronlease.errors import NotPermitted
from cronlease.explain.format import counted
from cronlease.observe.alert import host_of

_ask = Questions(__file__)
_FIX = "the log of the function says why (action alert_failed); alerts that stay undelivered for a day are dropped"
_ELSEWHERE = (
    "give the doctor the CRONLEASE_ALERT_URL of the deployment; if that has changed, they are dropped in a day"
)


def check(conn: SyncConnection, urls: Sequence[str]) -> Iterator[Finding]:
    """An address is named by its place in CRONLEASE_ALERT_URL and by its host."""
    try:
        waiting = _ask(conn, "undelivered")
    except NotPermitted:
        # Only the owner may read them, and a run does not need to.
        yield info("alerts", "not checked: only the owner of the schema can see which are undelivered")
        return
    known = {name_of(url): f"address {place} ({host_of(url)})" for place, url in enumerate(urls, 1)}
    for each in waiting:
        address = known.get(each["address"])
        count, verb = counted(each["count"], "alert"), "is" if each["count"] == 1 else "are"
        to = address or "an address that CRONLEASE_ALERT_URL does not have here"
        sentence = f"{count} for {to} {verb} undelivered since {each['since']} UTC"
        yield warning("alerts", sentence, _FIX if address else _ELSEWHERE)
    if not waiting:
        yield ok("alerts", "no alert is undelivered")
