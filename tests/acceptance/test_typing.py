"""The types of the package as a user has them: mypy, in strict mode and in a project of their own, accepts what the
README and the guide of jobs show, and knows what each connection is."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.acceptance.conftest import clean_environment
from tests.require import need

ROOT = Path(__file__).parents[2]
GUIDES = "".join((ROOT / name).read_text() for name in ("README.md", "functions/cronlease/README.md"))

MAIN = """
from collections.abc import Sequence

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from typing_extensions import assert_type
from psycopg import AsyncConnection, Connection
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from cronlease import try_acquire_action_lock


async def fetch() -> Sequence[tuple[str, int]]:
    return [("bread", 3)]


class Base(DeclarativeBase): ...


class Price(Base):
    __tablename__ = "prices"
    name: Mapped[str] = mapped_column(primary_key=True)
    price: Mapped[int]
"""

CHECKED = """
@scheduled
async def in_pieces(run: Run) -> None:
    async with run.connection() as conn:
        assert_type(conn, AsyncConnection)
    async with run.transaction() as conn, session_on(conn) as session:
        assert_type(session, AsyncSession)
        assert_type(await try_acquire_action_lock(conn, 1), bool)
    async with run.commit() as conn:
        assert_type(conn, AsyncConnection)
        cursor = await conn.execute("select count(*) from prices")
        row = await cursor.fetchone()
        assert row is not None
        run.report(unchanged=row[0])


@scheduled
def in_a_thread(run: Run) -> None:
    run.check()
    with run.connection() as conn:
        assert_type(conn, Connection)
    with run.transaction() as conn, session_on(conn) as session:
        assert_type(session, Session)
        assert_type(try_acquire_action_lock(conn, 1), bool)
    with run.commit() as conn, run.span("write", source="here") as span:
        assert_type(conn, Connection)
        schedule_action(conn, "report 18", "send_report", delay="2h")
        span.note(items=3)
"""

TESTS = """
from collections.abc import Callable

from cronlease.testing import Client
from main import refresh_prices

"""


def example(start: str) -> str:
    """The example of the guides that has this text in it."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", GUIDES, re.M | re.S)
    (block,) = [block for block in blocks if start in block]
    return block


def as_job(block: str, head: str) -> str:
    """The lines of an example that stand in a job, in one."""
    match = re.search(r"^(async )?with ", block, re.M)
    assert match is not None, "the example enters a block"
    return f"{block[: match.start()]}\n\n{head}\n{textwrap.indent(block[match.start() :], '    ')}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    jobs = [
        example("refresh_prices(run: Run)"),
        example("refresh_totals(run: Run)"),
        as_job(example("session_on"), "@scheduled\ndef add_bread(run: Run) -> None:"),
        as_job(example("schedule_action(conn"), "@scheduled\nasync def order_report(run: Run) -> None:"),
    ]
    (tmp_path / "main.py").write_text("\n".join([MAIN, *jobs, CHECKED]))
    test = example("test_a_second_hit_is_not_due").replace(
        "(cronlease_client, due_now):",
        "(cronlease_client: Callable[..., Client], due_now: Callable[[str], None]) -> None:",
    )
    (tmp_path / "test_main.py").write_text(TESTS + test)
    return tmp_path


def strictly(project: Path) -> str:
    """What mypy says, with the packages that this Python has installed."""
    command = [need("mypy"), "--strict", "--python-executable", sys.executable, "main.py", "test_main.py"]
    env = clean_environment()
    del env["PYTHONPATH"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_a_strict_project_accepts_the_examples_of_the_guide_and_a_mistake_is_seen(project: Path) -> None:
    assert strictly(project) == "Success: no issues found in 2 source files\n"

    main = project / "main.py"
    main.write_text(main.read_text() + "\n\n@scheduled(lase='5m')\ndef wrong(run: Run) -> None:\n    run.comit()\n")
    said = strictly(project)
    assert '"Run" has no attribute "comit"' in said
    assert "lase" in said or "No overload variant" in said
