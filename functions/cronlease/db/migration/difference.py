"""One way in which a table is not what the migrations make of it."""

import re
from collections.abc import Callable
from typing import NamedTuple

from cronlease.db.migration.catalogue import Part

# Whether a table has a row for which a condition holds.
Holds = Callable[[str, str], bool]

_PLAIN = re.compile(r"^[a-z_][a-z0-9_]*$")


class Difference(NamedTuple):
    """In words; `statements` make it as it should be, or else `fix` is what only a person may decide to run. `theirs`
    is a rule that somebody has added: it may refuse what we write, or was made so that it does not."""

    said: str
    statements: tuple[str, ...] = ()
    fix: str = ""
    theirs: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.said}: change that with `{self.fix}`, then migrate" if self.fix else self.said


def name_of(part: Part) -> str:
    """Its name as SQL reads it."""
    return part.name if _PLAIN.match(part.name) else '"' + part.name.replace('"', '""') + '"'
