"""What the doctor sees of the alerts: those that nobody could deliver. Their addresses are secrets."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cronlease.cli.doctor.finding import Finding, info, ok, warning
from cronlease.cli.questions import questions_of
from cronlease.db.alerts import name_of
from cronlease.errors import NotPermitted
from cronlease.explain.format import counted
from cronlease.observe.alert import host_of

if TYPE_CHECKING:
    from psycopg import Connection

_ask = questions_of(__file__)
_FIX = "the log of the function says why (action alert_failed); what nobody could deliver within a day is dropped"
_ELSEWHERE = (
    "give the doctor the CRONLEASE_ALERT_URL of the deployment; if that has changed, they are dropped in a day"
)


def check(conn: "Connection[Any]", urls: Sequence[str]) -> Iterator[Finding]:
    """An address is named by its place in CRONLEASE_ALERT_URL and by its host."""
    try:
        waiting = _ask(conn, "undelivered")
    except NotPermitted:
        # Nobody but the owner may, and a run needs it not.
        yield info("alerts", "not looked at: only the owner of the schema sees which are undelivered")
        return
    known = {name_of(url): f"address {place} ({host_of(url)})" for place, url in enumerate(urls, 1)}
    for each in waiting:
        address = known.get(each["address"])
        count, verb = counted(each["count"], "alert"), "is" if each["count"] == 1 else "are"
        to = address or "an address that CRONLEASE_ALERT_URL does not have here"
        said = f"{count} for {to} {verb} undelivered since {each['since']} UTC"
        yield warning("alerts", said, _FIX if address else _ELSEWHERE)
    if not waiting:
        yield ok("alerts", "no alert is undelivered")
