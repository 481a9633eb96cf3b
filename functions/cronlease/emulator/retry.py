"""What Cloud Scheduler does after an attempt that failed. Pure: durations in, durations out, all in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """A job's retry configuration, with Cloud Scheduler's own defaults: no retry."""

    count: int = 0
    max_duration: float = 0.0
    min_backoff: float = 5.0
    max_backoff: float = 3600.0
    max_doublings: int = 5

    def again(self, retries: int, elapsed: float) -> bool:
        """Whether one more is made after so many, so long after the first attempt: until both limits are reached.
        No duration at all is no limit, and no promise either: then the count decides."""
        return retries < self.count or elapsed < self.max_duration

    def backoff(self, retry: int) -> float:
        """How long to wait before that retry, the first being 1: it doubles so many times, then grows by what it had
        grown to, up to the longest."""
        doublings = min(retry - 1, self.max_doublings)
        grown: float = self.min_backoff * 2**doublings
        return min(grown * (retry - doublings), self.max_backoff)


NO_RETRY = Retry()
