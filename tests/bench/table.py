"""The one table of all benches: what a row is, when its goal is met, and the table as text, Markdown and JSON.

Knows nothing of what is measured.
"""

import json
import operator
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HEAD = ("bench", "what is measured", "ours", "compared with", "ratio", "goal", "met")
_RIGHT = ("ours", "ratio", "goal")
_COMPARISONS = {"<=": operator.le, ">=": operator.ge}


class Row(NamedTuple):
    """One figure of ours, and the peer or limit that it is compared with.

    The ratio is ours to the other. Where variants took turns it is the median of the rounds' own ratios. A goal such
    as ">= 1.5" is about the ratio; in a row without a ratio it is about our figure.
    """

    what: str
    ours: float | None = None
    unit: str = ""
    compared: str = ""
    other: float | None = None
    ratio: float | None = None
    goal: str = ""
    note: str = ""
    failed: bool = False

    @property
    def met(self) -> str:
        if self.failed:
            return "failed"
        if not self.goal:
            return ""
        figure = self.ratio if self.compared else self.ours
        if figure is None:
            return "not measured"
        return "yes" if self._suffices(figure) else "no"

    def _suffices(self, figure: float) -> bool:
        sign, _, bound = self.goal.partition(" ")
        return bool(_COMPARISONS[sign](figure, float(bound)))

    def _shown_ratio(self) -> str:
        """Two digits, or more where rounding would contradict the verdict."""
        if self.ratio is None:
            return ""
        is_misleading = self.goal and self._suffices(round(self.ratio, 2)) != self._suffices(self.ratio)
        return f"{self.ratio:.{4 if is_misleading else 2}f}"

    def cells(self) -> tuple[str, ...]:
        other = f"{self.compared} {_figure(self.other, self.unit) if self.other is not None else ''}".strip()
        return self.what, _figure(self.ours, self.unit), other, self._shown_ratio(), self.goal, self.met


class Result(NamedTuple):
    """The rows of one bench, and how long it took."""

    bench: str
    rows: Sequence[Row]
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        rows = [{**row._asdict(), "met": row.met} for row in self.rows]
        return {"bench": self.bench, "seconds": round(self.seconds, 1), "rows": rows}


def against(what: str, ours: float, unit: str, compared: str, other: float | None, goal: str = "") -> Row:
    """A row whose ratio is simply that of its two figures; without the other one it has no ratio."""
    return Row(what, ours, unit, compared, other, ours / other if other else None, goal)


def below(what: str, ours: float, unit: str, limit: float, note: str = "") -> Row:
    return against(what, ours, unit, "a limit of", limit, "<= 1")._replace(note=note)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    from cronlease.embedded.install import program, wheel_bin_dir

    said = subprocess.run(
        [program(wheel_bin_dir(), "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgresql": said.stdout.split()[-1],
    }


def title(where: Mapping[str, Any]) -> str:
    sizes = ", at quick sizes, which prove nothing" if where.get("quick") else ""
    return (
        f"{where['date']}, {where['cores']} cores, {where['system']}, Python {where['python']},"
        f" PostgreSQL {where['postgresql']}{sizes}"
    )


def as_text(results: Sequence[Result]) -> str:
    lines = [HEAD, *_lines(results)]
    wide = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    table = [
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(line, wide, HEAD, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*table, *_below(_notes(results))])


def as_markdown(results: Sequence[Result], where: Mapping[str, Any]) -> str:
    rule = ["---:" if name in _RIGHT else "---" for name in HEAD]
    table = [f"| {' | '.join(line)} |" for line in (HEAD, rule, *_lines(results))]
    notes = (f"- {note}" for note in _notes(results))
    return "\n".join([f"Measured on {title(where)}.", "", *table, *_below(notes)])


def _below(notes: Iterable[str]) -> list[str]:
    return ["", *lines] if (lines := list(notes)) else []


def _lines(results: Iterable[Result]) -> Iterator[tuple[str, ...]]:
    for result in results:
        for row in result.rows:
            yield result.bench, *row.cells()


def _notes(results: Iterable[Result]) -> Iterator[str]:
    for result in results:
        for row in result.rows:
            if row.note:
                yield f"{result.bench}, {row.what}: {row.note}"


def write(path: Path, results: Iterable[Result], where: Mapping[str, Any]) -> None:
    path.write_text(json.dumps({**where, "benches": [result.as_json() for result in results]}, indent=1) + "\n")


def read(path: Path) -> list[Result]:
    """What write wrote."""
    return [
        Result(
            each["bench"],
            [Row(**{name: row[name] for name in Row._fields}) for row in each["rows"]],
            each["seconds"],
        )
        for each in json.loads(path.read_text())["benches"]
    ]
