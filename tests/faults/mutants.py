"""A mutant is a function of schema/ with one guard missing: its text, with one piece of it replaced."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.faults.scene import sql


class Mutant(NamedTuple):
    """What is wrong with it; the function; the guard, word for word; what stands there instead; who notices it."""

    says: str
    function: str
    guard: str
    instead: str
    killer: Callable[..., None]

    @property
    def text(self) -> str:
        """Of the broken function. A guard that does not occur exactly once was changed: the mutant must follow."""
        text = sql(self.function)
        assert text.count(self.guard) == 1, f"{self.function} has {text.count(self.guard)} times {self.guard!r}"
        return text.replace(self.guard, self.instead)


Guard = tuple[str, str, str, Callable[..., None]]
"""What is wrong; the guard; what stands there instead; who notices it."""


def mutants_of(function: str, what: str, guards: Iterable[Guard]) -> list[Mutant]:
    return [Mutant(f"{what}: {says}", function, guard, instead, killer) for says, guard, instead, killer in guards]


GONE = ""
HOLDER = "    and s.locked_by = p_request_id::text\n"
FENCE = "    and s.fence = p_fence\n"
LOCK = "  for no key update;\n"
SKIP = "  for no key update skip locked;\n"
AND_NO_LOCK = FENCE.rstrip() + ";\n"
CLOCK = "  v_now := clock_timestamp();\n"
