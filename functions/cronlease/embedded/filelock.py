"""A lock on a file. It ends with the last process that holds it."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Self


class FileLock:
    """Held until closed. A child that inherits the descriptor holds the lock too (not on Windows)."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, path: Path, *, shared: bool = False) -> Self | None:
        """The lock, or None when another process holds it. Any number may hold it shared, which excludes an exclusive
        holder. Windows has no shared lock: the answer is None."""
        if shared and sys.platform == "win32":
            return None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        return cls(descriptor)

    @classmethod
    def wait(cls, path: Path, seconds: float) -> Self:
        deadline = time.monotonic() + seconds
        while (lock := cls.take(path)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process has held {path} for {seconds:.0f} seconds")
            time.sleep(0.01)
        return lock

    def is_of(self, path: Path) -> bool:
        """False if the file was deleted or replaced after this lock opened it."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Unlocks also for children that inherited the descriptor: a job may leave some behind."""
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
