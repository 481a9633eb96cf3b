"""Spans and counters, through the API of OpenTelemetry. Knows nothing of its SDK or of who exports them.

Nothing of it is imported before somebody else has: whoever sets up a provider has loaded the API, and without a
provider there is nobody to tell. So a function that does not use it pays for a look at sys.modules.
"""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import UUID

from cronlease.observe import logs
from cronlease.observe.redact import storable
from cronlease.observe.spans import NOTHING, SCOPE, TRACE, Recorded, Span, attributes_of, once, quietly, tracing
from cronlease.outcome import Outcome, SkipReason

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["NOTHING", "Span", "here", "hit", "skipped", "span"]

_METRICS = "opentelemetry.metrics"


def here() -> Any:
    """The place of the current span, for threads that do not know it; None where nobody has set up tracing."""
    if tracing() is None:
        return None
    from opentelemetry import context

    return context.get_current()


def span(name: str, attributes: Mapping[str, object] | None = None, place: Any = None) -> Span:
    """A span below the current one, or at that place where there is none, and within its block the current one;
    NOTHING where nobody has set up tracing."""
    trace = tracing()
    if trace is None:
        return NOTHING
    lost = place is not None and not trace.get_current_span().get_span_context().is_valid
    return Recorded(trace, name, attributes or {}, storable, **({"context": place} if lost else {}))


class Claimed(Protocol):
    """The answer to a claim, as far as it is told."""

    @property
    def acquired(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def fence(self) -> int | None: ...
    @property
    def action(self) -> str | None: ...


def hit(
    function: str,
    request_id: UUID,
    trigger: str | None,
    asked_at: float,
    claimed: "Claimed | None" = None,
    action: str = "",
) -> Span:
    """The span of a hit that asked for the lease at asked_at, on the monotonic clock, and has just got this answer:
    made afterwards, so that a look for something due that finds nothing leaves no trace. Its `ends` also counts."""
    if TRACE not in sys.modules and _METRICS not in sys.modules:
        return NOTHING
    action = (claimed and claimed.action) or action or function
    who = {"function": function, "action": action, "request_id": request_id, "trigger": trigger}
    return _Hit(tracing(), who, asked_at, claimed)


def skipped(outcome: Outcome) -> Outcome:
    """A hit that was turned away before it could ask."""
    with hit(outcome.function, outcome.request_id, None, time.monotonic()) as span:
        return span.ends(outcome)


class _Hit(Span):
    def __init__(
        self, trace: "ModuleType | None", who: dict[str, Any], asked_at: float, claimed: "Claimed | None"
    ) -> None:
        self._who = who
        self._claimed = claimed
        # What it cost since then is known on a clock that nobody sets; a span wants the time of day.
        self._began = time.time_ns() - round((time.monotonic() - asked_at) * 1e9)
        self._span = NOTHING
        with quietly:
            if trace is not None:
                attributes = who if claimed is None else {**who, "fence": claimed.fence}
                self._span = Recorded(trace, "hit", attributes, str, **_place(trace), start_time=self._began)

    def __enter__(self) -> Self:
        self._span.__enter__()
        if self._claimed is not None and isinstance(self._span, Recorded):
            claimed = self._claimed
            asked = {"acquired": claimed.acquired, "reason": claimed.reason}
            with Recorded(self._span._trace, "acquire", asked, str, start_time=self._began) as acquire:
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
        with quietly:
            if _METRICS in sys.modules:
                self._count(outcome, {"action": self._who["action"], "outcome": ended, "reason": reason})
        return outcome

    def _count(self, outcome: Outcome, how: dict[str, Any]) -> None:
        hits, durations = once(sys.modules[_METRICS].get_meter_provider(), _instruments)
        attributes = attributes_of(how, str)
        hits.add(1, attributes)
        if outcome.skipped is None:
            durations.record(outcome.duration_ms / 1000, attributes)


def _instruments(provider: Any) -> tuple[Any, Any]:
    meter = provider.get_meter(SCOPE)
    return (
        meter.create_counter("cronlease.hits", unit="{hit}", description="Hits, by how they ended"),
        meter.create_histogram("cronlease.run.duration", unit="s", description="How long real runs took"),
    )


def _place(trace: "ModuleType") -> dict[str, Any]:
    """Below the current span, such as that of an instrumented server; else below the one the request names."""
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
