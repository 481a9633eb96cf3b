"""Builds the items of a JSON document from ijson's events, one at a time, and notes what is said beside them."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from opening_signals.model import FeedError

Event = tuple[str, Any]
_DEEPEST = 500
_STARTS = {"start_map": dict, "start_array": list}
_ENDS = ("end_map", "end_array")


class Items:
    """The items at a prefix as ijson writes it, such as `jobs.item`. `listed` once the list that holds them began;
    `found` has, of the watched paths outside of the items, those that are there and not null."""

    def __init__(self, prefix: str, watched: Iterable[str]) -> None:
        self.listed = False
        self.found: dict[str, Any] = {}
        self._prefix = prefix.split(".")
        self._list = self._prefix[: self._prefix.index("item")]
        self._watched = {tuple(path.split(".")): path for path in watched}
        self._path: list[str] = []
        self._open: list[Any] = []  # the containers of the item that is being built
        self._key = ""

    def take(self, events: Iterable[Event]) -> list[Any]:
        """The items that these events completed."""
        done: list[Any] = []
        coming = iter(events)
        if self._open:
            self._build(coming, done)
        for event, value in coming:
            if self._is_item(event, value):
                if event in _STARTS:
                    self._open.append(_STARTS[event]())
                    self._build(coming, done)
                else:
                    done.append(_plain(value))
        return done

    def _is_item(self, event: str, value: Any) -> bool:
        """Follows the document outside of the items; true when an item begins here."""
        path = self._path
        if event in _ENDS:
            path.pop()
            return False
        if event == "map_key":
            path[-1] = value
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
            # Of a container only that it is one: who wants a text or a number must see that it is none.
            self.found[name] = _STARTS[event]() if event in _STARTS else value

    def _build(self, coming: Iterator[Event], done: list[Any]) -> None:
        """Goes on with the item until it is complete or the events are used up. The hot loop of a large feed."""
        inside, key = self._open, self._key
        top = inside[-1]
        for event, value in coming:
            if event == "map_key":
                key = value
                continue
            if event in _ENDS:
                item = inside.pop()
                if not inside:
                    done.append(item)
                    return
                top = inside[-1]
                continue
            start = _STARTS.get(event)
            made = start() if start else _plain(value) if event == "number" else value
            if type(top) is list:
                top.append(made)
            else:
                top[key] = made
            if start:
                if len(inside) == _DEEPEST:
                    raise FeedError("its JSON is nested too deep")
                inside.append(made)
                top = made
        self._key = key


def _plain(value: Any) -> Any:
    """A number as the standard library reads it, not as ijson does."""
    return float(value) if type(value) is Decimal else value
