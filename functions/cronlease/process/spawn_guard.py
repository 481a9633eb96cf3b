"""A run may start processes and send requests, but what it starts cannot trigger again: one hit, never a storm.

A child process knows its parent run by CRONLEASE_SPAWNED, a request by a header: the only one that can cause a skip.
"""

import os
from collections.abc import Mapping
from uuid import UUID

SPAWNED = "CRONLEASE_SPAWNED"
HEADER = "X-Cronlease-Spawned"
# What a child needs to call assert_lease in SQL of its own.
HOLDER = NAME, REQUEST_ID, FENCE = "CRONLEASE_NAME", "CRONLEASE_REQUEST_ID", "CRONLEASE_FENCE"
HINT = "a run started this process or sent this request: it cannot trigger another run"


def is_spawned(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this process was started by a run, or by something that a run started."""
    return is_marked((os.environ if environ is None else environ).get(SPAWNED, ""))


def is_marked(value: str) -> bool:
    """What the variable or the header says: empty or 0 is a no."""
    return value.strip() not in ("", "0")


def parent(environ: Mapping[str, str] | None = None) -> UUID | None:
    """The run that this process descends from, where it says so in words we can read."""
    given = (os.environ if environ is None else environ).get(SPAWNED)
    if not given:
        return None
    try:
        return UUID(given)
    except ValueError:
        return None


def child_env(name: str, request_id: UUID, fence: int) -> dict[str, str]:
    """This process's environment, marked for a child of that run."""
    run = str(request_id)
    return {**os.environ, SPAWNED: run, NAME: name, REQUEST_ID: run, FENCE: str(fence)}


def http_headers(request_id: UUID) -> dict[str, str]:
    return {HEADER: str(request_id)}
