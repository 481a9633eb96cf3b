"""One run-due at a time on one machine. A courtesy: what keeps two runs apart is the lease in the database."""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from cronlease.db.conninfo import place_of
from cronlease.embedded.cluster import default_data_dir
from cronlease.observe.logs import log
from cronlease.settings import Settings


@contextmanager
def only_one(settings: Settings) -> Iterator[bool]:
    """False when another process of this machine is at it, with the same database. Where the data directory cannot
    be written there is no such lock, and it goes on without."""
    place = place_of(settings.database_url or "") if settings.has_database else "embedded"
    short = hashlib.sha256(place.encode()).hexdigest()[:12]
    directory = default_data_dir()
    lock = FileLock(directory / f"run-due-{short}.lock", timeout=0)
    try:
        # Root's is entered by the account that PostgreSQL runs as.
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        directory.mkdir(mode=0o755 if is_root else 0o700, parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError) as error:
        log(logging.WARNING, f"Going on without the lock file in {directory}: {error}", action="no_lock_file")
    try:
        yield True
    finally:
        lock.release()
