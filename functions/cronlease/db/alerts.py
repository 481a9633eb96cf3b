"""The queries for alerts and the breaker: the parameters of a finish, and what is to be delivered."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.db.queries import Query, array, call, first
from cronlease.db.schema import in_schema


def name_of(url: str) -> str:
    """What the database stores in place of a webhook's address, which is a secret."""
    from hashlib import sha256

    return sha256(url.encode()).hexdigest()[:16]


class Watch(NamedTuple):
    """How a function is watched where its row does not say: after how many failed runs its breaker opens, when a
    probe follows, how late it may be, and the names of the addresses that get its alerts."""

    pause_after: int | None = None
    probe: timedelta | None = None
    late_after: timedelta | None = None
    addresses: tuple[str, ...] = ()

    @property
    def params(self) -> dict[str, Any]:
        return {
            "p_pause_after": self.pause_after,
            "p_probe": self.probe,
            "p_late_after": self.late_after,
            "p_addresses": array(self.addresses) if self.addresses else None,
        }


def claim_refresh_alerts(addresses: Collection[str], holder: UUID) -> Query[list[dict[str, Any]]]:
    """The alerts to deliver to these addresses, in order; held for that holder."""
    params = {"p_addresses": array(tuple(addresses)), "p_holder": holder}
    return call("claim_refresh_alerts", params, first)


def settle_refresh_alerts(
    holder: UUID, *, delivered: Collection[int] = (), failed: Collection[int] = (), unsent: Collection[int] = ()
) -> Query[None]:
    became = {"p_delivered": delivered, "p_failed": failed, "p_unsent": unsent}
    params = {name: array(tuple(map(str, ids))) for name, ids in became.items()}
    return call("settle_refresh_alerts", {"p_holder": holder, **params}, lambda _: None)


def read_refresh_health() -> Query[dict[str, list[str]]]:
    """The names of the schedules that are late, failing, or stopped by their breaker."""
    return call("read_refresh_health", {}, first)


def has_schedule_table() -> Query[bool]:
    """Whether any version of cronlease was here."""
    text = "select pg_catalog.to_regclass('public.refresh_schedule') is not null"
    return Query(in_schema(text), {}, first)
