"""Reads an XML feed as it streams, with the standard library's expat, and turns each item into plain data.

A document type fails the feed, so that there are no entities but XML's own and nothing else is fetched.
"""

from collections.abc import Iterable
from typing import Any
from xml.parsers import expat

from opening_signals.errors import FeedError
from opening_signals.feeds.kind import MOST_COST, NODE, TOO_LARGE, Reader
from opening_signals.feeds.model import Source

_DEEPEST = 100
# Expat keeps a tag or a comment in memory until it is complete, and every name until the end.
_LONGEST_TAG = 256 * 1024
_MOST_NAMES = 2000
_MOST_OF_NAMES = 200_000
_MOST_PIECES = 1000
# Expat raises these for invalid XML, the last two for an unknown encoding.
_BROKEN = (expat.ExpatError, ValueError, LookupError)


class _Element:
    """An element of an item that is still open."""

    __slots__ = ("data", "name", "pieces")

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.data = data
        self.pieces: list[str] = []

    def write(self, text: str) -> None:
        if len(self.pieces) == _MOST_PIECES:
            # With a comment after every letter, each letter is a piece.
            self.pieces = ["".join(self.pieces)]
        self.pieces.append(text)

    def add(self, name: str, value: Any) -> None:
        """A repeated name gets a list of its values."""
        if name not in self.data:
            self.data[name] = value
        elif isinstance(self.data[name], list):
            self.data[name].append(value)
        else:
            self.data[name] = [self.data[name], value]

    def value(self) -> Any:
        """A text if there is only text; otherwise attributes, elements and text by name."""
        text = "".join(self.pieces).strip()
        if not self.data:
            return text
        return self.data | {"#text": text} if text else self.data


class XmlKind:
    """A kind of XML feed, on one page. `places` are the paths of the items, from the root down; `version` changes
    with the code of `opening`."""

    accept = "application/xml, text/xml"
    address = ""
    places: tuple[tuple[str, ...], ...]
    version: str

    def reader(self, source: Source, url: str) -> "XmlReader":  # noqa: ARG002
        return XmlReader(self.places)

    def reading(self, source: Source) -> str:  # noqa: ARG002
        return self.version


class XmlReader(Reader):
    """Names keep their prefix only if their namespace is not the root's."""

    def __init__(self, places: Iterable[tuple[str, ...]]) -> None:
        self._places = {place[0]: place for place in places}
        self._place: tuple[str, ...] = ()
        self._namespace = ""
        self._listed = False
        self._path: list[str] = []
        self._open: list[_Element] = []
        self._left = MOST_COST  # what the item may still cost
        self._skipping = False  # inside an item that cost too much
        self._done: list[Any] = []
        self._names: dict[str, str] = {}  # plain names by expat's names
        self._declared: set[tuple[str | None, str | None]] = set()
        self._of_names = 0
        self._fed = 0
        self._parser = self._new_parser()

    def end(self) -> list[Any]:
        items = self.push(b"", final=True)
        # Breaks the reference cycle between the parser and its handlers.
        del self._parser
        if not self._listed:
            raise FeedError(f"its XML has no <{self._place[-2]}>")
        return items

    def _new_parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.namespace_prefixes = True
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.StartNamespaceDeclHandler = self._declare
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        return parser

    def push(self, piece: bytes, *, final: bool = False) -> list[Any]:
        try:
            self._parser.Parse(piece, final)
        except _BROKEN:
            raise FeedError("it is not XML, or it is cut off") from None
        self._fed += len(piece)
        if self._fed - self._parser.CurrentByteIndex > _LONGEST_TAG:
            raise FeedError(f"its XML has a tag or a comment of more than {_LONGEST_TAG // 1024} KiB")
        done, self._done = self._done, []
        return done

    def _refuse(self, *_: Any) -> None:
        raise FeedError("its XML has a document type, which feeds do not need")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._place:
            self._begin(name)
        name = self._plain(name)
        self._path.append(name)
        if len(self._path) > _DEEPEST:
            raise FeedError("its XML is nested too deep")
        data = {f"@{self._plain(key)}": value for key, value in attributes.items()}
        if self._skipping:
            return
        if self._open or tuple(self._path) == self._place:
            if not self._open:
                self._left = MOST_COST
            self._open.append(_Element(name, data))
            self._spend(NODE * (1 + len(data)) + sum(map(len, attributes.values())))
        elif tuple(self._path) == self._place[:-1]:
            self._listed = True

    def _begin(self, root: str) -> None:
        self._namespace = root.split(" ")[0] if " " in root else ""
        name = self._plain(root)
        if name not in self._places:
            wanted = " or ".join(f"<{known}>" for known in self._places)
            raise FeedError(f"its XML does not begin with {wanted}")
        self._place = self._places[name]

    def _plain(self, name: str) -> str:
        """Expat writes a name as `namespace name prefix`, without the prefix in the default namespace."""
        plain = self._names.get(name)
        if plain is None:
            uri, *local = name.split(" ")
            of_root = uri == self._namespace or len(local) == 1
            plain = (local[0] if of_root else f"{local[1]}:{local[0]}") if local else name
            self._names[name] = plain
            self._count_name(len(name))
        return plain

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        if (prefix, uri) not in self._declared:
            self._declared.add((prefix, uri))
            self._count_name(len(uri or ""))

    def _count_name(self, length: int) -> None:
        self._of_names += length
        if len(self._names) + len(self._declared) > _MOST_NAMES or self._of_names > _MOST_OF_NAMES:
            raise FeedError("its XML has too many names, or too long ones")

    def _end(self, _: str) -> None:
        self._path.pop()
        if self._skipping and len(self._path) < len(self._place):
            self._skipping = False
            self._done.append(TOO_LARGE)
        if not self._open:
            return
        element = self._open.pop()
        if self._open:
            self._open[-1].add(element.name, element.value())
        else:
            self._done.append(element.value())

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].write(text)
            self._spend(len(text))

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            self._open.clear()
            self._skipping = True


def text(value: Any) -> Any:
    """The text of an element's value, or of the first of several; None without a text."""
    if isinstance(value, list):
        value = value[0]
    return value.get("#text") if isinstance(value, dict) else value
