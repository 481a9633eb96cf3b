"""A run may start processes and send requests, but those cannot trigger another run: one hit never causes a storm.

A child process knows its parent run by CRONLEASE_SPAWNED, a request by a header: the only one that can cause a skip.
"""

import os
from collections.abc import Mapping
from uuid import UUID

SPAWNED = "CRONLEASE_SPAWNED"
HEADER = "X-Cronlease-Spawned"
# A child needs these to call assert_lease in its own SQL.
HOLDER = NAME, REQUEST_ID, FENCE = "CRONLEASE_NAME", "CRONLEASE_REQUEST_ID", "CRONLEASE_FENCE"
HINT = "a run started this process or sent this request: it cannot trigger another run"


def is_spawned(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a run, or a process that a run started, started this process."""
    return is_marked((os.environ if environ is None else environ).get(SPAWNED, ""))


def is_marked(value: str) -> bool:
    """The value of the variable or the header; empty and 0 mean no."""
    return value.strip() not in ("", "0")


def parent(environ: Mapping[str, str] | None = None) -> UUID | None:
    """The run that this process descends from; None without a readable request ID."""
    try:
        return UUID((os.environ if environ is None else environ).get(SPAWNED, ""))
    except ValueError:
        return None


def child_env(name: str, request_id: UUID, fence: int) -> dict[str, str]:
    """The environment for a child process of that run."""
    run = str(request_id)
    return {**os.environ, SPAWNED: run, NAME: name, REQUEST_ID: run, FENCE: str(fence)}


def http_headers(request_id: UUID) -> dict[str, str]:
    return {HEADER: str(request_id)}
