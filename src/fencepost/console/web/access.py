"""Who may use the console: anyone who reaches it on loopback, a browser that once gave the token,
or users that a proxy in front has named."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.console import html
from fencepost.console.web.hosts import BadAddress

TOKEN_BYTES: Final = 32
USER_CHARACTERS_MAX: Final = 256
OPEN: Final = "/static/"
"""Files of the package, which are no secret: the page that asks for the token is made of them."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request has to have: `token`, or the header of this name; None asks for neither."""

    token: str | None = None
    proxy_header: str | None = None


def new_token() -> str:
    """A random token that fits into a URL as it is."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def check_header_name(name: str) -> None:
    """Whether a header may have this name. Raises BadAddress."""
    if not name.isascii() or not name.replace("-", "").isalnum() or len(name) > 100:
        raise BadAddress(f"{name[:80]!r}: letters, digits and dashes are allowed")


class Door:
    """Lets requests in that may be, and notes in their state who it is (`who`).

    The token is taken from the query once: the answer puts a cookie and redirects to the same path
    without it. The cookie's value is another secret of this process, so that a restart ends it.
    """

    def __init__(self, app: ASGIApp, access: Access, cookie: str) -> None:
        self._app = app
        self._access = access
        self._cookie = cookie
        self._secret = secrets.token_urlsafe(TOKEN_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(OPEN):
            await self._app(scope, receive, send)
            return
        who, answer = self._let_in(scope)
        if who is None:
            await (answer or _refusal(scope))(scope, receive, send)
            return
        scope.setdefault("state", {})["who"] = who
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> tuple[str | None, Response | None]:
        """Who it is; None and the answer where the token is in the query; neither: refused."""
        client = scope.get("client")
        address = client[0] if client else "an unknown address"
        headers = Headers(scope=scope)
        if self._access.proxy_header is not None:
            named = headers.getlist(self._access.proxy_header)
            if len(named) == 1 and 0 < len(named[0].strip()) <= USER_CHARACTERS_MAX:
                return f"{named[0].strip()} (by the proxy {address})", None
            return None, None
        if self._access.token is None:
            return address, None
        if self._has_cookie(headers) or self._has_bearer(headers):
            return address, None
        return None, self._redirection(scope)

    def _has_cookie(self, headers: Headers) -> bool:
        return equal_secrets(
            cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), self._secret
        )

    def _has_bearer(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and equal_secrets(given.strip(), self._access.token or "")

    def _redirection(self, scope: Scope) -> Response | None:
        """To the path without the token, where the query has the right one."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for key, value in query if key == "token"]
        if scope["method"] != "GET" or len(given) != 1:
            return None
        if not equal_secrets(given[0], self._access.token or ""):
            return None
        rest = urlencode([(key, value) for key, value in query if key != "token"])
        # Slashes of either kind at its beginning would make it another host's address.
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/\\")
        answer = Response(status_code=303, headers={"Location": f"{path}?{rest}" if rest else path})
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict")
        return answer


def equal_secrets(given: str, secret: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def _refusal(scope: Scope) -> Response:
    text = "This console asks for its token: open the address that it printed when it started."
    headers = {"WWW-Authenticate": 'Bearer realm="fencepost console"'}
    if scope["path"].startswith("/api"):
        return JSONResponse({"error": text}, 401, headers)
    return HTMLResponse(html.bare("Not let in", text), 401, headers)
