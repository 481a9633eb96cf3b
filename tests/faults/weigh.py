"""Fetches sources, each in a child of its own, and says what each cost: a program for the tests of P21.

Reads `kind deadline url` from its input, line by line, and answers a JSON object for each. A child is forked from
this process, which has imported everything before: what a child grows by is what its source cost. With the argument
`unbounded` an item of JSON may cost what it likes.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from opening_signals.check import check
from opening_signals.feeds import json_items
from opening_signals.feeds.model import Source


def resident(field: str) -> int:
    """VmRSS or VmHWM in kB."""
    return int(Path("/proc/self/status").read_text().partition(f"{field}:")[2].split()[0])


async def longest_pause(over: asyncio.Event) -> float:
    """How long the event loop could do nothing else, at most."""
    longest, last = 0.0, time.monotonic()
    while not over.is_set():
        await asyncio.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


async def weigh(kind: str, deadline: float, url: str) -> dict[str, object]:
    over = asyncio.Event()
    watch = asyncio.create_task(longest_pause(over))
    Path("/proc/self/clear_refs").write_text("5")
    before, began = resident("VmRSS"), time.monotonic()
    (found,) = await check([Source(name="acme", kind=kind, url=url, allow_private=True)], seconds=deadline)
    seconds = time.monotonic() - began
    over.set()
    return {
        "grown": (resident("VmHWM") - before) / 1024,
        "seconds": seconds,
        "pause": await watch,
        "error": found.error,
        "items": found.items,
        "rejected": dict(found.rejected),
        "openings": found.openings,
    }


def main() -> None:
    if sys.argv[1:] == ["unbounded"]:
        vars(json_items)["MOST_COST"] = 2**63
    for line in sys.stdin:
        kind, deadline, url = line.split()
        print(json.dumps(in_child(kind, float(deadline), url)), flush=True)


def in_child(kind: str, deadline: float, url: str) -> dict[str, object]:
    read_end, write_end = os.pipe()
    if not (pid := os.fork()):
        os.close(read_end)
        with os.fdopen(write_end, "w") as out:
            json.dump(asyncio.run(weigh(kind, deadline, url)), out)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        said = answer.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the process died"
    found: dict[str, object] = json.loads(said)
    return found


if __name__ == "__main__":
    main()
