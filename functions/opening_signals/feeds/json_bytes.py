"""Makes bytes fit for ijson, whose C parser gives up a whole document for what only one item need be given up for,
and which a number of more than 4300 digits makes crash.

Bytes that are not UTF-8 and halves of surrogate pairs become a mark, which `spoiled` turns into a lone surrogate in
the finished text: from there it is taken out when the item becomes an opening.
"""

import codecs
import re
from typing import Any

from opening_signals.errors import FeedError

_MARK = "\ufdd0"  # no character, and none ever: nobody writes it, and who does loses it as well
_MARKED = re.compile(r"\ufdd0|\\u[fF][dD][dD]0")
_MOST_DIGITS = 4000
# Tried only where the digits begin: else many long numbers would take the square of their length.
_ENDLESS = re.compile(rb"(?<![0-9])[0-9]{%d}" % _MOST_DIGITS)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.S
)
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LONGEST_ESCAPE = 12  # a pair of surrogates
_LONGEST_TEXT = 1024**2
# What may stand between two values. The parser does not keep it.
_GAP = b" \t\r\n,:"
_END_OF_TEXT = re.compile(rb'\\.|(")', re.S)

codecs.register_error("opening_signals.mark", lambda error: (_MARK, error.end))  # type: ignore[attr-defined]


class Cleaner:
    """Takes the bytes as they arrive and gives back those that ijson may have. `marked` once there was a mark."""

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
    """Takes the rest of a text out that is too long: the parser keeps a whole text in memory before it tells of it.
    Whatever holds such a text must be given up."""

    def __init__(self) -> None:
        self._waited = 0
        self._in_text = False

    def cut(self, cleaned: bytes) -> tuple[bytes, bool]:
        """The bytes to be parsed, which begin outside of an escape, and whether some were taken out."""
        if self._waited <= _LONGEST_TEXT:
            return cleaned, False
        for match in _END_OF_TEXT.finditer(cleaned):
            if match[1]:
                return cleaned[match.start() :], True
        return b"", True

    def note(self, parsed: bytes, *, progress: bool) -> None:
        """Without progress the parser is still inside of the value that these bytes belong to."""
        if progress:
            self._waited, self._in_text = 0, False
            return
        self._waited += len(parsed)
        self._in_text = self._in_text or bool(parsed.strip(_GAP))
        if self._waited > _LONGEST_TEXT and not self._in_text:
            raise FeedError(f"went on for more than {_LONGEST_TEXT // 1024**2} MiB without a value")


def spoiled(value: Any) -> Any:
    """The value with every mark a lone surrogate."""
    return value.replace(_MARK, "\udcff") if isinstance(value, str) else value


def _end_of_whole_escapes(text: str) -> int:
    """Where to cut so that neither an escape nor a pair of them is torn. The text begins outside of both."""
    place = text.find("\\", max(len(text) - _LONGEST_ESCAPE + 1, 0))
    if place < 0:
        return len(text)
    place = _outside(text, place)
    if place >= _LONGEST_ESCAPE // 2 and _HIGH.fullmatch(text, place - _LONGEST_ESCAPE // 2, place):
        place = _outside(text, place - _LONGEST_ESCAPE // 2)
    return place


def _outside(text: str, place: int) -> int:
    """The place of a backslash, or the one before when that makes it an escaped one."""
    before = place - len(text[:place].rstrip("\\"))
    return place - before % 2


def _without_half(escape: re.Match[str]) -> str:
    return _MARK if escape["half"] else escape[0]
