"""Reads the sources file. What is wrong in it is said in one sentence that names the source and the field."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opening_signals.model import Source
from opening_signals.sources import KINDS

SHIPPED = Path(__file__).with_name("sources.toml")


class SourcesError(ValueError):
    """The sources file cannot be used. Values are not repeated: an address may hold a secret."""


def load(path: str | None) -> list[Source]:
    """The sources of the file, in its order; without a path those of the shipped file, which has none."""
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
    entry = _with_url(entry, who)
    try:
        return Source.model_validate(entry)
    except ValidationError as error:
        raise SourcesError(f"{who}: {_sentence(error)}") from None


def _with_url(entry: dict[str, Any], who: str) -> dict[str, Any]:
    """The entry with its short key made an address."""
    if "kind" not in entry:
        raise SourcesError(f"{who}: the field 'kind' is missing")
    kind = KINDS.get(entry["kind"]) if isinstance(entry["kind"], str) else None
    if kind is None:
        raise SourcesError(f"{who}: 'kind' is unknown: {entry['kind']!r}; it can be {', '.join(sorted(KINDS))}")
    short = kind.short_key
    if (short in entry) == ("url" in entry):
        fault = "both are there" if short in entry else "neither is there"
        raise SourcesError(f"{who}: a source of kind {entry['kind']} has either {short!r} or 'url', and {fault}")
    if short not in entry:
        return entry
    value = entry[short]
    if not isinstance(value, str) or not value.strip():
        raise SourcesError(f"{who}: {short!r} must be a text that is not empty")
    return {name: kept for name, kept in entry.items() if name != short} | {"url": kind.url(value.strip())}


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "entry"
    if first["type"] == "extra_forbidden":
        return f"{field!r} is an unknown field"
    if first["type"] == "missing":
        return f"the field {field!r} is missing"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{field!r} {message[:1].lower()}{message[1:]}"


def _first_line(error: ValueError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).partition("\n")[0]
