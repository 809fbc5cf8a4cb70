"""The ASGI application: each page as HTML and, under `/api`, as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from fencepost.client.errors import BrokerError, ClientError, UnsupportedApi
from fencepost.console import html
from fencepost.console.asked import BadQuery, NotThere
from fencepost.console.page import Level, Page, Section, Sentence, document_of
from fencepost.console.pages.table import PAGES, PageKind, make_page
from fencepost.console.session import Session, now_ms
from fencepost.console.web.access import OPEN, Access, Door
from fencepost.console.web.asking import Parts, asked_of
from fencepost.console.web.downloads import download_routes
from fencepost.console.web.safety import Safety
from fencepost.console.web.tails import tail_routes
from fencepost.console.web.writing import write_routes

STATIC: Final = Path(__file__).parent / "static"
PAGE_S: Final = 30.0
"""How long a page may take, with its wait for a turn."""

Answer = Callable[[Request], Awaitable[Response]]


def application(
    session: Session,
    hosts: Container[str],
    access: Access | None = None,
    cookie: str = "fencepost-console",
) -> Starlette:
    """The console of a session, which it starts and closes; it answers requests that name one of
    `hosts` ("127.0.0.1:8080") as their host and have what `access` asks for; `cookie` is the name
    of the cookie that stands for a token."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        session.sampler.start()
        try:
            yield
        finally:
            await session.close()

    made = Starlette(
        routes=[
            Mount(OPEN.rstrip("/"), StaticFiles(directory=STATIC)),
            *_page_routes(session),
            *download_routes(session),
            *(write_routes(session) if session.options.allow_writes else ()),
            *tail_routes(session),
        ],
        middleware=[
            Middleware(Safety, hosts=hosts),
            Middleware(Parts),
            Middleware(Door, access=access or Access(), cookie=cookie),
        ],
        exception_handlers={HTTPException: _refusing(session)},
        lifespan=lifespan,
    )
    made.router.redirect_slashes = False  # a redirect would be of a path that there may not be
    return made


def _page_routes(session: Session) -> list[BaseRoute]:
    routes: list[BaseRoute] = []
    for kind in PAGES:
        make = _maker(session, kind)
        api = "/api" + kind.path
        paths = {api, api.rstrip("/")}
        routes += [Route(path, _api(session, make), methods=["GET"]) for path in sorted(paths)]
        routes.append(Route(kind.path, _web(session, make), methods=["GET"]))
    return routes


def _maker(session: Session, kind: PageKind) -> Callable[[Request], Awaitable[tuple[Page, int]]]:
    """What makes the page that a request asks for, or one that says why there is none, and its
    status."""

    async def make(request: Request) -> tuple[Page, int]:
        try:
            async with asyncio.timeout(PAGE_S):
                return await make_page(kind, session, asked_of(request)), 200
        except BadQuery as error:
            return _saying("This cannot be shown", str(error)), 400
        except NotThere as error:
            return _saying("Not there", str(error)), 404
        except UnsupportedApi as error:
            return _saying("This cluster cannot tell", f"{error}.", "warning"), 501
        except BrokerError as error:
            return _saying("The cluster refuses this", str(error), refresh_s=5.0), 502
        except ClientError as error:
            return _saying("The cluster does not answer", str(error), refresh_s=5.0), 502
        except TimeoutError:
            text = f"This page was not made within {PAGE_S:.0f} s."
            return _saying("The cluster does not answer", text, refresh_s=5.0), 504
        except Exception as error:  # noqa: BLE001 - a page says so, and the console goes on
            traceback.print_exception(error, file=sys.stderr)
            text = f"A fault of the console, told on its stderr: {type(error).__name__}."
            return _saying("This page could not be made", text), 500

    return make


def _web(session: Session, make: Callable[[Request], Awaitable[tuple[Page, int]]]) -> Answer:
    async def answer(request: Request) -> Response:
        page, status = await make(request)
        return HTMLResponse(html.document(page, _path(request), session.standing()), status)

    return answer


def _api(session: Session, make: Callable[[Request], Awaitable[tuple[Page, int]]]) -> Answer:
    async def answer(request: Request) -> Response:
        page, status = await make(request)
        return _json(session, page, status)

    return answer


def _refusing(session: Session) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What answers where no route does: a page, or JSON under `/api`."""

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = unquote(request.scope["path"])
        if path.startswith(OPEN):  # a reader without a token learns nothing of the cluster
            return HTMLResponse(
                html.bare("Not there", "The package has no such file."), error.status_code
            )
        if error.status_code == 405:
            page = _saying("Not allowed", f"{request.method} is not allowed for {path[:200]!r}.")
        else:
            page = _saying("Not there", f"This console has no page {path[:200]!r}.")
        if path == "/api" or path.startswith("/api/"):
            response = _json(session, page, error.status_code)
        else:
            document = html.document(page, _path(request), session.standing())
            response = HTMLResponse(document, error.status_code)
        response.headers.update(error.headers or {})
        return response

    return answer


def _path(request: Request) -> str:
    """The path and query as they were sent, quoted."""
    path = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _json(session: Session, page: Page, status: int) -> Response:
    found: dict[str, Any] = (
        document_of(page) if status == 200 else {"error": page.sections[0].sentences[0].text}
    )
    found["console"] = session.standing()
    return Response(msgspec.json.encode(found), status, media_type="application/json")


def _saying(title: str, text: str, level: Level = "bad", *, refresh_s: float | None = None) -> Page:
    """A page with one sentence."""
    return Page(title, [Section("", [Sentence(text, level)])], now_ms(), refresh_s=refresh_s)
