"""Sends requests to a decorated function in this process."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from cronlease.triggers.http import HttpTrigger


class Client:
    """A function behind its HTTP trigger, without a server. `hit` returns the body, with the status as `http_status`.
    Several threads may use it at the same time."""

    def __init__(self, trigger: "HttpTrigger", portal: "BlockingPortal") -> None:
        self._trigger = trigger
        self._portal = portal

    def hit(
        self,
        *,
        force: bool | None = None,
        args: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        slot: datetime | None = None,
        path: str = "/",
        method: str = "POST",
    ) -> dict[str, Any]:
        """The function's answer to a caller on this machine. `headers` may be those of Cloud Scheduler. With a slot
        the function runs now, for that slot: its window begins at the last slot that succeeded."""
        import json

        if slot is not None:
            if not isinstance(slot, datetime) or slot.tzinfo is None:
                raise ValueError("slot is a datetime with a time zone: write datetime(..., tzinfo=timezone.utc)")
            force = True
        given = {name: value for name, value in (("force", force), ("args", args)) if value is not None}
        body = json.dumps(given).encode() if given else b""
        raw = [
            (name.lower().encode(), value.encode())
            for name, value in {"Host": "localhost", **(headers or {})}.items()
        ]
        raw += [(b"content-length", str(len(body)).encode())]
        return self._portal.call(self._answer, {"path": path, "method": method, "headers": raw}, body, slot)

    async def _answer(self, scope: dict[str, Any], body: bytes, slot: datetime | None) -> dict[str, Any]:
        import json

        from cronlease.run.execution import given_slot

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        whole = {"type": "http", "http_version": "1.1", "query_string": b"", "server": ("testserver", 80), **scope}
        whole["client"] = ("127.0.0.1", 0)
        given_slot.set(slot)
        answer = await self._trigger.answer(whole, receive)
        return {**json.loads(answer.body), "http_status": answer.status}
