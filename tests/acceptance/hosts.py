"""Applications of other people's that mount cronlease, each as its framework's users would write it: all functions at
/cron, and one alone at /tick. Imported by the server that serves them."""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import cronlease
from tests.acceptance import jobs


def starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    async def hello(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    mounts = [Mount("/cron", cronlease.asgi()), Mount("/tick", cronlease.asgi(jobs.tick))]
    return Starlette(routes=[Route("/hello", hello), *mounts])


def fastapi() -> Any:
    from fastapi import FastAPI

    cron = cronlease.asgi()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with cron.lifespan(app):
            yield
        print("the host's lifespan ended", flush=True)

    app = FastAPI(lifespan=lifespan)
    app.mount("/cron", cron)
    app.mount("/tick", cronlease.asgi(jobs.tick))

    @app.get("/hello")
    async def hello() -> str:
        return "hello"

    return app


def litestar() -> Any:
    from litestar import Litestar, asgi, get

    @get("/hello")
    async def hello() -> str:
        return "hello"

    cron = asgi("/cron", is_mount=True, copy_scope=True)(cronlease.asgi())
    tick = asgi("/tick", is_mount=True, copy_scope=True)(cronlease.asgi(jobs.tick))
    return Litestar([hello, cron, tick])


def django() -> Any:
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=(path("hello", lambda _: HttpResponse("hello")),))
    mounted = {"/cron": cronlease.asgi(), "/tick": cronlease.asgi(jobs.tick)}
    pages = get_asgi_application()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        """An asgi.py: Django itself cannot mount another application."""
        for root, app in mounted.items():
            if scope["type"] == "http" and scope["path"].startswith(f"{root}/"):
                await app({**scope, "root_path": root}, receive, send)
                return
        await pages(scope, receive, send)

    return application


def flask() -> Any:
    """Under WSGI, by a bridge that has an event loop in a thread."""
    from a2wsgi import ASGIMiddleware
    from flask import Flask
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    app: Any = Flask("host")
    app.get("/hello")(lambda: "hello")
    mounted: Any = {"/cron": ASGIMiddleware(cronlease.asgi()), "/tick": ASGIMiddleware(cronlease.asgi(jobs.tick))}
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, mounted)
    return app


# Each is made in the process that serves it.
if name := os.environ.get("TEST_HOST"):
    app = globals()[name]()
