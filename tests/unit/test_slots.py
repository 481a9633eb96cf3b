"""The slots of crons and beats: none twice, none lost, searched forwards or backwards, at every change of clocks."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronlease.cadence import Cadence
from cronlease.slots import MOST_COUNTED, Beat, Cron, coming
from tests.unit.clock_changes import ZONES, changes, random_cron, slots_between

AROUND = timedelta(days=1)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(-(10**9), 10**9).map(lambda seconds: EPOCH + timedelta(seconds=seconds))
LENGTHS = st.integers(1, 10**7).map(lambda seconds: timedelta(seconds=seconds))


def check(cron: str, zone: str, change: datetime, source: random.Random) -> int:
    """Compares everything around one change of clocks with the oracle; answers how many slots there were."""
    begin, end = change - AROUND, change + AROUND
    expected = slots_between(cron, zone, begin, end)
    slots, said = Cron.parse(cron, zone), f"{cron} in {zone} around {change}"
    found, moment = [], begin - timedelta(microseconds=1)
    while (moment := slots.after(moment)) < end:
        found.append(moment)
        assert len(found) <= len(expected) + 1, said
    assert found == expected, said
    assert slots.count(begin, end) == len(expected), said
    for _ in range(5):
        at = begin + (end - begin) * source.random()
        assert slots.after(at) > at, said
        past = [slot for slot in expected if slot <= at]
        if past:
            assert slots.latest(at) == past[-1], f"{said} at {at}"
            assert slots.latest(past[-1]) == past[-1], f"{said} at its very moment"
    return len(expected)


def test_slots_agree_with_the_oracle_at_a_few_changes_of_clocks() -> None:
    source, found = random.Random(7), 0
    for zone in ("Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Antarctica/Troll"):
        for change in changes(zone, 2026, 2026):
            found += sum(
                check(cron, zone, change, source) for cron in ("30 2 * * *", "0 0 * * *", random_cron(source))
            )
    assert found > 30


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(8))
def test_slots_agree_with_the_oracle_at_every_change_of_clocks_of_ten_years(part: int) -> None:
    source, found, seen = random.Random(part), 0, 0
    for zone in ZONES[part::8]:
        for change in changes(zone, 2020, 2029) or [EPOCH]:
            seen += 1
            found += sum(check(cron, zone, change, source) for cron in (random_cron(source), random_cron(source)))
    assert len(ZONES) == 40
    assert (found > 100, seen > 20) == (True, True)


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "* * 1 1 *", "59 23 31 12 *", "*/7 3 * * 1"])
def test_the_latest_slot_of_a_rare_cron_is_found(cron: str) -> None:
    slots = Cron.parse(cron, "Europe/Berlin")
    for days in (0, 1, 59, 365, 3000):
        at = EPOCH + timedelta(days=days, hours=5, minutes=13)
        latest = slots.latest(at)
        assert latest is not None
        assert latest <= at < slots.after(latest)


@given(MOMENTS, MOMENTS, LENGTHS)
def test_a_beat_has_its_slots_at_whole_multiples_both_ways(anchor: datetime, at: datetime, every: timedelta) -> None:
    slots = Beat(anchor, every)
    after, latest = slots.after(at), slots.latest(at)
    assert latest is not None
    assert latest <= at < after == latest + every
    assert (latest - anchor) % every == timedelta(0)
    assert slots.count(latest, after + 3 * every) == 4
    assert slots.count(after, latest) == 0


def test_a_count_has_an_end() -> None:
    slots = Cron.parse("* * * * *", "Etc/UTC")
    assert slots.count(EPOCH, EPOCH + timedelta(days=30)) == MOST_COUNTED
    assert Beat(EPOCH, timedelta(seconds=1)).count(EPOCH, EPOCH + timedelta(days=30)) == MOST_COUNTED


def test_the_coming_slots_are_listed_in_order() -> None:
    slots = Cadence.of_cron("0 9 * * 1-5", "Europe/Berlin").slots(EPOCH)
    berlin = ZoneInfo("Europe/Berlin")
    named = [slot.astimezone(berlin).strftime("%a %d %H:%M") for slot in coming(slots, EPOCH, 3)]
    assert named == ["Thu 01 09:00", "Fri 02 09:00", "Mon 05 09:00"]
