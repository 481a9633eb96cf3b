"""Parts of a request as OpenTelemetry sees them: a span that goes nowhere, and one that is recorded.

What goes wrong here is a warning, never the end of a run; what a job says passes the same redaction as the log.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from cronlease.observe import logs
from cronlease.observe.redact import storable
from cronlease.outcome import Outcome

if TYPE_CHECKING:
    from types import ModuleType

SCOPE = "cronlease"
TRACE = "opentelemetry.trace"


class _Quietly:
    """Around whatever is not ours to rely on. No generator: each hit passes here several times."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        message = f"What OpenTelemetry was told got lost, the run is not affected: {kind.__name__}"
        logs.log(logging.WARNING, message, action="telemetry_failed", cause=error)
        return True


quietly = _Quietly()


class Span:
    """A part of a hit: `with` begins and ends it. This one goes nowhere."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None: ...

    def note(self, **attributes: object) -> None:
        """Adds attributes: numbers and bools as they are, all else as text; those that are None are left out."""

    def fail(self, error: str) -> None:
        """Marks this part as failed, for an error that is not raised out of the block."""

    def ends(self, outcome: Outcome) -> Outcome:
        """Of a hit: tells how it ended, and hands the outcome on."""
        return outcome


NOTHING = Span()
# What a job says may hold a secret; names and words of ours do not, and are in every hit.
Text = Callable[[str], str]


def tracing() -> "ModuleType | None":
    """The API of tracing where a provider is set up: the stand-in that the API has before would only cost time."""
    if (trace := sys.modules.get(TRACE)) is None:
        return None
    with quietly:
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return trace
    return None


class Recorded(Span):
    def __init__(
        self, trace: "ModuleType", name: str, attributes: Mapping[str, object], text: Text, **how: Any
    ) -> None:
        self._trace = trace
        self._name = name
        self._attributes = attributes
        self._text = text
        self._how = how
        self._span: Any = trace.INVALID_SPAN
        self._leave: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        with quietly:
            from opentelemetry import context

            tracer = once(self._trace.get_tracer_provider(), _tracer)
            attributes = attributes_of(self._attributes, self._text)
            self._span = tracer.start_span(self._name, attributes=attributes, **self._how)
            token = context.attach(self._trace.set_span_in_context(self._span, self._how.get("context")))
            self._leave = lambda: context.detach(token)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with quietly:
            if kind is not None:
                self._raised(kind.__name__, error)
        with quietly:
            self._leave()
        with quietly:
            self._span.end()

    def note(self, **attributes: object) -> None:
        with quietly:
            self._span.set_attributes(attributes_of(attributes, self._text))

    def fail(self, error: str) -> None:
        with quietly:
            self._span.set_status(self._trace.StatusCode.ERROR, storable(error))

    def _raised(self, name: str, error: BaseException | None) -> None:
        """As an event of the name that OpenTelemetry gives exceptions, but without a traceback and its secrets."""
        message = storable(str(error))
        self._span.add_event("exception", {"exception.type": name, "exception.message": message})
        self.fail(f"{name}: {message}" if message else name)


def _tracer(provider: Any) -> Any:
    return provider.get_tracer(SCOPE)


_made: dict[Callable[[Any], Any], tuple[Any, Any]] = {}


def once(provider: Any, make: Callable[[Any], Any]) -> Any:
    """What is made of the provider, made once: it may be set up later than the first hit comes."""
    if make not in _made or _made[make][0] is not provider:
        _made[make] = (provider, make(provider))
    return _made[make][1]


def attributes_of(given: Mapping[str, object], text: Text) -> dict[str, Any]:
    return {
        f"{SCOPE}.{name}": value if isinstance(value, bool | int | float) else text(str(value))
        for name, value in given.items()
        if value is not None
    }
