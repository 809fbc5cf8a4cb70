"""The ASGI application: each page as HTML and, under `/api`, as JSON."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fencepost.client.errors import ClientError
from fencepost.console import html
from fencepost.console.asked import Asked, BadQuery, NotThere
from fencepost.console.page import Page, Section, Sentence, document_of
from fencepost.console.pages.table import PAGES, PageKind, make_page
from fencepost.console.session import Session, now_ms
from fencepost.console.web.downloads import download_routes
from fencepost.console.web.safety import Safety

STATIC: Final = Path(__file__).parent / "static"


def application(session: Session, hosts: frozenset[str]) -> Starlette:
    """The console of a session, which it starts and closes; it answers requests that name one of
    `hosts` ("127.0.0.1:8080") as their host."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        session.sampler.start()
        try:
            yield
        finally:
            await session.close()

    pages = [
        route
        for kind in PAGES
        for route in (
            Route("/api" + kind.path, _api(session, kind), methods=["GET"]),
            Route(kind.path, _web(session, kind), methods=["GET"]),
        )
    ]
    return Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            *pages,
            *download_routes(session),
        ],
        middleware=[Middleware(Safety, hosts=hosts)],
        lifespan=lifespan,
    )


def _asked(request: Request) -> Asked:
    return Asked({**request.query_params, **request.path_params})


def _path(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _web(session: Session, kind: PageKind):  # type: ignore[no-untyped-def]
    async def answer(request: Request) -> Response:
        status = 200
        try:
            page = await make_page(kind, session, _asked(request))
        except (BadQuery, NotThere, ClientError) as error:
            page, status = _failure(error)
        cluster = "" if session.sampler.newest is None else session.sampler.newest.cluster_id
        return HTMLResponse(html.document(page, _path(request), cluster), status)

    return answer


def _api(session: Session, kind: PageKind):  # type: ignore[no-untyped-def]
    async def answer(request: Request) -> Response:
        status = 200
        try:
            found = document_of(await make_page(kind, session, _asked(request)))
        except (BadQuery, NotThere, ClientError) as error:
            page, status = _failure(error)
            found = {"error": page.sections[0].sentences[0].text}
        return Response(msgspec.json.encode(found), status, media_type="application/json")

    return answer


def _failure(error: Exception) -> tuple[Page, int]:
    """A page that says what went wrong, and its status."""
    status, title = (
        (400, "This cannot be shown")
        if isinstance(error, BadQuery)
        else (404, "Not there")
        if isinstance(error, NotThere)
        else (502, "The cluster does not answer")
    )
    section = Section("", [Sentence(f"{error}", "bad")])
    return Page(title, [section], now_ms(), refresh_s=5.0 if status == 502 else None), status
