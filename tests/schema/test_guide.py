"""schema/README.md: its columns, functions, views and samples are those of a real database."""

import json
import re
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import Server
from tests.schema.calls import call, one

SCHEMA = Path(__file__).parents[2] / "schema"
GUIDE = (SCHEMA / "README.md").read_text()
TABLES = ("refresh_schedule", "refresh_runs", "refresh_alerts", "refresh_operations")
COLUMNS = """
select a.attname, replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz')
from pg_attribute a
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
"""
RELATIONS = """
select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = any (%s)
"""


def section(heading: str) -> str:
    """What stands under the heading, up to the next one that is not below it."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[2]


def table(text: str) -> dict[str, str]:
    """First cell, without its quotes -> second cell."""
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))


def samples() -> list[str]:
    return re.findall(r"^```sql\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_described_with_its_type(conn: psycopg.Connection, name: str) -> None:
    assert table(section(name)) == dict(conn.execute(COLUMNS, [name]).fetchall())


def test_every_table_is_named(conn: psycopg.Connection) -> None:
    named = {*TABLES, *re.findall(r"`(\w+)`", section("Other tables"))}
    there = {name for (name,) in conn.execute(RELATIONS, [["r"]])}
    assert {name for name in there - named if not name.startswith("opening_staging")} == set()


def test_every_view_is_described(conn: psycopg.Connection) -> None:
    described = table(section("Views"))
    assert described.keys() == {name for (name,) in conn.execute(RELATIONS, [["v"]])}
    granted = granted_to("select")
    assert described == {view: role for view, role in granted.items() if view in described}


def granted_to(what: str) -> dict[str, str]:
    """What roles.sql grants: name -> for whom, as the guide writes it."""
    found: dict[str, list[str]] = {}
    text = "".join((SCHEMA / package / "roles.sql").read_text() for package in ("cronlease", "opening_signals"))
    for names, role in re.findall(rf"^grant {what}\b(.*?)\bto cronlease_(\w+);", text, re.MULTILINE | re.DOTALL):
        for name in re.findall(r"public\.(\w+)", names):
            found.setdefault(name, []).append(role)
    return {name: ", ".join(sorted(roles, reverse=True)) for name, roles in found.items()}


def test_every_function_is_described_for_whom_it_is_granted_to(conn: psycopg.Connection) -> None:
    files = (SCHEMA / "cronlease" / "functions").glob("*.sql")
    made = {file.stem for file in files if "create or replace function" in file.read_text()}
    text = section("Functions")
    described, parts = table(text), set(re.findall(r"`(\w+)`", text[text.index("The others are parts") :]))
    assert described.keys() | (parts & made) == made
    granted = granted_to("execute on function")
    assert {name: who for name, who in described.items() if who != "owner"} == {
        name: who for name, who in granted.items() if name in made
    }
    assert not {name for name, who in described.items() if who == "owner"} & granted.keys()
    assert made <= {name for (name,) in conn.execute("select proname from pg_proc")}


def test_every_error_code_is_explained() -> None:
    raised = {
        code
        for file in (SCHEMA / "cronlease" / "functions").glob("*.sql")
        for code in re.findall(r"errcode = '(CL\d+)'", file.read_text())
    }
    assert {code for code in table(section("Error codes")) if code.startswith("CL")} == raised


def test_the_states_are_those_of_the_view(conn: psycopg.Connection) -> None:
    text = one(conn, "select pg_get_viewdef('refresh_status'::regclass)")
    derived = set(re.findall(r"(?:THEN|ELSE) '(\w+)'", text))
    states = re.findall(r"^\| `(\w+)` \| [^|]* \|$", section("A look at the schedules"), re.MULTILINE)
    assert len(states) == 7
    assert set(states) == derived


def test_the_look_at_the_schedules_is_a_question_that_works(conn: psycopg.Connection) -> None:
    (question, heading) = re.findall(r"^=> (select .*;)\n(.*)$", GUIDE, re.MULTILINE)[0]
    answer = conn.execute(question)
    assert answer.description is not None
    assert [column.name for column in answer.description] == [word.strip() for word in heading.split("|")]


def test_the_samples_run_in_their_order(conn: psycopg.Connection) -> None:
    ours = [sample for sample in samples() if "tenant_a" not in sample]
    assert len(ours) >= 4
    for sample in ours:
        conn.execute(sample)
    assert one(conn, "select last_status from refresh_schedule where function_name = 'refresh_prices'") == "success"
    assert one(conn, "select count(*) from refresh_schedule where action = 'send_report'") == 2


def test_the_sample_for_another_schema_runs_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_SCHEMA", "tenant_a")
    name = server.migrated()
    (sample,) = [sample for sample in samples() if "tenant_a" in sample]
    with psycopg.connect(server.url(name), autocommit=True) as conn:
        conn.execute("select tenant_a.ensure_schedule(p_function_name => 'refresh_prices')")
        assert (conn.execute(sample).fetchone() or [None])[0] is True
        keys = {
            purpose: one(conn, f"select tenant_a.refresh_lock_key('{purpose}')") for purpose in ("claim", "write")
        }
    assert all(abs(key) > 5 for key in keys.values())
    server.drop(name)


def test_the_keys_of_advisory_locks_are_as_documented(conn: psycopg.Connection) -> None:
    (told,) = re.findall(r"^\| first key of advisory locks \| (.*?) \|", GUIDE, re.MULTILINE)
    for key, purpose in re.findall(r"(\d) (\w+)", told):
        assert call(conn, "refresh_lock_key", purpose=purpose)[0] == int(key)
    assert told.count(",") == 5


def test_the_call_over_the_rest_api_is_one_that_the_function_takes(conn: psycopg.Connection) -> None:
    (name, body) = re.findall(r"/rpc/(\w+)\".*?-d '(\{.*?\})'$", GUIDE, re.MULTILINE | re.DOTALL)[0]
    given = json.loads(body.replace('"\'"$(uuidgen)"\'"', f'"{uuid4()}"'))
    conn.execute("select ensure_schedule(p_function_name => %s)", [given["p_function_name"]])
    assert call(conn, name, **{key.removeprefix("p_"): value for key, value in given.items()}).acquired
