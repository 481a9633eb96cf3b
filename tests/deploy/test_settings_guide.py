"""deploy/settings.md: its variables, defaults, limits and bounds are those of the code."""

import re
from collections.abc import Iterable
from datetime import timedelta

import pytest

from cronlease import arguments, cadence, readers, settings
from cronlease.cli.commands import serve
from cronlease.cli.doctor import environment
from cronlease.db import connection, conninfo
from cronlease.observe import ping, redact
from cronlease.process import shutdown
from cronlease.run import alerts, run, supervise
from cronlease.run.record import Blocks
from cronlease.settings import Settings
from cronlease.triggers import auth, health, oidc, request, worker
from opening_signals import doctor as job_doctor
from opening_signals import fetching
from opening_signals import settings as job_settings
from tests.acceptance.conftest import FUNCTIONS
from tests.deploy.jobs import DEPLOY

GUIDE = (DEPLOY / "settings.md").read_text()
# Without our prefix, and in the table all the same.
OTHERS = {"DATABASE_URL", "CRON_SECRET", "GOOGLE_CLOUD_PROJECT"}
MINUTES = timedelta(minutes=1)


def rows(heading: str) -> dict[str, list[str]]:
    """First cell -> the others, of the tables below that heading of the second level."""
    text = GUIDE[GUIDE.index(f"\n## {heading}\n") :]
    text = text[: text.find("\n## ", 1) if "\n## " in text[1:] else None]
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in re.findall(r"^\|.*\|$", text, re.M)
    ]
    return {first: rest for first, *rest in cells if not first.startswith("---")}


def variables() -> dict[str, str]:
    """Variable -> default, as the guide has them."""
    return {
        name.strip("`"): default.strip("`") for name, (default, *_) in rows("Settings").items() if name != "variable"
    }


def read_by_the_code() -> set[str]:
    """What the doctor knows. One field of Settings is no variable."""
    return {*environment._OURS, *job_doctor.VARIABLES} - {"CRONLEASE_BACKOFF_GIVEN"}


def test_the_doctor_knows_every_variable_that_a_module_names() -> None:
    named = {
        name
        for path in FUNCTIONS.rglob("*.py")
        for name in re.findall(r"\"(CRONLEASE_[A-Z_]*[A-Z])\"", path.read_text())
        if "project" not in path.parts
    }
    assert len(named) > 20
    assert named <= read_by_the_code()


def test_the_table_names_exactly_the_variables_that_are_read() -> None:
    of_its_own = set(
        re.findall(r"`(CRONLEASE_\w+)`", GUIDE[GUIDE.index("cronlease sets these itself") :].partition("\n\n")[0])
    )
    assert len(of_its_own) == 6
    assert not of_its_own & variables().keys()
    assert variables().keys() | of_its_own == read_by_the_code() | OTHERS


def test_no_other_variable_is_named() -> None:
    assert set(re.findall(r"\bCRONLEASE_[A-Z_]*[A-Z]\b", GUIDE)) <= read_by_the_code()


def test_the_defaults_are_those_of_the_code() -> None:
    usual, told = Settings(), variables()
    spelt = {
        "lease": cadence.written(usual.lease),
        "every": usual.every.text,
        "backoff": str(usual.backoff),
        "backoff_growth": f"{usual.backoff_growth:g}",
        "backoff_cap": cadence.written(usual.backoff_rule().cap),
        "probe": cadence.written(usual.probe),
        "retention": cadence.written(usual.retention),
        "dispatch_pause": cadence.written(usual.dispatch_pause),
        "drain_seconds": f"{usual.drain_seconds:g}",
        "announce_seconds": f"{usual.announce_seconds:g}",
        "acquire_timeout": cadence.written(usual.limits().acquire),
        "allow_force": str(int(usual.allow_force)),
        "pooler": usual.pooler,
        "migrate": usual.migrate,
        "schema": usual.schema,
        "log_level": usual.log_level,
        "sources_at_once": str(job_settings.AT_ONCE),
        "per_host": str(job_settings.PER_HOST),
        "max_run": f"the platform's timeout, else `{cadence.written(usual.limits().max_run)}",
    }
    assert {name: told[f"CRONLEASE_{name.upper()}"] for name in spelt} == spelt
    for name in (
        "cron",
        "late",
        "auth",
        "token",
        "token_file",
        "oidc_audience",
        "oidc_emails",
        "alert_url",
        "ping_url",
    ):
        assert not getattr(usual, name)
        assert told[f"CRONLEASE_{name.upper()}"] == ""


def seconds(*lengths: timedelta | float) -> Iterable[str]:
    for length in lengths:
        yield f"{length.total_seconds() if isinstance(length, timedelta) else float(length):g} s"


def limits() -> dict[str, Iterable[str]]:
    """Limit of the table -> the texts that its default must have, made of the code's own numbers."""
    usual, connect = Settings().limits(), conninfo._CONNECTION
    idle, interval, count = (int(connect[f"keepalives_{each}"]) for each in ("idle", "interval", "count"))
    blocks = Blocks()
    blocks.held = 1
    return {
        "connecting to the database": seconds(int(connect["connect_timeout"])),
        "a network that is gone": seconds(int(connect["tcp_user_timeout"]) / 1000, idle + interval * count),
        "the claim": seconds(usual.acquire),
        "waiting for a lock": seconds(usual.lock_wait),
        "waiting for a pooled connection": seconds(blocks.patience(usual) or 0),
        "idle in a fenced transaction": seconds(usual.idle_in_transaction),
        "the lease": [f"{usual.lease / MINUTES:g} min"],
        "the run": [f"{usual.max_run / MINUTES:g} min"],
        "a job that was cancelled": seconds(usual.grace),
        "after SIGTERM": seconds(Settings().drain_seconds, shutdown._LAST_WORDS_SECONDS, shutdown._CLOSE_SECONDS),
        "a request's headers, with `cronlease serve`": seconds(serve._HEADER_SECONDS),
        "a request's body": seconds(request._BODY_SECONDS),
        "an answer of `/health/schedules`": seconds(health._KEPT_SECONDS),
        "an idle `cronlease worker`": seconds(worker._LONGEST),
        "one source of the shipped job": [f"{fetching._SOURCE_SHARE} of the lease"],
        "the issuer's keys, `oidc` only": seconds(oidc._ANSWER_SECONDS),
        "a check-in": seconds(ping._AWAITED_SECONDS),
        "delivering an alert": seconds(alerts._AWAITED),
    }


@pytest.mark.parametrize(("limit", "texts"), limits().items())
def test_a_limit_is_the_one_of_the_code(limit: str, texts: Iterable[str]) -> None:
    default = rows("Every wait has an end")[limit][0]
    for text in texts:
        assert re.search(rf"(?<![\d.]){re.escape(text)}", default), f"{limit}: {text}"


def test_the_connections_and_the_last_grace_are_those_of_the_code() -> None:
    pooled = rows("Every wait has an end")["waiting for a pooled connection"][1]
    size = connection.POOL_SIZE
    lent, of_hits = size - connection._KEPT_FROM_JOBS, size - connection._KEPT_FOR_ENDS
    assert f"of {size} connections jobs are lent {lent} and hits get {of_hits}" in pooled
    assert f"has {supervise._LAST_GRACE_SECONDS:g} s of the three" in re.sub(r"\s+", " ", GUIDE)


def test_the_bounds_are_those_of_the_code() -> None:
    days, hours = timedelta(days=1), timedelta(hours=1)
    expected = {
        "a lease": f"1 s to {settings._LONGEST_LEASE / days:g} d",
        "a cadence": f"at most {cadence._LONGEST / days:g} d",
        "a backoff, its cap, and a probe": f"at most {settings._LONGEST_BACKOFF / days:g} d; a longer delay is cut",
        "`CRONLEASE_RETENTION`": f"at least {settings._SHORTEST_RETENTION / hours:g} h",
        "a token": f"{readers._SHORTEST_TOKEN} to {auth._LONGEST_TOKEN} ASCII characters",
        "a request's body": f"{request.MOST_BYTES // 1024} KiB",
        "what `run.save()` keeps": f"{run.MOST_SAVED // 1024} KiB",
        "an error in the history": f"{redact.LONGEST_STORED} characters",
    }
    told = {name: bound for name, (bound, *_) in rows("Bounds").items()}
    assert {name: told[name] for name in expected} == expected
    assert f"{arguments._MOST_LEVELS} levels" in told["args"]
    sql = (FUNCTIONS.parent / "schema" / "cronlease" / "functions" / "args_mistake.sql").read_text()
    assert f"at most {told['args'].split()[0].replace(',', '')} bytes" in sql
