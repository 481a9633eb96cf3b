"""Spans and counters through the API of OpenTelemetry. Knows nothing of its SDK or of exporters.

Imports the API only if somebody else has: whoever sets up a provider has loaded it, and without a provider there is
nothing to do. So a function that does not use it pays only for a lookup in sys.modules. A failure here is a warning,
never the end of a run; texts of a job are redacted as in the log.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import UUID

from cronlease.observe import logs
from cronlease.observe.redact import storable
from cronlease.outcome import Outcome, SkipReason

if TYPE_CHECKING:
    from types import ModuleType

_TRACE = "opentelemetry.trace"
_METRICS = "opentelemetry.metrics"
_SCOPE = "cronlease"
# Makes a value a text: `storable` for a job's, which may hold a secret; plain `str` for ours, which every hit has.
_Text = Callable[[str], str]


class _Quietly:
    """Turns errors of somebody else's code into a warning. Not a generator: each hit passes here several times."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        message = f"OpenTelemetry lost a span or a count, which does not affect the run: {kind.__name__}"
        logs.log(logging.WARNING, message, action="telemetry_failed", cause=error)
        return True


_quietly = _Quietly()


class Span:
    """A part of a hit: `with` begins and ends it. This one does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None: ...

    def note(self, **attributes: object) -> None:
        """Adds attributes: numbers and bools unchanged, everything else as text; those that are None are dropped."""

    def fail(self, error: str) -> None:
        """Marks this part as failed, for an error that is not raised out of the block."""

    def ends(self, outcome: Outcome) -> Outcome:
        """Records how a hit ended, and returns the outcome."""
        return outcome


NOTHING = Span()


class _Claimed(Protocol):
    """The part of a claim's answer that is recorded."""

    @property
    def acquired(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def fence(self) -> int | None: ...
    @property
    def action(self) -> str | None: ...


def _tracing() -> "ModuleType | None":
    """The tracing API if a provider is set up: the stand-in before that would only cost time."""
    if (trace := sys.modules.get(_TRACE)) is None:
        return None
    with _quietly:
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return trace
    return None


def here() -> Any:
    """The context of the current span, for threads that do not inherit it; None if nobody has set up tracing."""
    if _tracing() is None:
        return None
    from opentelemetry import context

    return context.get_current()


def span(name: str, attributes: Mapping[str, object] | None = None, place: Any = None) -> Span:
    """A span below the current one or, without one, in the context `place`. It is the current one within its block.
    NOTHING if nobody has set up tracing."""
    trace = _tracing()
    if trace is None:
        return NOTHING
    lost = place is not None and not trace.get_current_span().get_span_context().is_valid
    return _Recorded(trace, name, attributes or {}, storable, **({"context": place} if lost else {}))


def hit(
    function: str,
    request_id: UUID,
    trigger: str | None,
    asked_at: float,
    claimed: _Claimed | None = None,
    action: str = "",
) -> Span:
    """The span of a hit that asked for the lease at `asked_at`, on the monotonic clock, and has just got this answer.
    Made afterwards, so that a poll that claims nothing leaves no trace. Its `ends` also counts the hit."""
    if _TRACE not in sys.modules and _METRICS not in sys.modules:
        return NOTHING
    action = (claimed and claimed.action) or action or function
    who = {"function": function, "action": action, "request_id": request_id, "trigger": trigger}
    return _Hit(_tracing(), who, asked_at, claimed)


def skipped(outcome: Outcome) -> Outcome:
    """Records a hit that was skipped before it asked for the lease."""
    with hit(outcome.function, outcome.request_id, None, time.monotonic()) as span:
        return span.ends(outcome)


class _Recorded(Span):
    def __init__(
        self, trace: "ModuleType", name: str, attributes: Mapping[str, object], text: _Text, **how: Any
    ) -> None:
        self._trace = trace
        self._name = name
        self._attributes = attributes
        self._text = text
        self._how = how
        self._span: Any = trace.INVALID_SPAN
        self._leave: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        with _quietly:
            from opentelemetry import context

            tracer = _once(self._trace.get_tracer_provider(), _tracer)
            attributes = _attributes_of(self._attributes, self._text)
            self._span = tracer.start_span(self._name, attributes=attributes, **self._how)
            token = context.attach(self._trace.set_span_in_context(self._span, self._how.get("context")))
            self._leave = lambda: context.detach(token)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with _quietly:
            if kind is not None:
                self._raised(kind.__name__, error)
        with _quietly:
            self._leave()
        with _quietly:
            self._span.end()

    def note(self, **attributes: object) -> None:
        with _quietly:
            self._span.set_attributes(_attributes_of(attributes, self._text))

    def fail(self, error: str) -> None:
        with _quietly:
            self._span.set_status(self._trace.StatusCode.ERROR, storable(error))

    def _raised(self, name: str, error: BaseException | None) -> None:
        """Records OpenTelemetry's own `exception` event, but without the traceback and its secrets."""
        message = storable(str(error))
        self._span.add_event("exception", {"exception.type": name, "exception.message": message})
        self.fail(f"{name}: {message}" if message else name)


def _tracer(provider: Any) -> Any:
    return provider.get_tracer(_SCOPE)


_made: dict[Callable[[Any], Any], tuple[Any, Any]] = {}


def _once(provider: Any, make: Callable[[Any], Any]) -> Any:
    """Makes it once per provider, which may be set up after the first hit."""
    if make not in _made or _made[make][0] is not provider:
        _made[make] = (provider, make(provider))
    return _made[make][1]


def _attributes_of(given: Mapping[str, object], text: _Text) -> dict[str, Any]:
    return {
        f"{_SCOPE}.{name}": value if isinstance(value, bool | int | float) else text(str(value))
        for name, value in given.items()
        if value is not None
    }


class _Hit(Span):
    def __init__(
        self, trace: "ModuleType | None", who: dict[str, Any], asked_at: float, claimed: _Claimed | None
    ) -> None:
        self._who = who
        self._claimed = claimed
        # A span wants the time of day, but the elapsed time is known by the monotonic clock.
        self._began = time.time_ns() - round((time.monotonic() - asked_at) * 1e9)
        self._span = NOTHING
        with _quietly:
            if trace is not None:
                attributes = who if claimed is None else {**who, "fence": claimed.fence}
                self._span = _Recorded(trace, "hit", attributes, str, **_place(trace), start_time=self._began)

    def __enter__(self) -> Self:
        self._span.__enter__()
        if self._claimed is not None and isinstance(self._span, _Recorded):
            claimed = self._claimed
            asked = {"acquired": claimed.acquired, "reason": claimed.reason}
            with _Recorded(self._span._trace, "acquire", asked, str, start_time=self._began) as acquire:
                if claimed.reason == SkipReason.SCHEDULE_READ_ERROR:
                    acquire.fail("the schedule could not be read: the log says why")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._span.__exit__(kind, error, trace)

    def ends(self, outcome: Outcome) -> Outcome:
        ended = "skipped" if outcome.skipped is not None else outcome.status or "unknown"
        reason = outcome.skipped or outcome.failed
        self._span.note(outcome=ended, reason=reason, **outcome.counts._asdict())
        if outcome.failed is not None:
            self._span.fail(outcome.error or "")
        with _quietly:
            if _METRICS in sys.modules:
                self._count(outcome, {"action": self._who["action"], "outcome": ended, "reason": reason})
        return outcome

    def _count(self, outcome: Outcome, how: dict[str, Any]) -> None:
        hits, durations = _once(sys.modules[_METRICS].get_meter_provider(), _instruments)
        attributes = _attributes_of(how, str)
        hits.add(1, attributes)
        if outcome.skipped is None:
            durations.record(outcome.duration_ms / 1000, attributes)


def _instruments(provider: Any) -> tuple[Any, Any]:
    meter = provider.get_meter(_SCOPE)
    return (
        meter.create_counter("cronlease.hits", unit="{hit}", description="Hits, by how they ended"),
        meter.create_histogram("cronlease.run.duration", unit="s", description="How long real runs took"),
    )


def _place(trace: "ModuleType") -> dict[str, Any]:
    """Nothing below a current span, such as an instrumented server's; else the context that the request names."""
    if trace.get_current_span().get_span_context().is_valid or not logs.headers.get():
        return {}
    from opentelemetry import propagate

    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in logs.headers.get()}
    context = propagate.extract(given)
    if not trace.get_current_span(context).get_span_context().is_valid and (named := logs.incoming_trace()):
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if named.sampled else trace.TraceFlags.DEFAULT)
        remote = trace.SpanContext(int(named.trace, 16), int(named.span, 16), is_remote=True, trace_flags=flags)
        context = trace.set_span_in_context(trace.NonRecordingSpan(remote), context)
    return {"context": context, "kind": trace.SpanKind.SERVER}
