"""What a request asks for: the parts of its path and its query.

Parts are names of groups and transactional ids too, which may have slashes and anything else. They
are matched as they are sent, percent-encoded, so that a slash in a name is no end of it, and
decoded afterwards.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.console.asked import Asked, part_of

TOKEN: Final = "token"
"""What lets readers in (`access`), and says nothing to a page."""


class Parts:
    """Has routes match the parts of a path that are between the slashes as they were sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            sent = scope["raw_path"].decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(quote(unquote(part), safe="") for part in sent)}
        await self._app(scope, receive, send)


def asked_of(request: Request) -> Asked:
    """The parts of the request's path and its query. Raises BadQuery for a key that is there
    twice."""
    parts = [(key, part_of(str(part))) for key, part in request.path_params.items()]
    query = request.query_params.multi_items()
    return Asked.of([*parts, *((key, value) for key, value in query if key != TOKEN)])
