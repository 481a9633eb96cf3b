"""A folder of somebody else's, staged: what it needs comes along, nothing else does, or nothing is made at all."""

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from imports import unpinned

from tests.deploy.jobs import DEPLOY, TEMPLATE, definition
from tests.deploy.staging import alone, attempt, image_settings, installed, run, serving, staged
from tests.require import need

MAIN = """
from decimal import Decimal

import sqlalchemy
from cronlease import Run, scheduled
from shop.catalogue import prices


@scheduled(every="10m..15m")
async def refresh_prices(run: Run) -> None:
    assert sqlalchemy.__version__
    async with run.commit() as conn:
        for name, price in prices().items():
            await conn.execute("insert into prices (name, price) values (%s, %s)", [name, Decimal(price)])
        run.report(fetched=len(prices()))
"""
CATALOGUE = """
import json
from pathlib import Path


def prices():
    return json.loads(Path(__file__).with_name("prices.json").read_text())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What init makes, grown: a package, a data file, a requirement, and things that are nobody else's business."""
    made = tmp_path / "prices"
    shutil.copytree(TEMPLATE, made)
    (made / "main.py").write_text(MAIN)
    (made / "shop").mkdir()
    (made / "shop" / "__init__.py").touch()
    (made / "shop" / "catalogue.py").write_text(CATALOGUE)
    (made / "shop" / "prices.json").write_text('{"tea": "2.50"}')
    (made / "shop" / "prices.json").chmod(0o600)
    (made / "requirements.txt").write_text("cronlease  # ours\nsqlalchemy>=2\n")
    (made / ".env").write_text("SECRET=1")
    (made / ".venv").mkdir()
    (made / ".venv" / "pyvenv.cfg").touch()
    (made / "env").mkdir()
    (made / "env" / "pyvenv.cfg").touch()
    (made / "tests").mkdir()
    (made / "tests" / "test_more.py").touch()
    return made


@pytest.mark.timeout(240)
def test_it_runs_where_nothing_else_is(folder: Path, tmp_path: Path, empty_dsn: str) -> None:
    """Its schema is applied by the command that every deploy uses, then it is hit."""
    own = definition(folder) | {"environment": {"PRICES": 'a "b" $c \\d'}}
    (folder / "jobs.json").write_text(json.dumps(own))
    stage = staged(tmp_path / "new" / "stage", folder)
    found = {str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file()}
    (wheel,) = stage.glob("*.whl")
    kept = {"main.py", "jobs.json", "schema.sql", "README.md", "gitignore"}
    modules = {"shop/__init__.py", "shop/catalogue.py", "shop/prices.json"}
    assert found == {wheel.name, "requirements.txt", "Dockerfile", *kept, *modules}
    assert {path.stat().st_mode & 0o777 for path in stage.rglob("*") if path.is_file()} == {0o644}
    assert image_settings(stage)["PRICES"] == r"a \"b\" \$c \\d"
    requirements = (stage / "requirements.txt").read_text()
    ours = (DEPLOY.parent / "requirements.lock").read_text()
    pinned = re.findall(r"^([a-z0-9-]+==\S+)", requirements, re.MULTILINE)
    assert any(line.startswith("sqlalchemy==2") for line in pinned)
    assert set(re.findall(r"^(psycopg==\S+)", ours, re.MULTILINE)) <= set(pinned)
    programs = installed(stage, tmp_path / "venv")
    environment = alone(programs, DATABASE_URL=empty_dsn, CLOUD_RUN_JOB="migrate", CRONLEASE_AUTH="none")
    subprocess.run(
        [programs / "cronlease", "migrate", "--setup", "schema.sql"], cwd=stage, env=environment, check=True
    )
    log = tmp_path / "function.log"
    with serving(stage, programs, log, DATABASE_URL=empty_dsn, PRICES="") as served:
        answer = served.hit().json()
    assert (answer["status"], answer["fetched"]) == ("success", 1), log.read_text()
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select name from prices").fetchall() == [("tea",)]


IMPORTS = """
import asyncio, no_such_module
import sqlalchemy.orm as orm
import _pytest.outcomes
import cronlease
import shop.catalogue
from . import nothing
from opentelemetry import trace
try:
    import hypothesis
except ImportError: ...
"""


def test_an_import_that_no_requirement_provides_is_found(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "catalogue.py").write_text(IMPORTS)
    (tmp_path / "broken.py").write_text("def f(:")
    pinned = tmp_path / "requirements.txt"
    pinned.write_text("PyTest==9.0.1 \\\n    --hash=sha256:00\n./cronlease-1-py3-none-any.whl\n")
    found = unpinned(tmp_path, {"cronlease"})
    assert found.keys() == {"sqlalchemy", "opentelemetry"}
    file, package = found["sqlalchemy"]
    assert (str(file), package.lower()) == ("shop/catalogue.py", "sqlalchemy")
    pinned.write_text("opentelemetry-api==1.0\nsqlalchemy[asyncio]==2.0.36\n")
    assert unpinned(tmp_path, {"cronlease"}).keys() == {"_pytest"}


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_staging_warns_of_an_import_that_no_requirement_provides(folder: Path, tmp_path: Path) -> None:
    (folder / "requirements.txt").unlink()
    need("uv")  # a wheel is built
    ended = attempt(DEPLOY / "stage.sh", tmp_path / "stage", folder)
    assert ended.returncode == 0, ended.stderr
    assert "warning: main.py imports sqlalchemy, which no requirement provides: add SQLAlchemy to " in ended.stderr


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_the_versions_of_an_earlier_stage_are_kept(folder: Path, tmp_path: Path) -> None:
    """Of two versions the older one, since the lock has it; the wheel that the lock names is not here any more."""
    index = tmp_path / "index"
    index.mkdir()
    for version in ("1.0", "2.0"):
        name = f"cronlease_example-{version}"
        with zipfile.ZipFile(index / f"{name}-py3-none-any.whl", "w") as wheel:
            about = f"Metadata-Version: 2.1\nName: cronlease-example\nVersion: {version}\n"
            wheel.writestr(f"{name}.dist-info/METADATA", about)
            wheel.writestr(
                f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{name}.dist-info/RECORD", "")
    (folder / "requirements.txt").write_text("cronlease\ncronlease-example\n")
    gone = "./cronlease-0.0.1-py3-none-any.whl \\\n    --hash=sha256:00\n"
    for place, lock, kept in (("newest", "", "2.0"), ("kept", f"{gone}cronlease-example==1.0\n", "1.0")):
        (folder / "requirements.lock").write_text(lock)
        need("uv")
        run(DEPLOY / "stage.sh", tmp_path / place, folder, UV_FIND_LINKS=str(index))
        text = (tmp_path / place / "requirements.txt").read_text()
        assert f"cronlease-example=={kept} \\\n    --hash=sha256:" in text


_FIVE_MINUTES = '{"functions": {"f": {"lease": "5m", "max_run": "285s"}}, "jobs": {}}'


def _break(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _link(folder: Path) -> None:
    (folder / "shop" / "more").symlink_to(folder / "nowhere")


def _rename(folder: Path) -> None:
    text = (folder / "jobs.json").read_text()
    (folder / "jobs.json").write_text(text.replace("refresh_prices", "refresh_price"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "main.py").unlink(), "has no main.py, so it cannot be deployed"),
        (lambda folder: (folder / "jobs.json").unlink(), "has no jobs.json, so it cannot be deployed"),
        (_break("jobs.json", "{"), "deploy/jobs.schema.json describes it"),
        (_break("jobs.json", '{"functions": {}, "jobs": {}}'), "needs a function: "),
        (_break("jobs.json", "[]"), "jobs.json is not a JSON object"),
        (_break("jobs.json", _FIVE_MINUTES), "has '5m' as the lease of f: write seconds such as 300s"),
        (_rename, "names the function refresh_price, which main.py does not have"),
        (_break("main.py", "def f(:"), "main.py is not Python"),
    ],
)
def test_a_folder_that_cannot_be_deployed_is_one_sentence(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    ended = attempt(DEPLOY / "stage.sh", tmp_path / "stage", folder)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr
    assert said in ended.stderr
    assert not (tmp_path / "stage").exists()


def test_a_python_that_is_not_there_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    ended = attempt(DEPLOY / "stage.sh", tmp_path / "stage", folder, PYTHON="no-such-python")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.startswith("there is no no-such-python on this machine: PYTHON=")


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_break("requirements.txt", "cronlease\nno-such-package-of-anybody==1\n"), "the lines above say why"),
        (_break("Dockerfile", "FROM scratch"), "the staged directory has its own: rename it"),
        (_link, "is a link to a folder or to nothing"),
    ],
)
def test_what_fails_half_way_leaves_nothing(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    (tmp_path / "stage").mkdir()
    need("uv")  # a wheel is built
    ended = attempt(DEPLOY / "stage.sh", tmp_path / "stage", folder)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"prices", "stage"}
    assert list((tmp_path / "stage").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [("full", "is not empty"), ("full/file", "is not a directory"), ("prices/stage", "is inside ")],
)
def test_a_place_that_is_taken_is_left_alone(folder: Path, tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    ended = attempt(DEPLOY / "stage.sh", tmp_path / place, folder)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert said in ended.stderr
    assert (tmp_path / "full" / "file").read_text() == "mine"
