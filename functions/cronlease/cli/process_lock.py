"""One run-due at a time on one machine. Only a courtesy: what keeps two runs apart is the lease in the database."""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from cronlease.db.conninfo import place_of
from cronlease.embedded.cluster import default_data_dir
from cronlease.embedded.filelock import FileLock
from cronlease.observe.logs import log
from cronlease.settings import Settings


@contextmanager
def process_lock(settings: Settings) -> Iterator[bool]:
    """False while another process on this machine holds the lock for the same database and schema. True as well
    where the lock file cannot be written."""
    place = place_of(settings.database_url or "") if settings.has_database else "embedded"
    if settings.schema != "public":
        place = f"{place} {settings.schema}"
    short = hashlib.sha256(place.encode()).hexdigest()[:12]
    directory = default_data_dir()
    lock, is_free = None, True
    try:
        # As root, PostgreSQL runs as another account, which must be able to enter the directory.
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        directory.mkdir(mode=0o755 if is_root else 0o700, parents=True, exist_ok=True)
        lock = FileLock.take(directory / f"run-due-{short}.lock")
        is_free = lock is not None
    except OSError as error:
        log(logging.WARNING, f"Going on without the lock file in {directory}: {error}", action="no_lock_file")
    try:
        yield is_free
    finally:
        if lock is not None:
            lock.release()
