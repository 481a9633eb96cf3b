"""`cronlease.asgi()`: the HTTP trigger as an ASGI application, for a host to mount or for a server to serve."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cronlease.process.shutdown import process
from cronlease.settings import Settings, SettingsError, load
from cronlease.triggers.http import HttpTrigger


def asgi(*functions: Callable[..., Any]) -> "App":
    """An ASGI application for these `@scheduled` functions, else for all that are registered when a request comes:

        app.mount("/cron", cronlease.asgi())

    POST / where there is one function, POST /<function>, /run-due, /status and /health/*, below its mount path. When
    the host is told to stop, the runs in progress have CRONLEASE_DRAIN_SECONDS; the host's signals go on to the host.
    Its `lifespan` does the same for a host that has such a parameter, and closes the connections."""
    names = [_name(function) for function in functions]
    try:
        return App(load(), _listen, names=names or None)
    except SettingsError as error:
        raise SystemExit(f"cronlease cannot be served: {error}") from None


class App(HttpTrigger):
    """The HTTP trigger as ASGI servers and frameworks call it."""

    # Any: each framework has types of its own for these three.
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            answer = await self.answer(scope, receive)
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": answer.body})
        elif scope["type"] == "lifespan":
            await receive()
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "websocket.close", "code": 1000})

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """For a host that has such a parameter: `FastAPI(lifespan=cron.lifespan)`."""
        self._hook(self._settings)
        yield
        await process.drain(self._settings.drain_seconds)


def _listen(settings: Settings) -> None:
    process.listen(settings.drain_seconds)


def _name(function: Callable[..., Any]) -> str:
    job = getattr(function, "job", None)
    if job is None:
        raise TypeError("cronlease.asgi() takes functions that @scheduled has decorated")
    name: str = job.name
    return name
