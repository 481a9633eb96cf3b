"""compose.yaml: against the published schema, and its login on a real server."""

import importlib
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.conftest import Server
from tests.deploy.jobs import DEPLOY
from tests.require import need, need_package, need_postgres

FILE = DEPLOY / "compose.yaml"


def test_it_obeys_the_published_schema(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("read_only", "readonly"))
    check = [need("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    ended = [subprocess.run([*check, str(file)], capture_output=True).returncode for file in (FILE, wrong)]
    assert ended == [0, 1]


def test_what_jobs_json_says_is_left_to_the_image() -> None:
    """Whatever folder it was made from."""
    need_package("yaml")
    services = importlib.import_module("yaml").safe_load(FILE.read_text())["services"]
    for name in ("migrate", "worker", "function"):
        assert not {"CRONLEASE_LEASE", "CRONLEASE_MAX_RUN", "FUNCTION_TARGET"} & set(services[name]["environment"])
        assert services[name]["build"].startswith("${STAGE:?")
    assert services["migrate"]["command"][-2:] == ["--setup", "schema.sql"]


def test_the_login_of_the_function_is_the_runner_and_not_the_owner(empty_dsn: str, server: Server) -> None:
    """Its own script, on a real server; a second start finds it there already."""
    need_package("yaml")
    services = importlib.import_module("yaml").safe_load(FILE.read_text())["services"]
    programs = need_postgres()
    script = services["login"]["command"][-1].replace("$$", "$")
    at = conninfo_to_dict(empty_dsn)
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}
    environment = {name: str(at[key]) for name, key in names.items()}
    environment |= {"RUNNER_PASSWORD": "it's secret", "PATH": f"{programs}:/usr/bin:/bin"}
    migrate(empty_dsn, roles=True)
    with psycopg.connect(server.admin, autocommit=True) as admin:
        try:
            for _ in range(2):
                subprocess.run(["sh", "-ec", script], env=environment, check=True, capture_output=True)
            login = make_conninfo(empty_dsn, user="cronlease_login", password="it's secret")
            with psycopg.connect(login, autocommit=True) as conn:
                claim = "select acquired from acquire_refresh_lock('a', gen_random_uuid())"
                conn.execute("select ensure_schedule('a')")
                assert conn.execute(claim).fetchone() == (True,)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute("delete from refresh_schedule")
        finally:
            admin.execute("drop role if exists cronlease_login")
    for name in ("worker", "function"):
        assert "//cronlease_login:" in services[name]["environment"]["DATABASE_URL"]
