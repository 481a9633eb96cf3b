"""How often an id comes again in one feed is counted exactly, and in little memory."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from opening_signals.feeds.duplicates import Duplicates


@settings(max_examples=50)
@given(st.lists(st.text(max_size=2) | st.integers(0, 30).map(str)))
def test_the_count_is_how_many_were_there_before(keys: list[str]) -> None:
    duplicates = Duplicates()
    for key in keys:
        duplicates.add(key)
    assert duplicates.count() == len(keys) - len(set(keys))


def test_an_id_takes_but_a_few_bytes() -> None:
    tracemalloc.start()
    duplicates = Duplicates()
    for number in range(50_000):
        duplicates.add(f"4{number}")
    duplicates.add("449999")
    assert duplicates.count() == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000 * 10 + 100_000
