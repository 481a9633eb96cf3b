"""`cronlease init`: a small working project to turn into your own. Its files are in project/."""

import os
import shlex
from pathlib import Path

import click

from cronlease.cli import options, output
from cronlease.cli.errors import UsageError
from cronlease.cli.toolbox import Toolbox

_TEMPLATES = Path(__file__).with_name("project")
_FILES = ("main.py", "schema.sql", "test_main.py", "pytest.ini", "requirements.txt", "jobs.json", "README.md")
# Renamed here: git and the build of our wheel would obey it.
_RENAMED = {"gitignore": ".gitignore"}


def _named(_ctx: click.Context, _: click.Parameter, folder: str) -> Path:
    if not folder:
        raise click.BadParameter("must not be empty: write . for this folder")
    return Path(folder)


@click.command("init")
@click.argument("folder", type=click.Path(), default=".", callback=_named)
@options.as_json
@click.pass_obj
def init_command(_: Toolbox, folder: Path, as_json: bool) -> None:
    """Make a small project to start from.

    It goes into FOLDER, by default this one: a timed function, its table, its test. It never overwrites: if
    one of its files already exists, nothing is written.
    """
    texts = {_RENAMED.get(name, name): (_TEMPLATES / name).read_text("utf-8") for name in (*_FILES, *_RENAMED)}
    if there := [name for name in texts if os.path.lexists(folder / name)]:
        raise UsageError(f"{folder} already has {', '.join(there)}: nothing was written, name another folder")
    _write(folder, texts)
    if as_json:
        output.as_json({"folder": str(folder), "files": list(texts)})
        return
    for name in texts:
        output.text(f"wrote {folder / name}")
    cd = "" if folder == Path() else f"cd {shlex.quote(str(folder))}, and "
    output.text(f"Next: {cd}its README.md has the commands.")


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Writes all files or none."""
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            # Exclusively: whoever has written that file since we checked wins.
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                written.append(folder / name)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        where = error.filename or folder
        raise UsageError(f"{where}: {error.strerror}: nothing was written, name another folder") from None
