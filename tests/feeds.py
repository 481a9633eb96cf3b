"""The feed fixtures, and how a test reads a document of any kind."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from opening_signals.feeds import KINDS
from opening_signals.feeds.kind import reason
from opening_signals.feeds.model import Opening, Source

FIXTURES = Path(__file__).with_name("fixtures") / "feeds"


class Read(NamedTuple):
    openings: list[Opening]
    rejected: Counter[str]
    repaired: Counter[str]
    skipped: int
    next_url: str | None


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def source(kind: str, url: str = "https://feeds.example/all", **more: Any) -> Source:
    return Source.model_validate({"name": "acme", "kind": kind, "url": url} | more)


def read(origin: Source, chunks: Iterable[bytes], url: str | None = None) -> Read:
    """What the kind makes of a page that arrives in these pieces."""
    kind = KINDS[origin.kind]
    reader = kind.reader(origin, url or origin.url)
    items: list[Any] = []
    for chunk in chunks:
        items += reader.feed(chunk)
    items += reader.end()
    result = Read([], Counter(), Counter(), 0, reader.next_url(len(items)))
    for item in items:
        repairs: list[str] = []
        try:
            opening = kind.opening(item, origin, repairs)
        except ValueError as error:
            result.rejected[reason(error)] += 1
            continue
        if opening is None:
            result = result._replace(skipped=result.skipped + 1)
        else:
            result.openings.append(opening)
            result.repaired.update(repairs)
    return result


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    """The body in pieces, cut at these places."""
    edges = [0, *sorted(min(place, len(body)) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]
