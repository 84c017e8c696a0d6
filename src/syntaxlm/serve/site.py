"""The application: the page and its files, which need no model, and the JSON interface, once its models are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from syntaxlm.drawing.svg import style_sheet
from syntaxlm.serve.guard import RETRY_AFTER, Guard, error_answer
from syntaxlm.serve.limits import Limits
from syntaxlm.serve.threads import ModelThread, OverloadError

if TYPE_CHECKING:
    from fastapi import FastAPI

SCRIPTS = (
    "api", "comparison", "elements", "files", "magnification", "models", "page", "pairs", "pictures", "requests",
    "samples", "sentences", "tables", "tasks", "texts", "theme", "words",
)  # fmt: skip

STATIC = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/print.css": ("print.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/api/": ("api.html", "text/html"),
} | {f"/{name}.js": (f"{name}.js", "text/javascript") for name in SCRIPTS}
"""Each route, and the file of the package that it returns. Files are read once, when the application is created."""


class Site(Starlette):
    """An ASGI application that answers the page at once, and all other requests when the JSON interface is loaded.

    Args:
        load: returns the interface. Called in a thread at the start, because it imports torch and reads models.
        hosts: names of the server, besides localhost.

    Attributes:
        loading: the interface, as the only item, or the error of `load`. Set at the start.
    """

    def __init__(self, load: Callable[[], FastAPI], limits: Limits, hosts: Sequence[str] = ()) -> None:
        self._load, self._max_seconds = load, limits.max_seconds
        self._loader = ModelThread("loading", 1)
        self.loading: Future[list[FastAPI]] = Future()
        folder = files("syntaxlm.serve") / "static"
        contents = {route: ((folder / name).read_text("utf-8"), kind) for route, (name, kind) in STATIC.items()}
        for theme in ("light", "dark"):
            contents[f"/pictures-{theme}.css"] = style_sheet(theme), "text/css"
        pages = [
            Route(route, Response(content, media_type=kind), methods=["GET"])
            for route, (content, kind) in contents.items()
        ]
        guard = Middleware(Guard, hosts=hosts, max_body=limits.max_body, max_seconds=limits.max_seconds)
        super().__init__(
            routes=[*pages, Route("/api/health", self._health)],
            middleware=[guard],
            exception_handlers={HTTPException: _refuse, OverloadError: _refuse},
            lifespan=_lifespan,
        )
        self.router.default = self._ask_interface

    @property
    def threads(self) -> list[ModelThread]:
        """All threads that load models and compute answers."""
        loaded = self.loading.result() if self.is_ready else []
        return [self._loader, *(thread for interface in loaded for thread in interface.state.served.threads)]

    @property
    def is_busy(self) -> bool:
        """Whether something is computed, perhaps for a request that was abandoned."""
        return any(thread.is_busy for thread in self.threads)

    @property
    def is_ready(self) -> bool:
        """Whether the models are read."""
        return self.loading.done() and self.loading.exception() is None

    def start(self) -> None:
        """Start to load the interface."""
        self.loading = self._loader.submit(object(), [self._load], _loaded)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"ready": self.is_ready})

    async def _ask_interface(self, scope: Scope, receive: Receive, send: Send) -> None:
        loading = asyncio.shield(asyncio.wrap_future(self.loading))  # a request that is abandoned does not end it
        try:
            async with asyncio.timeout(self._max_seconds):  # wait_for would hide that the client has gone
                (interface,) = await loading
        except TimeoutError:
            raise OverloadError("the models are still being read. Try again in a few seconds") from None
        except Exception:
            raise OverloadError("the server is stopping") from None
        await interface(scope, receive, send)


def _loaded(loads: Sequence[Callable[[], FastAPI]]) -> list[FastAPI]:
    (load,) = loads
    interface = load()
    interface.state.served.start()
    return [interface]


@asynccontextmanager
async def _lifespan(site: Site) -> AsyncIterator[None]:
    site.start()
    yield
    for thread in site.threads:
        thread.stop()


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return error_answer(error.status_code, error.detail, error.headers)
    return error_answer(503, str(error), {"Retry-After": RETRY_AFTER})
