"""`cronlease init`: a small project that works, to be changed into your own. Its files are in project/."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronlease.cli import options, output
from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox

_TEMPLATES = Path(__file__).with_name("project")
_FILES = ("main.py", "schema.sql", "test_main.py", "pytest.ini", "requirements.txt", "jobs.json", "README.md")
# Under a name of its own here: git and the build of our wheel would obey it.
_RENAMED = {"gitignore": ".gitignore"}


def _named(_ctx: click.Context, _: click.Parameter, folder: str) -> Path:
    if not folder:
        raise click.BadParameter("must not be empty: write . for this folder")
    return Path(folder)


@click.command("init")
@click.argument("folder", type=click.Path(), default=".", callback=_named)
@options.as_json
@click.pass_obj
def init_command(_: "Toolbox", folder: Path, as_json: bool) -> None:
    """Make a small project in FOLDER, by default here: a timed function, its table, its test.

    It never overwrites: where one of its files is there already, nothing is written.
    """
    texts = {_RENAMED.get(name, name): _read(name) for name in (*_FILES, *_RENAMED)}
    if there := [name for name in texts if os.path.lexists(folder / name)]:
        raise UsageError(
            one_line(f"{folder} already has {', '.join(there)}: nothing was written, name another folder")
        )
    _write(folder, texts)
    if as_json:
        output.as_json({"folder": str(folder), "files": list(texts)})
        return
    for name in texts:
        output.text(f"wrote {folder / name}")
    output.text(
        f"Next: {'' if folder == Path() else f'cd {shlex.quote(str(folder))}, and '}its README.md has the commands."
    )


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _write(folder: Path, texts: dict[str, str]) -> None:
    """All of them, or none."""
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            # Exclusively: whoever wrote that file since we looked wins.
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                written.append(folder / name)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        where = error.filename or folder
        raise UsageError(one_line(f"{where}: {error.strerror}: nothing was written, name another folder")) from None
