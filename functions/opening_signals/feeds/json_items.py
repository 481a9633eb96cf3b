"""Builds the items of a JSON document from ijson's events, one at a time, and keeps watched values outside them."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from opening_signals.errors import FeedError
from opening_signals.feeds.kind import MOST_COST, NODE, TOO_LARGE

Event = tuple[str, Any]
_DEEPEST = 500
# No path in a spec has a longer part, and no address of a next page is longer.
_LONGEST_NAME = 200
_LONGEST_VALUE = 2000
_STARTS = {"start_map": dict, "start_array": list}
_ENDS = ("end_map", "end_array")


class Items:
    """The items at a prefix in ijson's notation, such as `jobs.item`. `listed` is true once their list has begun;
    `values` has the values of the watched paths outside the items that exist and are not null."""

    def __init__(self, prefix: str, watched: Iterable[str]) -> None:
        self.listed = False
        self.values: dict[str, Any] = {}
        self._prefix = prefix.split(".")
        self._list = self._prefix[: self._prefix.index("item")]
        self._watched = {tuple(path.split(".")): path for path in watched}
        self._path: list[str] = []
        self._open: list[Any] = []  # the containers of the item that is being built
        self._key = ""
        self._left = MOST_COST  # what the item may still cost
        self._skipped = 0  # how many containers are open of an item that cost too much

    def take(self, events: Iterable[Event]) -> list[Any]:
        """The items that these events complete, and TOO_LARGE for each that was given up."""
        done: list[Any] = []
        coming = iter(events)
        if self._skipped:
            self._skip(coming, done)
        elif self._open:
            self._build(coming, done)
        for event, value in coming:
            if self._advance(event, value):
                if event in _STARTS:
                    self._open.append(_STARTS[event]())
                    self._left = MOST_COST
                    self._build(coming, done)
                else:
                    done.append(_plain(value))
        return done

    def give_up(self) -> None:
        """Drops the item that is being built, if any, and skips the rest of it."""
        self._skipped = self._skipped or len(self._open)
        self._open.clear()

    def _advance(self, event: str, value: Any) -> bool:
        """Follows the document outside the items; true when an item begins here."""
        path = self._path
        if event in _ENDS:
            path.pop()
            return False
        if event == "map_key":
            path[-1] = value if len(value) <= _LONGEST_NAME else ""
            return False
        if path == self._prefix:
            return True
        self._note(event, value)
        if event in _STARTS:
            if len(path) == _DEEPEST:
                raise FeedError("its JSON is nested too deep")
            path.append("item" if event == "start_array" else "")
        return False

    def _note(self, event: str, value: Any) -> None:
        if event == "start_array" and self._path == self._list:
            self.listed = True
        name = self._watched.get(tuple(self._path))
        if name is not None and event != "null":
            # Of a container only its type: the reader must see that it is neither a text nor a number.
            is_long = isinstance(value, str) and len(value) > _LONGEST_VALUE
            self.values[name] = _STARTS[event]() if event in _STARTS else [] if is_long else value

    def _build(self, coming: Iterator[Event], done: list[Any]) -> None:
        """Continues the item until it is complete or the events are used up. The hot loop of a large feed."""
        inside, key, left = self._open, self._key, self._left
        top = inside[-1]
        for event, value in coming:
            if event == "map_key":
                key = value
                left -= len(value)
                continue
            if event in _ENDS:
                item = inside.pop()
                if not inside:
                    done.append(item)
                    return
                top = inside[-1]
                continue
            left -= NODE
            start, made = None, value
            if event == "string":
                left -= len(value)
            elif event == "number":
                made = _plain(value)
                left -= _digits(made)
            elif start := _STARTS.get(event):
                made = start()
            if type(top) is list:
                top.append(made)
            else:
                top[key] = made
            if start:
                if len(inside) == _DEEPEST:
                    raise FeedError("its JSON is nested too deep")
                inside.append(made)
                top = made
            if left < 0:
                self.give_up()
                self._skip(coming, done)
                return
        self._key, self._left = key, left

    def _skip(self, coming: Iterator[Event], done: list[Any]) -> None:
        """Continues to the end of an item that was given up."""
        for event, _ in coming:
            if event in _STARTS:
                self._skipped += 1
            elif event in _ENDS:
                self._skipped -= 1
                if not self._skipped:
                    done.append(TOO_LARGE)
                    return


def _plain(value: Any) -> Any:
    """A number as the standard library reads it: ijson makes a Decimal."""
    return float(value) if type(value) is Decimal else value


def _digits(number: float) -> int:
    """About how many bytes a number takes beyond NODE."""
    return number.bit_length() // 8 if type(number) is int else 0
