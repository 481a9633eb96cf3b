"""A function that sets up OpenTelemetry as a user would, or one where it is not installed; CRONLEASE_TEST_SPANS, the
file that spans are written to, decides."""

import os
import sys
from pathlib import Path

from cronlease import Run, scheduled

if "CRONLEASE_TEST_SPANS" in os.environ:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    file = Path(os.environ["CRONLEASE_TEST_SPANS"]).open("a")  # noqa: SIM115 (as long as the process)
    exporter = ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
else:
    # What an import finds of a package that is not there.
    sys.modules["opentelemetry"] = None  # type: ignore[assignment]


@scheduled
def tick(run: Run) -> None:
    with run.span("part", number=1) as part:
        part.note(more="text")
    if "fail" in run.args:
        part.fail("it will")
        raise ValueError(run.args["fail"])
    with run.commit():
        run.report(hint=str([name for name in sys.modules if name.startswith("opentelemetry.")]))
