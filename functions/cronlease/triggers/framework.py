"""The target of functions-framework. Other hosts import the same source, so the framework is not imported here: that
takes a fifth of a second, and where the framework serves us it is loaded already."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from cronlease.job import Job
from cronlease.process.shutdown import process
from cronlease.settings import Settings
from cronlease.triggers.answer import Answer
from cronlease.triggers.http import HttpTrigger


def target(function: Callable[[Any], Any], job: Job, settings: Settings) -> Any:
    """What the source has under the function's name: it answers the framework's requests, and has `job` and `trigger`
    for other hosts. Raises SettingsError."""
    trigger = HttpTrigger(settings, _hook, main=job.name)

    @functools.wraps(function)
    async def answer(request: Any) -> Any:
        return _response(await trigger.answer(request.scope, request.receive))

    served: Any = answer
    if "functions_framework" in sys.modules:
        import functions_framework.aio

        served = functions_framework.aio.http(answer)
        _say_when_forked(job.name, trigger)
    served.job, served.trigger = job, trigger
    return served


def _hook(settings: Settings) -> None:
    """The server's own handlers are called when the runs in progress are done."""
    process.hook(settings.drain_seconds, settings.announce_seconds)


def _response(answer: Answer) -> Any:
    from starlette.responses import Response

    # Skips its constructor, which spends as long on the headers as encoding the body takes.
    response = Response.__new__(Response)
    response.status_code, response.background = answer.status, None
    response.body, response.raw_headers = answer.body, answer.headers
    return response


def _say_when_forked(name: str, trigger: HttpTrigger) -> None:
    """Lets each worker say what it serves when it starts. The framework has no hook for that: it imports us in the
    master, which binds and forks."""
    address = _address(name)
    if address is None or not hasattr(os, "register_at_fork"):
        return
    master = os.getpid()

    def forked() -> None:
        # Not in a process that a job forks.
        if os.getppid() == master:
            trigger.say_served(address)

    os.register_at_fork(after_in_child=forked)


def _address(name: str) -> str | None:
    """Where the framework is about to serve this function; None where another program imports us."""
    import click

    ctx = click.get_current_context(silent=True)
    if ctx is None or ctx.params.get("target") != name or not {"host", "port"} <= ctx.params.keys():
        return None
    return f"http://{ctx.params['host']}:{ctx.params['port']}"
