"""The job's check for `cronlease doctor`, loaded by its entry point: the sources file."""

from collections.abc import Iterator

from opening_signals import settings

FUNCTION = "refresh_opening_signals"
VARIABLES = ("CRONLEASE_SOURCES", "CRONLEASE_SOURCES_AT_ONCE", "CRONLEASE_PER_HOST")


def check() -> Iterator[tuple[bool, str, str | None]]:
    """Whether something is broken, the finding, and the remedy; None if none is needed."""
    from opening_signals.sources_file import SourcesError, load

    path = settings.sources_file()
    try:
        settings.at_once()
        settings.per_host()
        sources = load(path)
    except (SourcesError, settings.SettingError) as error:
        yield True, str(error), "correct it; `cronlease sources check` then shows what each source gives"
        return
    if not path:
        yield False, "CRONLEASE_SOURCES is not set: a run fetches nothing", "name a sources file in it"
    elif not sources:
        fix = "write one; functions/opening_signals/README.md shows how"
        yield False, f"{path} has no [[source]]: a run fetches nothing", fix
    else:
        yield False, f"{len(sources)} in {path}, all of them readable", None
