"""What a job raised, made harmless: whatever it is, it ends its run and nothing else."""

from cronlease.observe.redact import storable


def text_of(error: BaseException) -> str:
    """What the error says, fit to be stored. One whose text cannot be had, or tries to end the process, still ends
    its run."""
    name = type(error).__name__
    try:
        said = str(error)
    except BaseException:
        said = "it has no readable text"
    return storable(f"{name}: {said}" if said else name)


def contained(error: BaseException) -> BaseException:
    """The error, or in its place one that the event loop does not end the process for."""
    if isinstance(error, SystemExit):
        said = "the job called sys.exit(): it shares its process with others, so let it return or raise"
    elif isinstance(error, KeyboardInterrupt | StopIteration):
        said = f"the job raised {type(error).__name__}"
    else:
        return error
    instead = RuntimeError(said)
    instead.__cause__ = error
    return instead
