"""Reads the sources file. An error in it is one sentence that names the source and the field."""

import re
import tomllib
from pathlib import Path
from string import Formatter
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from opening_signals.feeds import KINDS
from opening_signals.feeds.json_feed import JsonKind
from opening_signals.feeds.kind import Kind
from opening_signals.feeds.model import Source
from opening_signals.feeds.spec import Feed

SHIPPED = Path(__file__).with_name("sources.toml")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
# With spaces: at some vendors a board has the name of the company as people write it.
_NAME = re.compile(r"[\w. -]*\w[\w. -]*")


class SourcesError(ValueError):
    """The sources file cannot be used. The text repeats no values: an address may hold a secret."""


def load(path: str | None) -> list[Source]:
    """The sources of the file, in its order; without a path those of the shipped file, which lists none."""
    sources = [_source(entry, place) for place, entry in enumerate(_entries(path or SHIPPED), start=1)]
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            raise SourcesError(f"source {source.name!r}: the name is used twice, and it must be unique")
        seen.add(source.name)
    return sources


def _entries(path: str | Path) -> list[Any]:
    where = f"the sources file {str(path)!r} (CRONLEASE_SOURCES)"
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SourcesError(f"{where} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SourcesError(f"{where} is not TOML: {_first_line(error)}") from None
    if unknown := sorted(document.keys() - {"source"}):
        raise SourcesError(f"{where} has an unknown field {unknown[0]!r}: write [[source]] before each source")
    entries = document.get("source", [])
    if not isinstance(entries, list):
        raise SourcesError(f"{where} has [source] where [[source]] is meant")
    return entries


def _source(entry: Any, place: int) -> Source:
    if not isinstance(entry, dict):
        raise SourcesError(f"source {place}: write it as a [[source]] table")
    given = entry.get("name")
    who = f"source {given!r}" if isinstance(given, str) and given.strip() else f"source {place}"
    try:
        if "feed" in entry:  # a field of a Source, but not of the file
            raise SourcesError("'feed' is an unknown field")
        kind = _kind(entry)
        entry = _with_url(entry, kind)
        if not isinstance(kind, JsonKind):
            return Source.model_validate(entry)
        source = Source.model_validate(_with_feed(entry, kind))
        return source.model_copy(update={"url": kind.spec(source).first(source.url)})
    except ValidationError as error:
        raise SourcesError(f"{who}: {_sentence(error)}") from None
    except SourcesError as error:
        raise SourcesError(f"{who}: {error}") from None


def _kind(entry: dict[str, Any]) -> Kind:
    if "kind" not in entry:
        raise SourcesError("the field 'kind' is missing")
    kind = KINDS.get(entry["kind"]) if isinstance(entry["kind"], str) else None
    if kind is None:
        raise SourcesError(f"'kind' is unknown: {entry['kind']!r}; it can be {', '.join(sorted(KINDS))}")
    return kind


def _with_url(entry: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """The entry with its short keys replaced by the address that they make."""
    keys = [name for _, name, _, _ in Formatter().parse(kind.address) if name]
    short = [key for key in keys if key in entry]
    if not keys or (short == [] and "url" in entry):
        return entry
    if "url" in entry or short != keys:
        only = f"only {_quoted(short)}" if short else "neither"
        fault = "both are there" if "url" in entry else f"{only} is there"
        raise SourcesError(f"a source of kind {entry['kind']} has either {_quoted(keys)} or 'url', and {fault}")
    rest = {name: value for name, value in entry.items() if name not in keys}
    return rest | {"url": kind.address.format(**{key: _short(key, entry[key], kind.address) for key in keys})}


def _short(key: str, value: Any, address: str) -> str:
    """The value, quoted for its place in the address."""
    if not isinstance(value, str) or not value.strip():
        raise SourcesError(f"{key!r} must be a text and not empty")
    if f"{{{key}}}" in address.split("/")[2] and not _HOST.fullmatch(value.strip()):
        raise SourcesError(f"{key!r} must be letters, digits, dots and hyphens: it is part of the host's name")
    if not _NAME.fullmatch(value.strip()):
        raise SourcesError(f"{key!r} must be letters, digits, spaces, dots, hyphens and underscores")
    return quote(value.strip(), safe="")


def _with_feed(entry: dict[str, Any], kind: JsonKind) -> dict[str, Any]:
    """The entry with its own description of the feed merged into that of the preset."""
    own = {name: value for name, value in entry.items() if name in Feed.model_fields}
    if not own and kind.is_complete:
        return entry
    feed = kind.preset | own
    for name in ("fields", "query"):
        if isinstance(own.get(name), dict):
            feed[name] = kind.preset.get(name, {}) | own[name]
    return {name: value for name, value in entry.items() if name not in own} | {"feed": feed}


def _quoted(keys: list[str]) -> str:
    return " and ".join(map(repr, keys))


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = _field(first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{field!r} is an unknown field"
    if first["type"] == "missing":
        return f"the field {field!r} is missing"
    if first["type"] == "union_tag_not_found":
        return f"the field '{field}.style' is missing"
    if first["type"] == "union_tag_invalid":
        return f"'{field}.style' must be none, offset, page or next"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{field!r} {message[:1].lower()}{message[1:]}"


def _field(place: tuple[int | str, ...]) -> str:
    """The name as in the file, which has no table `feed` and has the style of the paging as a value."""
    names = [str(part) for part in place]
    if names[:1] == ["feed"]:
        names = names[1:] or ["fields"]
    if names[:1] == ["paging"]:
        names[1:2] = []
    return ".".join(names) or "entry"


def _first_line(error: ValueError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).partition("\n")[0]
