"""Child processes that end with their parent, however it ends. Knows nothing of what they run."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from cronlease.embedded.install import Account

_SET_PARENT_DEATH_SIGNAL = 1
# Loaded before any fork: between fork and exec nothing may take the loader's lock.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def spawn(
    command: Sequence[str],
    *,
    output: IO[bytes],
    env: dict[str, str],
    cwd: Path | None = None,
    account: Account | None = None,
    keep_open: Sequence[int] = (),
    on_parent_death: signal.Signals = signal.SIGINT,
) -> subprocess.Popen[bytes]:
    """Starts a child in its own session: a terminal's Ctrl-C reaches only us, and we choose the order of the end.

    On Linux the child gets `on_parent_death` when the calling thread is gone, even by SIGKILL: call this from the
    main thread.
    """
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        pass_fds=keep_open,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        # Runs after the change of user, which clears the signal.
        preexec_fn=end_with_parent(on_parent_death),
    )


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """A preexec_fn that makes the child get that signal when its parent is gone; None where the system lacks it."""
    libc, parent = _libc, os.getpid()
    if libc is None:
        return None

    def ask_for_signal() -> None:
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the parent died first: no signal will come
            os._exit(1)

    return ask_for_signal


def children(pid: int) -> list[int]:
    """The live child processes of this process. Not on Windows."""
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    if Path("/proc/self").exists():
        return []
    listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True)  # noqa: S607
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(own) for own, parent in pairs if int(parent) == pid]


def stop(process: subprocess.Popen[bytes], steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Sends each signal in turn and waits that many seconds for the end; the last resort is SIGKILL."""
    for number, seconds in steps:
        process.send_signal(number)  # does nothing when it has ended
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also its children in its session
    process.wait()
