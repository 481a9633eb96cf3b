"""The state of one host in a run: how many of its sources are being fetched, whether it answers, and until when it
asked to be left alone. Knows nothing of what is fetched."""

import asyncio
from urllib.parse import urlsplit

# After this many fetches in a row without an answer the host is left alone for the rest of the run.
MOST_SILENT = 3
# A host that asks for a longer rest, in seconds, is not waited for.
LONGEST_REST = 30.0


class Host:
    """One host in one run."""

    def __init__(self) -> None:
        self.running = 0
        self._silent = 0
        self._rests_until = 0.0

    @property
    def is_down(self) -> bool:
        return self._silent >= MOST_SILENT

    @property
    def is_left_alone(self) -> bool:
        """Whether it is down, or asked for a rest that is too long to wait for."""
        return self.is_down or self.rests() > LONGEST_REST

    def end(self, *, is_silent: bool) -> None:
        """A fetch is over; silent when nothing answered, or not in time."""
        self._silent = self._silent + 1 if is_silent else 0

    def rest(self, seconds: float) -> None:
        """The host asked to be left alone for this long."""
        self._rests_until = max(self._rests_until, asyncio.get_running_loop().time() + seconds)

    def rests(self) -> float:
        """How many seconds it is still to be left alone."""
        return max(0.0, self._rests_until - asyncio.get_running_loop().time())


def host_of(url: str) -> str:
    """The host of an address with its port: two servers on one machine are two hosts."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
