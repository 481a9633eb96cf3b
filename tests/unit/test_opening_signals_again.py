"""How often an id comes again in one feed is counted exactly, and in little memory."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from opening_signals.feeds.duplicates import Again


@settings(max_examples=50)
@given(st.lists(st.text(max_size=2) | st.integers(0, 30).map(str)))
def test_the_count_is_how_many_were_there_before(keys: list[str]) -> None:
    again = Again()
    for key in keys:
        again.add(key)
    assert again.count() == len(keys) - len(set(keys))


def test_an_id_takes_but_a_few_bytes() -> None:
    tracemalloc.start()
    again = Again()
    for number in range(50_000):
        again.add(f"4{number}")
    again.add("449999")
    assert again.count() == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000 * 10 + 100_000
