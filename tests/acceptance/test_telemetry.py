"""OpenTelemetry in the function as it is deployed: where the user sets it up, and where it is not installed."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import Serve
from tests.integration.conftest import Room

TRACED = Path(__file__).with_name("traced.py")
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_hits_over_http_are_spans_below_the_callers(serve: Serve, room: Room, tmp_path: Path) -> None:
    file = tmp_path / "spans"
    served = serve(room.dsn, source=TRACED, CRONLEASE_TEST_SPANS=str(file))
    parent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    answers = [
        served.hit(headers=parent).json(),
        served.hit(headers=parent).json(),
        served.hit(headers=parent | {"X-Cronlease-Spawned": "1"}).json(),
    ]
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}
    assert [span["name"] for span in spans] == ["acquire", "part", "finish", "hit", "acquire", "hit", "hit"]
    hits = [span for span in spans if span["name"] == "hit"]
    assert {span["parent_id"] for span in hits} == {f"0x{SPAN}"}

    def told(span: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(span["attributes"].get(f"cronlease.{name}") for name in ("request_id", "outcome", "reason"))

    ends = [("success", None), ("skipped", "not_due"), ("skipped", "spawned")]
    assert [told(span) for span in hits] == [
        (answer["request_id"], *end) for answer, end in zip(answers, ends, strict=True)
    ]


def test_without_the_package_nothing_is_missed(serve: Serve, room: Room) -> None:
    served = serve(room.dsn, source=TRACED)
    ran = served.hit(headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}).json()
    assert (ran["status"], ran["hint"]) == ("success", "[]")
    assert served.hit().json()["reason"] == "not_due"
    failed = served.force(fail="no")
    assert (failed["reason"], failed["error"]) == ("failed", "ValueError: no")
    assert "telemetry" not in served.log_file.read_text()
