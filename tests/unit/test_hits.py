"""What each trigger sends, read into a Hit: recorded headers, and events that the CloudEvents SDK itself has made."""

import asyncio
import base64
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent

from cronlease.job import Hit, Job
from cronlease.observe import logs
from cronlease.settings import load
from cronlease.triggers.aws_lambda import _hit as hit_of_event
from cronlease.triggers.aws_lambda import aws_lambda
from cronlease.triggers.request import Refused, place, read_hit

# As Pub/Sub pushes it.
PUSH = {
    "message": {
        "attributes": {"key": "value"},
        "data": base64.b64encode(b'{"shop": 7}').decode(),
        "messageId": "2070443601311540",
        "message_id": "2070443601311540",
        "publishTime": "2026-02-26T19:13:55.749Z",
    },
    "subscription": "projects/my-project/subscriptions/my-subscription",
}
SUBSCRIPTION = "projects/my-project/subscriptions/my-subscription"
TOPIC = {
    "type": "google.cloud.pubsub.topic.v1.messagePublished",
    "source": "//pubsub.googleapis.com/projects/my-project/topics/my-topic",
    "id": "2070443601311540",
}


def read(body: bytes | str = b"", *, method: str = "POST", **headers: str) -> Hit:
    raw = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method,
        "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()]
        + [(b"content-length", str(len(raw)).encode())],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    return asyncio.run(read_hit(scope, receive))


def test_cloud_scheduler_delivers_a_slot_of_a_job_named_in_utc() -> None:
    headers = {
        "User_Agent": "Google-Cloud-Scheduler",
        "X_CloudScheduler": "true",
        "X_CloudScheduler_JobName": "refresh",
        "X_CloudScheduler_ScheduleTime": "2026-11-16T13:00:00+01:00",
        # A person has set this one for the job: it is the same for each slot.
        "X_Cronlease_Delivery": "mine",
    }
    hit = read('{"args": {"a": 1}}', **headers)
    assert hit == Hit(
        "cloud_scheduler",
        "refresh",
        "2026-11-16T13:00:00+01:00",
        args={"a": 1},
        delivery="refresh 2026-11-16T12:00:00.000000Z",
        delivery_at=datetime(2026, 11, 16, 12, tzinfo=UTC),
    )
    del headers["X_CloudScheduler_ScheduleTime"]
    assert read(**headers).delivery is None


@pytest.mark.parametrize("slot", ["", "soon", "2026-11-16T12:00:00", "9999-12-31T23:59:59-23:00", None])
def test_a_slot_that_is_no_time_names_no_delivery(slot: str | None) -> None:
    stream = io.StringIO()
    logs.configure("INFO", stream)
    hit = Hit.of_slot("cloud_scheduler", "refresh", slot)
    said = [json.loads(line)["severity"] for line in stream.getvalue().splitlines()]
    assert said == (["WARNING"] if slot else [])
    assert (hit.schedule_time, hit.delivery, hit.delivery_at) == (slot, None, None)


def test_a_recipe_names_its_delivery_in_a_header() -> None:
    assert read(X_Cronlease_Delivery="nightly 17") == Hit("http", delivery="nightly 17")
    assert read() == Hit("manual")
    assert read(X_Cronlease_Delivery="") == Hit("manual")
    with pytest.raises(Refused, match="at most 500"):
        read(X_Cronlease_Delivery="x" * 501)


def test_pub_sub_pushes_its_message_in_an_envelope() -> None:
    expected = Hit("pubsub", SUBSCRIPTION, args={"shop": 7}, delivery="2070443601311540")
    assert read(json.dumps(PUSH)) == expected
    empty = {"message": {"messageId": "1", "publishTime": "2026-02-26T19:13:55Z"}, "subscription": SUBSCRIPTION}
    assert read(json.dumps(empty)) == Hit("pubsub", SUBSCRIPTION, delivery="1")


def test_pub_sub_pushes_its_message_unwrapped() -> None:
    headers = {"x_goog_pubsub_message_id": "17", "x_goog_pubsub_subscription_name": SUBSCRIPTION}
    assert read('{"shop": 7}', **headers) == Hit("pubsub", SUBSCRIPTION, args={"shop": 7}, delivery="17")


@pytest.mark.parametrize("send", [to_binary, to_structured])
def test_cloud_events_come_in_both_forms(send: Any) -> None:
    """Of Pub/Sub by way of Eventarc, and of anybody else: the same message has the same name in each form."""
    headers, body = send(CloudEvent(TOPIC, PUSH))
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    assert read(body, **named) == Hit("pubsub", SUBSCRIPTION, args={"shop": 7}, delivery="2070443601311540")
    own = CloudEvent({"type": "com.example.shop", "source": "/shops", "id": "A-17"}, {"shop": 7})
    headers, body = send(own)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    assert read(body, **named) == Hit("cloud_event", "/shops", args={"shop": 7}, delivery="/shops A-17")


def test_a_cloud_event_may_carry_its_data_as_bytes_or_none() -> None:
    event = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1"}
    encoded = base64.b64encode(b'{"a": 1}').decode()
    assert read(json.dumps({**event, "data_base64": encoded})).args == {"a": 1}
    assert read(json.dumps(event)) == Hit("cloud_event", "/s", delivery="/s 1")
    assert read(b"", ce_specversion="1.0", ce_id="1", ce_source="/s", ce_type="t") == Hit(
        "cloud_event", "/s", delivery="/s 1"
    )


def message(**fields: Any) -> str:
    return json.dumps({"message": {"messageId": "1", **fields}, "subscription": SUBSCRIPTION})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"message": 7}', "message must be an object"),
        ('{"message": {}}', "messageId"),
        (message(messageId=17), "messageId"),
        (message(messageId="a\0b"), "NUL"),
        (message(messageId="x" * 501), "at most 500"),
        (message(data=7), "in base64"),
        (message(data="%%%"), "not base64"),
        (message(data=base64.b64encode(b"run").decode()), "not JSON"),
        (message(data=base64.b64encode(b"\xff").decode()), "not UTF-8"),
        (message(data=base64.b64encode(b"[1]").decode()), "must be a JSON object"),
        (message(data=base64.b64encode(b'{"a": "\\u0000"}').decode()), "NUL"),
        (message(data=base64.b64encode(b"[" * 20_000).decode()), "nested too deep"),
        ('{"specversion": "1.0", "id": "1"}', "a source and an id"),
        ('{"specversion": "1.0", "id": 1, "source": []}', "a source and an id"),
    ],
)
def test_an_event_that_cannot_be_used_is_refused_in_a_sentence(body: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        read(body)
    assert refused.value.http_status == 400


def test_vercel_sends_a_get_and_names_its_schedule() -> None:
    assert read(method="GET", User_Agent="vercel-cron/1.0") == Hit("vercel")
    assert read(method="GET", x_vercel_cron_schedule="0 5 * * *") == Hit("vercel", "0 5 * * *")


def of_slot(schedule: str) -> Hit:
    at = datetime(2026, 3, 22, 18, 59, 43, tzinfo=UTC)
    named = f"{schedule} 2026-03-22T18:59:43.000000Z"
    return Hit("eventbridge", schedule, "2026-03-22T18:59:43Z", delivery=named, delivery_at=at)


ARN = "arn:aws:scheduler:eu-west-1:1:schedule/default/tick"
RULE = "arn:aws:events:eu-west-1:1:rule/tick"


@pytest.mark.parametrize(
    ("event", "hit"),
    [
        (None, Hit()),
        ({}, Hit()),
        ({"force": True, "args": {"a": 1}}, Hit(force=True, args={"a": 1})),
        (
            {"scheduled_time": "2026-03-22T18:59:43Z", "schedule_arn": ARN},
            of_slot(ARN),
        ),
        (
            {"scheduled_time": "2026-03-22T18:59:43Z"},
            of_slot("eventbridge"),
        ),
        (
            {"detail-type": "Scheduled Event", "id": "7", "time": "2026-03-22T18:59:43Z", "resources": [RULE]},
            of_slot(RULE),
        ),
        (
            {"detail-type": "Object Created", "id": "7", "time": "2026-03-22T18:59:43Z", "detail": {"key": "a"}},
            Hit("eventbridge", args={"key": "a"}, delivery="7"),
        ),
        # What Scheduler sends where no input is set has its detail as a text.
        (
            {
                "detail-type": "Scheduled Event",
                "source": "aws.scheduler",
                "time": "2026-03-22T18:59:43Z",
                "resources": [ARN],
                "detail": "{}",
            },
            of_slot(ARN),
        ),
    ],
)
def test_an_event_of_aws_is_read_into_a_hit(event: Any, hit: Hit) -> None:
    assert hit_of_event(event) == hit


@pytest.mark.parametrize("event", ["text", {"other": 1}, {"force": 1}, {"args": []}, {"args": {"a": float("nan")}}])
def test_an_event_of_aws_that_is_not_ours_is_an_error(event: Any) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        hit_of_event(event)


def test_a_handler_of_aws_without_a_context_says_what_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")

    def tick(_run: Any) -> None: ...

    tick.job = Job.of(tick, load())  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"the context is None: pass Lambda's"):
        aws_lambda(tick)({}, None)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({"path": "/"}, ("", "/")),
        ({"path": "/tick/"}, ("", "/tick")),
        ({"path": "/cron/tick", "root_path": "/cron"}, ("/cron", "/tick")),
        ({"path": "/cron", "root_path": "/cron"}, ("/cron", "/")),
        ({"path": "/cronies", "root_path": "/cron"}, ("/cron", "/cronies")),
        ({"path": "/tick", "root_path": "/cron/"}, ("/cron", "/tick")),
        ({"path": "/tick/", "raw_path": b"/cron/tick"}, ("/cron", "/tick")),
        ({"path": "/", "raw_path": b"/cron/"}, ("/cron", "/")),
        ({"path": "/a b", "raw_path": b"/a%20b"}, ("", "/a b")),
    ],
)
def test_the_mount_path_is_found_however_a_host_tells_it(scope: dict[str, Any], found: tuple[str, str]) -> None:
    assert place(scope) == found
