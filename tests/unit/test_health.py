"""What /health/schedules remembers: however often an open path is asked, the database is rarely asked."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cronlease.errors import Unreachable
from cronlease.triggers import health
from cronlease.triggers.health import HealthCheck

WELL: dict[str, list[str]] = {"late": [], "failing": [], "breaker_open": []}
LIMIT = timedelta(seconds=10)


class Asked:
    """A database that counts how often it is asked; what it answers, or raises, is `answer`."""

    def __init__(self) -> None:
        self.times = 0
        self.answer: dict[str, list[str]] | Exception = WELL

    def get(self) -> "Asked":
        return self

    async def ask(self, _: Any) -> dict[str, list[str]]:
        self.times += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_it_asks_once_in_ten_seconds_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now[0]))
    asked = Asked()

    async def many() -> None:
        check = HealthCheck(cast("Any", asked), LIMIT)
        found = await asyncio.gather(*(check.read() for _ in range(50)))
        assert {each.http_status for each in found} == {200}
        asked.answer = {**WELL, "late": ["tick"]}
        now[0] += 10
        assert ((await check.read()).http_status, asked.times) == (200, 1)
        now[0] += 0.1
        assert ((await check.read()).http_status, asked.times) == (503, 2)

    asyncio.run(many())


@pytest.mark.parametrize("trouble", [Unreachable("no route"), TimeoutError()])
def test_that_it_could_not_be_read_is_remembered_too(trouble: Exception) -> None:
    asked = Asked()
    asked.answer = trouble

    async def twice() -> None:
        check = HealthCheck(cast("Any", asked), LIMIT)
        for _ in range(2):
            found = await check.read()
            assert found.as_json(with_names=True) == {"healthy": False, "reason": "schedule_read_error"}
            assert found.http_status == 503

    asyncio.run(twice())
    assert asked.times == 1
