"""All faults at the same time for a while, and the same without the guards."""

import pytest

from tests.faults.crashing import Crashing
from tests.faults.profile import Profile
from tests.faults.soak import soak


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_no_invariant_is_violated_whatever_befalls_processes_network_and_database(
    crashing: Crashing, profile: Profile
) -> None:
    figures = soak(crashing, profile.n("soak"), profile.random("soak").randrange(2**32))
    assert figures["real runs"]["success"] > 0
    assert sum(figures["faults injected"].values()) > 0
    profile.record("soak", int(not figures["violations"]), 1, figures=figures)


@pytest.mark.thorough
def test_without_the_guards_the_soak_is_violated(crashing: Crashing, profile: Profile) -> None:
    """The negative control."""
    source = profile.random("soak control")
    tries = (soak(crashing, 5, source.randrange(2**32), unfenced=True)["violations"] for _ in range(3))
    assert any(tries)
