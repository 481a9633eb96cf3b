"""OpenTelemetry: what a real provider gets of real hits, and that this never harms a hit."""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from cronlease import Run, schedule_action
from cronlease.db.connection import Database
from cronlease.job import Job
from cronlease.observe import logs, telemetry
from cronlease.outcome import FailReason, SkipReason, Status
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from opening_signals.job import refresh
from tests.integration.boards import Feeds, answer, board, job, served
from tests.integration.conftest import Room


class Collector:
    """A provider of each kind as a function would set them up, and what they were told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.metering = MeterProvider([self._reader])

    def spans(self) -> list[ReadableSpan]:
        """In the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def points(self, name: str) -> dict[tuple[Any, ...], Any]:
        """By action, outcome and reason."""
        data = self._reader.get_metrics_data()
        assert data is not None
        found = [
            each
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == name
        ]
        keys = ("cronlease.action", "cronlease.outcome", "cronlease.reason")
        return {
            tuple((point.attributes or {}).get(key) for key in keys): point
            for metric in found
            for point in metric.data.data_points
        }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    """In place of the global providers, which a process can have only once."""
    made = Collector()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.tracing)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: made.metering)
    return made


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feeds]:
    yield from served(tmp_path, monkeypatch)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("cronlease."): value for name, value in (span.attributes or {}).items()}


def came_with(**headers: str) -> None:
    logs.headers.set([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()])


@pytest.fixture(autouse=True)
def without_headers() -> Iterator[None]:
    token = logs.headers.set(())
    yield
    logs.headers.reset(token)


async def nothing(run: Run) -> None: ...


def test_a_run_of_the_job_is_a_tree_of_spans(room: Room, feeds: Feeds, collector: Collector) -> None:
    feeds.serve(good=board(job(1), job(2)), bad=answer(b"no", 404))
    outcome = room.enter(refresh)
    assert outcome.status is Status.PARTIAL
    (hit,) = collector.named("hit")
    assert hit.parent is None
    assert [span.name for span in collector.spans()] == ["acquire", *["fetch"] * 2, "merge", "finish", "hit"]
    assert all(span.parent == hit.context for span in collector.spans()[:-1])
    assert attributes(hit) == {
        "function": "tick",
        "action": "tick",
        "request_id": str(outcome.request_id),
        "trigger": "manual",
        "fence": 1,
        "outcome": "partial",
        "fetched": 2,
        "inserted": 2,
        "updated": 0,
        "unchanged": 0,
        "closed": 0,
    }
    fetched = {attributes(span)["source"]: span for span in collector.named("fetch")}
    good, bad = attributes(fetched["good"]), fetched["bad"]
    assert (good["http_status"], good["items"], good["pages"], good["kind"]) == (200, 2, 1, "greenhouse")
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "answered 404")
    # Acquired first of all, and before anything was fetched.
    (acquire,) = collector.named("acquire")
    assert acquire.start_time == hit.start_time
    assert (acquire.end_time or 0) <= min(span.start_time or 0 for span in fetched.values())
    assert (acquire.end_time or 0) - (acquire.start_time or 0) > 100_000


def test_a_skip_is_two_spans_and_one_count(room: Room, collector: Collector) -> None:
    room.enter(nothing)
    room.enter(nothing)
    room.enter(nothing)
    assert Room("host=127.0.0.1 port=1").enter(nothing).skipped is SkipReason.SCHEDULE_READ_ERROR
    hits = {key: point.value for key, point in collector.points("cronlease.hits").items()}
    assert hits == {
        ("tick", "success", None): 1,
        ("tick", "skipped", "not_due"): 2,
        ("tick", "skipped", "schedule_read_error"): 1,
    }
    assert {key: point.count for key, point in collector.points("cronlease.run.duration").items()} == {
        ("tick", "success", None): 1
    }
    names = [span.name for span in collector.spans()]
    assert names == ["acquire", "finish", "hit", *["acquire", "hit"] * 3]
    assert [attributes(span).get("reason") for span in collector.named("hit")[1:]] == [
        "not_due",
        "not_due",
        "schedule_read_error",
    ]
    broken = collector.named("acquire")[-1].status
    assert (broken.status_code, broken.description) == (
        StatusCode.ERROR,
        "the schedule could not be read: the log says why",
    )


def test_an_error_is_reported_without_its_secrets(room: Room, collector: Collector) -> None:
    secret = "no way to http://me:hunter22@127.0.0.1/?key=hunter22"

    def fail(run: Run) -> None:
        with run.span("ask", where="http://me:hunter22@127.0.0.1/", tries=3, left=None):
            raise ValueError(secret)

    outcome = room.enter(fail)
    assert outcome.failed is FailReason.FAILED
    (asked,), (hit,) = collector.named("ask"), collector.named("hit")
    assert asked.parent == hit.context
    assert attributes(asked) == {"where": "http://***@127.0.0.1/", "tries": 3}
    said = "no way to http://***@127.0.0.1/?***"
    assert [(event.name, dict(event.attributes or {})) for event in asked.events] == [
        ("exception", {"exception.type": "ValueError", "exception.message": said})
    ]
    for span in (asked, hit):
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, f"ValueError: {said}")
    assert (attributes(hit)["outcome"], attributes(hit)["reason"]) == ("failed", "failed")
    assert "hunter22" not in "".join(span.to_json() for span in collector.spans())
    assert list(collector.points("cronlease.hits")) == [("tick", "failed", "failed")]


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": f"00-{TRACE}-{SPAN}-01"},
        {"x_cloud_trace_context": f"{TRACE}/{int(SPAN, 16)};o=1"},
        {"traceparent": "nonsense", "x_cloud_trace_context": f"{TRACE}/{int(SPAN, 16)};o=1"},
    ],
)
def test_a_hit_is_a_child_of_the_span_that_its_request_names(
    room: Room, collector: Collector, headers: dict[str, str]
) -> None:
    came_with(**headers)
    room.enter(nothing)
    (hit,) = collector.named("hit")
    assert hit.parent is not None
    assert (f"{hit.parent.trace_id:032x}", f"{hit.parent.span_id:016x}", hit.parent.is_remote) == (TRACE, SPAN, True)
    assert hit.kind is trace.SpanKind.SERVER


@pytest.mark.parametrize("headers", [{}, {"traceparent": "nonsense"}, {"x_cloud_trace_context": f"{TRACE}/0;o=1"}])
def test_a_hit_without_a_usable_trace_begins_one(room: Room, collector: Collector, headers: dict[str, str]) -> None:
    came_with(**headers)
    room.enter(nothing)
    assert collector.named("hit")[0].parent is None


def test_within_an_instrumented_server_a_hit_belongs_to_its_span(room: Room, collector: Collector) -> None:
    came_with(traceparent=f"00-{TRACE}-{SPAN}-01")
    with collector.tracing.get_tracer("server").start_as_current_span("POST /") as outer:
        room.enter(nothing)
    (hit,) = collector.named("hit")
    assert hit.parent == outer.get_span_context()


def test_run_due_tells_of_each_row_and_not_of_its_looks_for_more(room: Room, collector: Collector) -> None:
    settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s"})
    jobs = {"note": Job.of(nothing, settings, name="note", has_row=False)}
    with psycopg.connect(room.dsn, autocommit=True) as conn:
        for name in ("one", "two"):
            schedule_action(conn, name, "note", delay=timedelta(0))

    async def run_due() -> None:
        database = Database(room.dsn)
        try:
            assert len((await Dispatcher(jobs, database, settings).run_due()).ran) == 2
        finally:
            await database.close()

    asyncio.run(run_due())
    told = [attributes(span) for span in collector.named("hit")]
    assert [(each["function"], each["action"], each["trigger"]) for each in told] == [
        ("one", "note", "run_due"),
        ("two", "note", "run_due"),
    ]
    assert [span.name for span in collector.spans()] == ["acquire", "finish", "hit"] * 2
    # Rows may be many: what is counted by is the function that ran.
    assert {key: point.value for key, point in collector.points("cronlease.hits").items()} == {
        ("note", "success", None): 2
    }


def test_the_pieces_of_a_plain_job_and_of_its_threads_belong_to_the_hit(room: Room, collector: Collector) -> None:
    def elsewhere(run: Run) -> None:
        with run.span("elsewhere"), run.span("below"):
            pass

    def work(run: Run) -> None:
        with run.transaction():
            pass
        with run.span("outer"), ThreadPoolExecutor() as pool:
            pool.submit(elsewhere, run).result()
        with run.commit():
            pass

    assert room.enter(work).status is Status.SUCCESS
    of = {span.context.span_id: span.name for span in collector.spans() if span.context}
    assert [(span.name, of[span.parent.span_id]) for span in collector.spans() if span.parent] == [
        ("acquire", "hit"),
        ("commit", "hit"),
        ("below", "elsewhere"),
        ("elsewhere", "hit"),
        ("outer", "hit"),
        ("finish", "hit"),
    ]


class Broken(SpanProcessor):
    def on_start(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("no start")

    def on_end(self, *_: Any) -> None:
        raise RuntimeError("no end")


def test_a_provider_that_is_broken_costs_no_run_and_no_lease(
    room: Room, collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def commit(run: Run) -> None:
        with run.span("part") as part:
            part.note(items=1)
            async with run.commit():
                pass

    caplog.set_level(logging.WARNING)
    collector.tracing.add_span_processor(Broken())
    assert room.enter(commit).status is Status.SUCCESS
    assert room.runs() == ["success"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "which does not affect the run: RuntimeError" in caplog.text


def test_counters_work_without_tracing_and_nothing_is_told_before_a_provider_is_there(
    room: Room, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = trace.ProxyTracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: proxy)
    seen: list[bool] = []

    async def look(run: Run) -> None:
        with run.span("part") as part:
            seen.append(part is not telemetry.NOTHING)

    room.enter(look)
    assert seen == [False]
    assert collector.spans() == []
    assert list(collector.points("cronlease.hits")) == [("tick", "success", None)]
    # Set up after the first hit: it is used from then on.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: collector.tracing)
    room.enter(look, force=True)
    assert seen == [False, True]
