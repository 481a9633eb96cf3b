"""deploy/supabase/rest.sql, called as Supabase's REST API does: one transaction a request, as service_role, the
arguments by name from a JSON body."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Server
from tests.deploy.jobs import DEPLOY
from tests.deploy.test_supabase import OURS, Project, apply, new_project

RECIPE = (DEPLOY / "supabase" / "rest.sql").read_text()
# What PostgREST sends: the body's fields as arguments of the function, by their declared types.
TYPES = """
  select n.name, format_type(t.oid, null)
  from pg_proc p, unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes)) as n (name, type), pg_type t
  where p.pronamespace = 'public'::regnamespace and p.proname = %s and t.oid = n.type
"""
PRICES = "select name, price::float from public.prices order by name"
EXPIRE = "update public.refresh_schedule set locked_until = clock_timestamp() - interval '1 second'"
BREAD: list[dict[str, Any]] = [{"name": "bread", "price": 3.2}]


class Rest:
    def __init__(self, project: Project) -> None:
        self.admin = project.admin
        self.owner = project.owner

    def rpc(self, name: str, role: str = "service_role", **body: Any) -> dict[str, Any]:
        """POST /rest/v1/rpc/<name>."""
        types: dict[str, str] = dict(self.admin.execute(TYPES, [name]).fetchall())
        columns = sql.SQL(", ").join(sql.Identifier(key) + sql.SQL(" " + types[key]) for key in body)
        passed = sql.SQL(", ").join(sql.SQL("{0} => b.{0}").format(sql.Identifier(key)) for key in body)
        call = sql.SQL("select row_to_json(c) from json_to_record(%s) as b ({}), lateral public.{}({}) c")
        with self.admin.transaction():
            self.admin.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            statement = call.format(columns, sql.Identifier(name), passed)
            found: tuple[dict[str, Any]] | None = self.admin.execute(statement, [json.dumps(body)]).fetchone()
        assert found
        return found[0]

    def acquire(self, **more: Any) -> dict[str, Any]:
        request = {"p_request_id": str(uuid4()), "p_lease": "5 minutes", **more}
        claim = self.rpc("acquire_refresh_lock", p_function_name="refresh_prices", **request)
        return claim | {"id": request["p_request_id"]}

    def store(self, claim: dict[str, Any], rows: Any = BREAD, **more: Any) -> dict[str, Any]:
        return self.rpc("store_prices", p_request_id=claim["id"], p_fence=claim["fence"], p_rows=rows, **more)


@pytest.fixture
def rest(server: Server) -> Iterator[Rest]:
    """In a project of somebody else's function: it has no tables of openings."""
    with new_project(server, ["cronlease"]) as project:
        for text in (OURS, RECIPE):
            for _ in range(2):  # they may be run again
                apply(project.owner, text)
        yield Rest(project)


def test_a_run_over_rest_is_claimed_stored_and_finished(rest: Rest) -> None:
    claim = rest.acquire()
    assert (claim["acquired"], claim["reason"]) == (True, None)
    assert rest.acquire()["reason"] == "locked"
    answer = rest.store(claim, p_delay="1 hour")
    assert answer["status"] == "success"
    assert rest.acquire()["reason"] == "not_due"
    assert rest.owner.execute(PRICES).fetchall() == [("bread", 3.2)]
    found = rest.owner.execute("select status, fetched, inserted, updated, next_run_at > now() from refresh_runs")
    assert found.fetchall() == [("success", 1, 1, 0, True)]


def test_a_run_that_was_replaced_stores_nothing(rest: Rest) -> None:
    late = rest.acquire()
    rest.owner.execute(EXPIRE)
    current = rest.acquire()
    assert current["acquired"]
    with pytest.raises(psycopg.DatabaseError) as refused:
        rest.store(late)
    assert refused.value.sqlstate == "CL001"
    assert rest.owner.execute(PRICES).fetchall() == []
    assert rest.store(current, [{"name": "milk", "price": 1}])["status"] == "success"
    with pytest.raises(psycopg.DatabaseError, match="no longer holds the lease"):
        rest.store(late)
    assert rest.owner.execute(PRICES).fetchall() == [("milk", 1.0)]


def test_asked_again_it_answers_how_the_run_ended_and_writes_nothing(rest: Rest) -> None:
    claim = rest.acquire()
    first = rest.store(claim)
    rest.owner.execute("delete from public.prices")
    assert rest.store(claim) == first
    assert rest.owner.execute(PRICES).fetchall() == []
    assert rest.owner.execute("select run_count from refresh_schedule").fetchone() == (1,)


def test_rows_that_cannot_be_stored_leave_the_run_as_it_was(rest: Rest) -> None:
    claim = rest.acquire()
    with pytest.raises(psycopg.errors.NotNullViolation):
        rest.store(claim, [*BREAD, {"name": "milk"}])
    assert rest.owner.execute(PRICES).fetchall() == []
    assert rest.store(claim)["status"] == "success"


def test_only_service_role_may_call_it(rest: Rest) -> None:
    claim = rest.acquire()
    for role in ("anon", "authenticated"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rest.rpc("store_prices", role, p_request_id=claim["id"], p_fence=claim["fence"], p_rows=[])


def test_the_calls_of_the_guide_are_what_the_functions_take(rest: Rest) -> None:
    """In their order, with the ID and the fence of a real claim."""
    calls = re.findall(r"^rpc (\w+) \"(\{.*\})\"", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    assert [name for name, _ in calls] == ["acquire_refresh_lock", "store_prices", "finish_refresh_run"]
    claim = {"id": str(uuid4()), "fence": 1}
    for name, body in calls:
        filled = body.replace("\\", "").replace("$id", claim["id"]).replace("$fence", str(claim["fence"]))
        answer = rest.rpc(name, **json.loads(filled))
        claim |= {"fence": answer["fence"]} if "fence" in answer else {}
    assert rest.owner.execute("select last_status from refresh_schedule").fetchone() == ("success",)
