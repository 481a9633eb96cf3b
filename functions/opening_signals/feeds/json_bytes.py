"""Prepares bytes for ijson, whose C parser rejects a whole document for a fault of a single item, and crashes on a
number of more than 4300 digits.

Bytes that are not UTF-8 and halves of surrogate pairs become a mark, which `unmarked` turns into a lone surrogate in
the finished text. That is removed when the item becomes an opening.
"""

import codecs
import re
from typing import Any

from opening_signals.errors import FeedError

_MARK = "\ufdd0"  # will never be a character; a feed that uses it loses it
_MARKED = re.compile(r"\ufdd0|\\u[fF][dD][dD]0")
_MOST_DIGITS = 4000
# Matches only where the digits begin; otherwise long numbers would take quadratic time.
_ENDLESS = re.compile(rb"(?<![0-9])[0-9]{%d}" % _MOST_DIGITS)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.S
)
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LONGEST_ESCAPE = 12  # a pair of surrogates
_LONGEST_TEXT = 1024**2
# Bytes between two values, which the parser does not keep.
_GAP = b" \t\r\n,:"
_END_OF_TEXT = re.compile(rb'\\.|(")', re.S)

codecs.register_error("opening_signals.mark", lambda error: (_MARK, error.end))  # type: ignore[attr-defined]


class Cleaner:
    """Cleans the bytes as they arrive. `marked` is true from the first mark on."""

    def __init__(self) -> None:
        self.marked = False
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("opening_signals.mark")
        self._held = ""
        self._last = b""

    def clean(self, chunk: bytes, *, final: bool = False) -> bytes:
        seen = self._last + chunk
        if _ENDLESS.search(seen):
            raise FeedError(f"it holds a number of more than {_MOST_DIGITS} digits")
        self._last = seen[1 - _MOST_DIGITS :]
        text = self._held + self._decoder.decode(chunk, final)
        cut = len(text) if final else _end_of_whole_escapes(text)
        text, self._held = text[:cut], text[cut:]
        if "\\ud" in text or "\\uD" in text:
            text = _ESCAPE.sub(_without_half, text)
        self.marked = self.marked or _MARKED.search(text) is not None
        return text.encode()


class LongTexts:
    """Removes the rest of a text that is too long: the parser keeps a text in memory until it is complete. The item
    with such a text must be given up."""

    def __init__(self) -> None:
        self._waited = 0
        self._in_text = False

    def cut(self, cleaned: bytes) -> tuple[bytes, bool]:
        """The bytes to parse, and whether some were removed. `cleaned` begins outside an escape."""
        if self._waited <= _LONGEST_TEXT:
            return cleaned, False
        for match in _END_OF_TEXT.finditer(cleaned):
            if match[1]:
                return cleaned[match.start() :], True
        return b"", True

    def note(self, parsed: bytes, *, progress: bool) -> None:
        """Without progress the parser is still inside the value that these bytes belong to."""
        if progress:
            self._waited, self._in_text = 0, False
            return
        self._waited += len(parsed)
        self._in_text = self._in_text or bool(parsed.strip(_GAP))
        if self._waited > _LONGEST_TEXT and not self._in_text:
            raise FeedError(f"went on for more than {_LONGEST_TEXT // 1024**2} MiB without a value")


def unmarked(value: Any) -> Any:
    """The value with a lone surrogate for every mark."""
    return value.replace(_MARK, "\udcff") if isinstance(value, str) else value


def _end_of_whole_escapes(text: str) -> int:
    """Where to cut without splitting an escape or a pair of them. The text begins outside both."""
    place = text.find("\\", max(len(text) - _LONGEST_ESCAPE + 1, 0))
    if place < 0:
        return len(text)
    place = _outside(text, place)
    if place >= _LONGEST_ESCAPE // 2 and _HIGH.fullmatch(text, place - _LONGEST_ESCAPE // 2, place):
        place = _outside(text, place - _LONGEST_ESCAPE // 2)
    return place


def _outside(text: str, place: int) -> int:
    """The place of a backslash, or of the one before it if that one escapes it."""
    before = place - len(text[:place].rstrip("\\"))
    return place - before % 2


def _without_half(escape: re.Match[str]) -> str:
    return _MARK if escape["half"] else escape[0]
