"""P7: a database that crashes again and again loses no acknowledged run and invents none."""

import random
import time

import pytest

from tests.acceptance.conftest import Serve
from tests.faults.crashing import Base, Crashing, base_of
from tests.faults.ledger import Caller, Ledger
from tests.faults.profile import Profile
from tests.faults.scene import until_it_runs
from tests.integration.conftest import wait_until

CALLERS = 4


def hits_under_crashes(serve: Serve, base: Base, source: random.Random, restarts: int, *, longest: float) -> Ledger:
    """Hits at two servers all the while; the next crash comes at a random moment after the first success since."""
    ledger = Ledger()
    servers = [serve(base.proxy.dsn, CRONLEASE_LEASE="1s") for _ in range(2)]
    callers = [Caller(servers, ledger, random.Random(source.random())) for _ in range(CALLERS)]
    for _ in range(restarts):
        before = ledger.hits["success"]
        wait_until(lambda before=before: ledger.hits["success"] > before, 20)  # type: ignore[misc]
        time.sleep(source.uniform(0, longest))
        base.restart()
    for caller in callers:
        caller.stop()
    # A run whose end could not be written is closed by the next one.
    ledger.enter(until_it_runs(lambda: servers[0].hit(json={"force": True}).json(), 10))
    return ledger


@pytest.mark.timeout(7200)
def test_a_crash_loses_no_acknowledged_run_and_invents_none(
    serve: Serve, crashing: Crashing, profile: Profile
) -> None:
    restarts = profile.n("P7")
    longest = 3 if profile.name == "long" else 0.2
    with base_of(crashing) as base:
        ledger = hits_under_crashes(serve, base, profile.random("P7"), restarts, longest=longest)
        violations = ledger.violations(base.room)
    kept = restarts if not violations else 0
    profile.record("P7", kept, restarts, hits=dict(ledger.hits), violations=violations)


@pytest.mark.thorough
def test_a_server_that_acknowledges_too_early_is_seen(serve: Serve, crashing: Crashing, profile: Profile) -> None:
    """The negative control."""
    early = {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
    with base_of(crashing) as base:
        crashing.configure(**early)
        base.restart()
        ledger = hits_under_crashes(serve, base, profile.random("P7 control"), 2, longest=0)
        crashing.configure(synchronous_commit="on", wal_writer_delay="200ms", wal_writer_flush_after="1MB")
        assert any("acknowledged" in each for each in ledger.violations(base.room))
