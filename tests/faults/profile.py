"""How often each promise is put to the test: a little by default, more in `.ci/run` (`--profile ci`), and the full
figures with `--profile long`. A test marked `thorough` is left out by default.

The figures of a long profile are written to one JSON file, with the seed: n of n, never an adjective.
"""

import json
import os
import platform
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

NAMES = ("quick", "ci", "long")


class Size(NamedTuple):
    quick: int
    ci: int
    long: int


# What one unit is: see the test of that promise.
SIZES = {
    "P1": Size(5, 10, 1000),  # rounds of a hundred claims
    "P1 http": Size(5, 10, 200),  # rounds of fifty hits
    "P2": Size(100, 250, 12_012),  # orders; so many are all of them
    "P3": Size(1, 1, 25),  # rounds of all points
    "P4": Size(1, 1, 50),
    "P5": Size(1, 1, 50),  # rounds of all points
    "P6": Size(1, 1, 20),  # rounds of all points, for each way to serve
    "P7": Size(3, 5, 500),  # restarts
    "P8": Size(2, 5, 500),  # of each of the four kinds
    "P9": Size(1, 1, 10),  # rounds of all kinds
    "P10": Size(1, 1, 30),  # rounds of all points
    "P11": Size(3, 10, 200),  # rounds
    "P12": Size(1, 1, 17),  # rounds of all three kinds
    "P13": Size(10, 25, 1000),  # slots
    "P14": Size(3, 10, 100),  # rounds of twenty clients
    "P15": Size(1, 1, 20),  # rounds of two hundred callers
    "P16": Size(4, 4, 480),  # cells of the matrix, which has 24
    "P17": Size(50, 200, 7000),  # examples of the state machine, up to 20 steps each
    "P23": Size(1000, 1000, 20_000),  # requests of strangers, for each way to check callers
    "P26": Size(1000, 2000, 200_000),  # fuzzed cadences
    "P29 texts": Size(1000, 1000, 300_000),  # texts that both lexers read
    "P30": Size(1, 1, 40),  # rounds of all places, as runner and as owner by turns
    "P21": Size(4, 4, 64),  # MiB that each hostile feed sends
    "P31 feeds": Size(1, 1, 24),  # MiB that each hostile feed sends, all of them in one run
    "paging": Size(300, 2000, 10_000),  # histories of boards that change while their pages are read
    "P33": Size(4, 50, 200),  # slots of each cadence
    "P33 kills": Size(2, 15, 50),  # of a job of twenty times as many pieces
    "P34": Size(3, 20, 500),  # slots of two times two hundred hits
    "P35": Size(1, 1, 25),  # rounds of each fault, of forty rows in batches of eight
    "P38": Size(2, 2, 20),  # seconds that each of the seven steps lasts
    "P36": Size(6, 100, 500),  # incidents
    "soak": Size(8, 30, 1800),  # seconds
}


class Profile:
    """The sizes of this session, its seed, and what was seen."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.seed = seed
        self.figures: list[dict[str, Any]] = []
        self._started = time.time()

    def n(self, promise: str) -> int:
        size: int = getattr(SIZES[promise], self.name)
        return size

    def random(self, promise: str) -> random.Random:
        """A source of its own for each promise: which tests run beside it changes nothing."""
        return random.Random(f"{self.seed} {promise}")

    def record(self, promise: str, kept: int, of: int, **more: Any) -> None:
        """Kept n of n; asserted here, so that no test can record and forget to look."""
        self.figures.append({"promise": promise, "kept": kept, "of": of, "seed": self.seed, **more})
        assert (kept, of) == (of, of), f"{promise}: {kept} of {of} with --seed {self.seed}: {more}"

    def write(self, path: Path) -> None:
        path.write_text(
            json.dumps(
                {
                    "profile": self.name,
                    "seed": self.seed,
                    "seconds": round(time.time() - self._started),
                    "python": platform.python_version(),
                    "cores": os.cpu_count(),
                    "figures": self.figures,
                },
                indent=1,
            )
            + "\n"
        )


def of(config: pytest.Config) -> Profile:
    """The session's one profile; its workers have the same seed."""
    known: Profile | None = getattr(config, "cronlease_profile", None)
    if known is None:
        seed = getattr(config, "workerinput", {}).get("seed", config.getoption("--seed"))
        known = Profile(config.getoption("--profile"), random.randrange(2**32) if seed is None else seed)
        config.cronlease_profile = known  # type: ignore[attr-defined]
    return known


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a parametrised test, of which the quick profile runs only one in so many."""
    return [case if place % number == 0 else thorough(case) for place, case in enumerate(cases)]


def thorough(*case: Any) -> Any:
    """A case of a parametrised test that the quick profile leaves out."""
    return pytest.param(*case, marks=pytest.mark.thorough)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the thorough tests unless the profile has the time for them."""
    if of(config).name == "quick":
        chosen = [item for item in items if item.get_closest_marker("thorough") is None]
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("thorough")])
        items[:] = chosen


def finish(config: pytest.Config) -> None:
    """A worker hands its figures on; where all of them meet they are written."""
    known = of(config)
    if hasattr(config, "workeroutput"):
        config.workeroutput["figures"] = json.dumps(known.figures)
    elif known.name == "long" and known.figures:
        known.write(config.getoption("--figures"))
