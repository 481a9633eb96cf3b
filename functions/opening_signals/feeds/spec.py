"""The description of a JSON feed: data, not code. Presets describe vendors' feeds, users their own."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from opening_signals.errors import Unusable
from opening_signals.feeds.dates import ISO, date_format
from opening_signals.feeds.paging import AnyPaging, OnePage, Path, with_default

# Most paths are this plain, and walking them is five times faster than JMESPath, with the same result.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NO_FIT = Unusable("its JMESPath does not fit the item")


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled JMESPath."""

    text: str
    find: Callable[[Any], Any] = field(repr=False, compare=False)


def _expression(text: Any) -> Any:
    if isinstance(text, Expression):
        return text
    if not isinstance(text, str) or not text.strip():
        raise ValueError("must be a JMESPath")
    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        raise ValueError(f"is not a JMESPath: {str(error).partition(chr(10))[0]}") from None
    return Expression(text, _walk(text.split(".")) if _PLAIN.fullmatch(text) else compiled.search)


def _walk(names: list[str]) -> Callable[[Any], Any]:
    """Like JMESPath, finds null for a missing name and in a value without names."""

    def find(item: Any) -> Any:
        for name in names:
            if not isinstance(item, dict):
                return None
            item = item.get(name)
        return item

    return find


def _prefix(text: str) -> str:
    if text.split(".")[-1] != "item" or "" in text.split("."):
        raise ValueError("must be a path in ijson's notation: jobs.item, or item when the document is one list")
    return text


def evaluate(find: Callable[[Any], Any], item: Any) -> Any:
    """The result of the expression on the item, or Unusable, whose text repeats no values of the item."""
    try:
        return find(item)
    except Exception:
        # Functions of JMESPath may raise anything on unexpected values.
        return _NO_FIT


# Serialized as its text: two sources are the same when their texts are.
JMESPath = Annotated[Expression, BeforeValidator(_expression), PlainSerializer(lambda expression: expression.text)]


class Fields(BaseModel):
    """One JMESPath per field of an opening, from the item."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", arbitrary_types_allowed=True)

    external_id: JMESPath
    title: JMESPath
    organization: JMESPath | None = None
    location: JMESPath | None = None
    url: JMESPath | None = None
    posted_at: JMESPath | None = None
    department: JMESPath | None = None
    remote: JMESPath | None = None

    def of(self, item: Any) -> dict[str, Any]:
        """The value of each field; Unusable where an expression does not fit the item."""
        return {name: evaluate(find, item) for name, find in self._finders}

    @cached_property
    def _finders(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(name, expression.find) for name, expression in self if expression is not None]


class Feed(BaseModel):
    """`marker` is a path outside the items that must exist, besides the list of items. `query` are the parameters
    that every address of the feed needs. `may_be_empty` is false if an unknown board answers like an empty one."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", arbitrary_types_allowed=True)

    items: Annotated[str, Field(max_length=200), AfterValidator(_prefix)]
    fields: Fields
    paging: AnyPaging = OnePage()
    marker: Path | None = None
    skip: JMESPath | None = None
    dates: Annotated[str, AfterValidator(date_format)] = ISO
    query: dict[str, str] = {}
    may_be_empty: bool = True

    def first(self, url: str) -> str:
        """The address of the first page."""
        for name, value in self.query.items():
            url = with_default(url, name, value)
        return self.paging.first(url)
