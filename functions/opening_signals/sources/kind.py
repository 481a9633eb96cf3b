"""What a kind of feed is: where its items are, and how one item becomes an opening. Pure: bytes in, openings out."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from opening_signals.model import FeedError, Opening, Source

PAGE = 2000
_LONGEST_INTEGER = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of feed. `items` raises FeedError when the document is not such a feed at all: a board that
    vanished must never look like one without openings. `opening` raises ValueError for an item that is no good."""

    short_key: str
    address: str
    items: Callable[[bytes], Iterable[Any]]
    opening: Callable[[Any, Source], Opening]

    def url(self, short: str) -> str:
        """The address that the short key stands for."""
        return self.address.format(quote(short, safe=""))

    def pages(self, source: Source, body: bytes, rejected: Counter[str]) -> Iterator[list[Opening]]:
        """The openings of the document, page by page; the reasons of the items left out are counted in rejected."""
        accepted = self._accepted(source, body, rejected)
        some = False
        while page := list(islice(accepted, PAGE)):
            some = True
            yield page
        if rejected and not some:
            raise FeedError(f"none of its {rejected.total()} items is usable: {rejected.most_common(1)[0][0]}")

    def _accepted(self, source: Source, body: bytes, rejected: Counter[str]) -> Iterator[Opening]:
        for item in self.items(body):
            try:
                yield self.opening(item, source)
            except ValueError as error:
                rejected[_reason(error)] += 1


def json_items(body: bytes, key: str) -> list[Any]:
    """The list under that key of a JSON object. Bytes that are not UTF-8 spoil only the item they are in."""
    try:
        document = json.loads(body.decode("utf-8-sig", "surrogateescape"), parse_int=_integer)
    except RecursionError:
        raise FeedError("its JSON is nested too deep") from None
    except ValueError:
        raise FeedError("it did not answer with JSON") from None
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise FeedError(f"its JSON has no list `{key}`")
    return items


def _integer(digits: str) -> int | float:
    """Nobody counts that far: such a number makes its item unusable, and would make Python refuse the document."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else math.nan


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    return f"{field or 'item'}: {first['msg'].removeprefix('Value error, ')}"
