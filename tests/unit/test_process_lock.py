"""The lock file of run-due: one at a time on one machine, for each database and schema."""

import os
import sys
from pathlib import Path

import pytest

from cronlease.cli.commands.run_due import process_lock
from cronlease.db.conninfo import place_of
from cronlease.errors import Unreachable
from cronlease.settings import Settings

HERE = Settings(database_url="postgresql://me:secret@db.example/one")
THERE = Settings(database_url="postgresql://me:secret@db.example/two")


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRONLEASE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_a_second_one_is_refused_and_another_database_or_schema_is_not_in_the_way(data_dir: Path) -> None:
    with (
        process_lock(HERE) as first,
        process_lock(HERE) as second,
        process_lock(THERE) as other,
        process_lock(Settings()) as embedded,
        process_lock(HERE._replace(schema="tenant_a")) as elsewhere,
    ):
        assert (first, second, other, embedded, elsewhere) == (True, False, True, True, True)
        assert len(list(data_dir.iterdir())) == 4
    with process_lock(HERE) as again:
        assert again


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is only there on Linux")
def test_a_child_that_a_run_left_behind_does_not_keep_the_lock() -> None:
    with process_lock(HERE):
        (descriptor,) = [
            int(link.name) for link in Path("/proc/self/fd").iterdir() if "run-due-" in os.path.realpath(link)
        ]
        inherited = os.dup(descriptor)
    with process_lock(HERE) as again:
        assert again
    os.close(inherited)


def test_where_no_file_can_be_written_it_goes_on_without(data_dir: Path) -> None:
    data_dir.write_text("not a directory")
    with process_lock(HERE) as alone:
        assert alone


def test_a_place_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_of("postgresql://me:secret@db.example/one") == "host=db.example port=5432 dbname=one user=me"
    other_password = "host=db.example dbname=one user=me password=other"
    assert place_of(other_password) == place_of("postgresql://me:secret@db.example/one")
    monkeypatch.setenv("PGHOST", "elsewhere.example")
    assert "host=elsewhere.example" in place_of("")
    with pytest.raises(Unreachable):
        place_of("postgresql://me:sec@ret@db.example/one/")
