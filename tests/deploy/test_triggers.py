"""deploy/triggers.md and the guide of the triggers: each block can be read by its language, and the hit is sent."""

import ast
import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

import cronlease
from tests.acceptance.conftest import JOBS, Serve, clean_environment
from tests.acceptance.conftest import serve as serve
from tests.acceptance.test_exec import FENCED
from tests.deploy.jobs import DEPLOY
from tests.deploy.test_kubernetes import NEWEST, OLDEST
from tests.integration.conftest import Room
from tests.require import need, need_package

RECIPES = (DEPLOY / "triggers.md").read_text()
GUIDE = (Path(cronlease.__file__).parent / "triggers" / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", RECIPES + GUIDE, re.MULTILINE | re.DOTALL)


def test_each_block_can_be_read_by_its_language(dsn: str) -> None:
    schedule, vercel = map(json.loads, blocks("json"))
    assert set(json.loads(schedule["Target"]["Input"])) == {"schedule_arn", "scheduled_time"}
    assert vercel["crons"][0]["path"] == "/refresh_prices"
    assert [ast.parse(block) for block in blocks("python") if "async with" not in block]
    for block in blocks("sh"):
        subprocess.run(["sh", "-n"], input=block, text=True, check=True)
    (sql,) = blocks("sql")
    (inner,) = re.findall(r"\$\$(.*)\$\$", sql, re.DOTALL)
    with psycopg.connect(dsn) as conn:
        for text in (sql, f"{inner};"):
            # PL/pgSQL parses a statement that it never comes to; the functions need not be there.
            conn.execute(f"do $outer$ begin if false then {text} end if; end $outer$")
        with pytest.raises(psycopg.errors.SyntaxError):
            conn.execute("do $outer$ begin if false then selec 1; end if; end $outer$")


def test_the_yaml_is_a_workflow_and_a_cron_job_that_send_the_hit() -> None:
    need_package("yaml")
    need_package("kubernetes_validate")
    load: Any = importlib.import_module("yaml").safe_load
    workflow, cron_job = map(load, blocks("yaml"))
    (hit,) = re.findall(r"<!-- the hit -->\n```sh\n(.*?)```", RECIPES, re.DOTALL)
    assert workflow["jobs"]["hit"]["steps"][0]["run"].split() == hit.split()
    for version in (OLDEST, NEWEST):
        importlib.import_module("kubernetes_validate").validate(cron_job, version, strict=True)
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    # A Job has retries of its own.
    assert container["args"][0].split() == hit.replace("--retry 3 --retry-all-errors", "").replace("\\\n", "").split()


def test_the_hit_runs_a_function_and_has_a_name(serve: Serve, room: Room) -> None:
    need("curl")
    room.query("create table effect (request_id uuid)")
    token = "a-token-of-the-recipe"
    served = serve(room.dsn, source=JOBS, CRONLEASE_AUTH="token", CRONLEASE_TOKEN=token)
    (hit,) = re.findall(r"<!-- the hit -->\n```sh\n(.*?)```", RECIPES, re.DOTALL)
    environment = clean_environment(CRONLEASE_URL=served.url, CRONLEASE_TOKEN=token, DELIVERY="tick 17")
    done = subprocess.run(["sh", "-c", hit], env=environment, capture_output=True, text=True, timeout=40)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "success"), done.stderr
    assert room.query("select trigger from refresh_runs") == [("http",)]


@pytest.fixture
def room(dsn: str) -> Room:
    return Room(dsn)


def test_the_guide_fences_psql_as_the_test_does() -> None:
    """tests/acceptance/test_exec.py runs it."""
    (shown,) = [block for block in blocks("sh") if "assert_lease" in block]
    both = [re.sub(r"insert into .*?;", "", text.replace(" --quiet", "")).split() for text in (shown, FENCED)]
    assert both[0] == both[1]
