"""`cronlease serve`: the functions of a source behind HTTP, on uvicorn."""

import asyncio
import logging
import socket
from typing import Any

import click
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from cronlease.cli import options
from cronlease.cli.source import Source, chosen_job, load_jobs, refuse_to_make_its_tables
from cronlease.cli.toolbox import Toolbox
from cronlease.observe import logs
from cronlease.process.shutdown import process
from cronlease.settings import Settings, SettingsError
from cronlease.triggers.asgi import App

# As long as a body may take, plus some for a slow start of the connection.
_HEADER_SECONDS = 10.0
_BACKLOG = 2048


@click.command("serve")
@options.source
@options.target_of("The function at /; by default the only one. Each is also at /<function>.")
@click.option("--host", help="Where to listen; by default 127.0.0.1, and 0.0.0.0 on a platform.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar="PORT",
    show_envvar=True,
    default=8080,
    show_default=True,
    help="0 takes a free one; the first line of the log says which.",
)
@click.pass_obj
def serve_command(toolbox: Toolbox, source: Source, target: str | None, host: str | None, port: int) -> None:
    """Serve the functions over HTTP.

    POST /<function> runs one, if it is due and free, and so does POST / where there is only one; also /run-due,
    /status and /health/*. SIGTERM or Ctrl-C gives the runs in progress CRONLEASE_DRAIN_SECONDS to finish.
    """
    settings = toolbox.settings()
    logs.configure(settings.log_level)
    jobs = load_jobs(source)
    main = chosen_job(jobs, source, target).name if target is not None else None
    if settings.has_database:
        refuse_to_make_its_tables(source, jobs, settings.database_url or "")
    place = listen(host or ("0.0.0.0" if settings.on_platform else "127.0.0.1"), port)  # noqa: S104 (a container's)
    try:
        server = server_of(settings, main=main)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    server.config.app.say_served(address_of(place))  # type: ignore[union-attr]
    server.run(sockets=[place])


def server_of(
    settings: Settings, *, main: str | None = None, header_seconds: float = _HEADER_SECONDS
) -> uvicorn.Server:
    """Drains as under functions-framework: readiness fails, the runs finish, and then it stops listening."""

    def stop() -> None:
        server.should_exit = True

    def hook(settings: Settings) -> None:
        process.hook(settings.drain_seconds, settings.announce_seconds, then=stop)

    for handler in logs.logger.handlers:
        logging.getLogger("uvicorn.error").addHandler(handler)
    server = uvicorn.Server(
        uvicorn.Config(
            App(settings, hook, main=main),
            http=_impatient(header_seconds),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
    )
    return server


def _impatient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol with a time limit for a request's headers: by itself it waits forever."""
    base: Any = AutoHTTPProtocol

    class Impatient(base):  # type: ignore[misc]
        _giving_up: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait_for_headers()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_headers(self) -> None:
            if self._giving_up is None:
                self._giving_up = asyncio.get_running_loop().call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None

    return Impatient


def listen(host: str, port: int, advice: str = "pass --host or --port N") -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except PermissionError:
        raise click.ClickException(f"port {port} needs more rights than yours: pass --port N") from None
    except OSError as error:
        # Python adds the address in brackets, and the sentence has it already.
        why = str(error.strerror or error).partition(" (")[0]
        raise click.ClickException(f"cannot listen on {host}:{port} ({why}): {advice}") from None


def address_of(place: socket.socket) -> str:
    host, port, *_ = place.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
