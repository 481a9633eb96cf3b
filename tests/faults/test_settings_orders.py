"""P27: contradictory settings stop startup, in one sentence that names both."""

from itertools import product

from cronlease.cadence import Every, duration
from cronlease.settings import SettingsError, load
from tests.faults.profile import Profile

VALUES = {
    "CRONLEASE_LEASE": ("", "2s", "10s", "20m"),
    "CRONLEASE_ACQUIRE_TIMEOUT": ("", "2s", "10s", "20m"),
    "CRONLEASE_MAX_RUN": ("", "2s", "10s", "20m"),
    "CRONLEASE_BACKOFF": ("", "1s..2s", "1h..3h"),
    "CRONLEASE_BACKOFF_CAP": ("", "2s", "40m", "2h"),
}


def unfit(environment: dict[str, str]) -> list[tuple[str, str]]:
    """The pairs out of order. Only a value that was set can be: the others make room."""
    lease, acquire, run, backoff, cap = environment.values()
    band = Every.parse(backoff or "20m..40m")
    pairs = {
        ("CRONLEASE_ACQUIRE_TIMEOUT", "CRONLEASE_LEASE"): acquire and duration(acquire) > duration(lease or "5m"),
        ("CRONLEASE_MAX_RUN", "CRONLEASE_ACQUIRE_TIMEOUT"): run and acquire and duration(run) <= duration(acquire),
        ("CRONLEASE_BACKOFF_CAP", "CRONLEASE_BACKOFF"): cap and duration(cap) < band.high,
    }
    return [names for names, wrong in pairs.items() if wrong]


def sentence(environment: dict[str, str]) -> str:
    try:
        load(environment)
    except SettingsError as refused:
        return str(refused)
    return ""


def test_every_pair_that_is_out_of_order_is_refused_by_both_names(profile: Profile) -> None:
    refused, wrong = 0, []
    for values in product(*VALUES.values()):
        environment = dict(zip(VALUES, values, strict=True))
        said, pairs = sentence(environment), unfit(environment)
        refused += bool(pairs)
        named = any(f"{one} is " in said and said.partition(one)[2].count(other) for one, other in pairs)
        if bool(said) != bool(pairs) or (pairs and not named) or "\n" in said:
            wrong.append((environment, said))
    assert refused > 100
    profile.record("P27", refused - len(wrong), refused, wrong=wrong[:5])
