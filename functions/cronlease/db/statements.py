"""Finds the statements in a text of SQL that would end or begin a transaction. Pure: knows no connection.

Reads as the server's lexer does: comments (nested ones, too), quotes, dollar quotes and `begin atomic` bodies hide
what is in them, and a statement is known by its first words. Time is linear in the length of the text.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

_FIRST_WORDS = (b"commit", b"rollback", b"end", b"abort", b"begin", b"start", b"prepare")
_FIRST_WORD = re.compile(rb"\b(?:" + b"|".join(_FIRST_WORDS) + rb")\b")
# Longer texts are seldom sent twice.
_LONGEST_KEPT = 4096

_ALWAYS = ("abort", "begin", "commit", "end", "start")
_NOISE = ("transaction", "work")
# create or replace function
_WORDS_KEPT = 4


class _Patterns(NamedTuple):
    token: re.Pattern[str]
    comment_mark: re.Pattern[str]
    quoted: re.Pattern[str]
    escaped: re.Pattern[str]
    continued: re.Pattern[str]


@functools.cache
def _patterns() -> _Patterns:
    """Compiled when the first text is read: most processes never read one.

    A letter is anything but a digit and ASCII's other characters. An unterminated quote reaches to the end: the
    server refuses such a text as a whole. Strings with a newline between them are one, and backslashes mean in the
    second what they did in the first."""
    letter = r"[^\0-@\[-^`{-\x7f]"
    token = rf"""
          (?P<gap> [\s\0]++ | --[^\r\n]*+ )
        | (?P<comment> /\* )
        | (?P<escaped> [eE]' )
        | (?P<quoted> ' )
        | (?P<name> "[^"]*+ (?:"|\Z) )
        | (?P<dollar> \$ (?:{letter}(?:{letter}|[0-9])*+)? \$ )
        | (?P<word> {letter}(?:{letter}|[0-9$])*+ )
        | (?P<other> \$?[0-9]++ | . )
    """
    return _Patterns(
        re.compile(token, re.VERBOSE | re.DOTALL),
        re.compile(r"/\*|\*/"),
        re.compile(r"[^']*+(?:''[^']*+)*+(?:'|\Z)"),
        re.compile(r"[^'\\]*+(?:(?:''|\\.?)[^'\\]*+)*+(?:'|\Z)", re.DOTALL),
        re.compile(r"(?:[ \t\f\v]|--[^\r\n]*+)*+[\r\n](?:\s++|--[^\r\n]*+[\r\n])*+'"),
    )


def transaction_control(text: bytes, encoding: str = "utf-8", *, backslashes: bool = False) -> str | None:
    """The first statement that would end or begin a transaction, named by its first words; else None. Savepoints do
    neither. Backslashes: whether they escape in plain quotes, as where standard_conforming_strings is off."""
    # Nearly every text has none of the words and is not read any further.
    lowered = text.lower()
    if not any(word in lowered for word in _FIRST_WORDS) or _FIRST_WORD.search(lowered) is None:
        return None
    read = _read_once if len(text) <= _LONGEST_KEPT else _read
    return read(text, encoding, backslashes)


def _read(text: bytes, encoding: str, backslashes: bool) -> str | None:
    statement = _Statement()
    for word in _words(text.decode(encoding, "replace"), backslashes):
        if word == ";" and (refused := statement.refused()) is not None:
            return refused
        statement.take(word)
    return statement.refused()


_read_once = functools.lru_cache(maxsize=256)(_read)


class _Statement:
    """The statement that is being read, by its words: ";", "(" and ")" are words, too, and "" is anything else."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last = ""
        self._depth = 0
        self._in_body = False

    def take(self, word: str) -> None:
        if word == ";":
            self._begin()
            return
        if self._in_body and not self._first and word == "end":
            # In a body `end` is a statement's first word only where it closes the body: `case` has no semicolon.
            self._in_body = False
            word = ""
        if len(self._first) < _WORDS_KEPT:
            self._first.append(word)
        self._depth += (word == "(") - (word == ")")
        if word == "atomic" and self._last == "begin" and self._depth == 0 and self._is_routine():
            self._begin()
            self._in_body = True
        else:
            self._last = word

    def refused(self) -> str | None:
        """What the statement is refused as; None if it may be sent."""
        first, second, third = [*self._first, "", "", ""][:3]
        if first == "rollback":
            rolls_to = third if second in _NOISE else second
            return None if rolls_to == "to" else "rollback"
        if first == "prepare":
            return "prepare transaction" if second == "transaction" else None
        if first == "start":
            return "start transaction"
        return first if first in _ALWAYS else None

    def _begin(self) -> None:
        self._first, self._last, self._depth = [], "", 0

    def _is_routine(self) -> bool:
        words = [word for word in self._first if word not in ("or", "replace")]
        return words[:1] == ["create"] and words[1:2] in (["function"], ["procedure"])


def _words(text: str, backslashes: bool) -> Iterator[str]:
    """Yields the words of the text in lower case, semicolons and parentheses, and "" for each other thing."""
    place, read = 0, _patterns().token
    while (token := read.match(text, place)) is not None:
        place, kind = token.end(), token.lastgroup
        if kind == "gap":
            continue
        if kind == "comment":
            place = _after_comment(text, place)
            continue
        if kind == "word":
            yield token[0].lower()
        elif kind == "other":
            yield token[0] if token[0] in ";()" else ""
        else:
            if kind == "dollar":
                closed = text.find(token[0], place)
                place = len(text) if closed < 0 else closed + len(token[0])
            elif kind in ("quoted", "escaped"):
                place = _after_string(text, place, kind == "escaped" or backslashes)
            yield ""


def _after_comment(text: str, place: int) -> int:
    """Where the comment that was opened before this place ends."""
    depth = 1
    for mark in _patterns().comment_mark.finditer(text, place):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _after_string(text: str, place: int, backslashes: bool) -> int:
    """Where the string that was opened before this place ends, its continuations included."""
    rest = _patterns().escaped if backslashes else _patterns().quoted
    while True:
        closed = rest.match(text, place)
        assert closed is not None, "the pattern matches at least the end of the text"
        place = closed.end()
        more = _patterns().continued.match(text, place)
        if more is None:
            return place
        place = more.end()
