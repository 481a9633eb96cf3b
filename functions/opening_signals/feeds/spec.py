"""What is to be known of a JSON feed: data, not code. A preset says it for a vendor, a user for their own."""

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

# Most paths are as plain as this, and walking them is five times faster than JMESPath, with the same result.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NO_FIT = Unusable("its JMESPath does not fit the item")


@dataclass(frozen=True, slots=True)
class Expression:
    """A JMESPath, ready to be used."""

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
        raise ValueError(f"is no JMESPath: {str(error).partition(chr(10))[0]}") from None
    return Expression(text, _walk(text.split(".")) if _PLAIN.fullmatch(text) else compiled.search)


def _walk(names: list[str]) -> Callable[[Any], Any]:
    """JMESPath has null where there is no such name, and where there are no names at all."""

    def find(item: Any) -> Any:
        for name in names:
            if not isinstance(item, dict):
                return None
            item = item.get(name)
        return item

    return find


def _prefix(text: str) -> str:
    if text.split(".")[-1] != "item" or "" in text.split("."):
        raise ValueError("must be where the items are as ijson writes it: jobs.item, or item when all is one list")
    return text


def evaluate(find: Callable[[Any], Any], item: Any) -> Any:
    """What the expression finds in the item, or Unusable. The values of the item are not repeated in it."""
    try:
        return find(item)
    except Exception:
        # What a function of JMESPath raises on values that it was not meant for is not to be foreseen.
        return _NO_FIT


# Written as its text: two sources are the same when they say the same.
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
        """What the item says of each; Unusable where an expression does not fit it."""
        return {name: evaluate(find, item) for name, find in self._finders}

    @cached_property
    def _finders(self) -> list[tuple[str, Callable[[Any], Any]]]:
        return [(name, expression.find) for name, expression in self if expression is not None]


class Feed(BaseModel):
    """Marker is a path outside of the items that must be there, beside the list of the items itself. Query are the
    parameters that every address of the feed needs. May_be_empty is false where an unknown board answers as an
    empty one does."""

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
