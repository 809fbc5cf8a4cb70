"""What every request must have, and what every answer has: hosts, sites, bounds, and headers for
browsers."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without any referrer browsers send forms with `Origin: null`, which is refused below.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
READING: Final = ("GET", "HEAD")
HEADERS_MAX: Final = 100
HEADER_BYTES_MAX: Final = 16 * 1024
"""Of all headers together."""
TARGET_BYTES_MAX: Final = 8 * 1024
BODY_BYTES_MAX: Final = 128 * 1024
"""Of a form."""


class Safety:
    """Refuses requests for other hosts, from other sites, and beyond the bounds."""

    def __init__(self, app: ASGIApp, hosts: Container[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host not in self._hosts:
            return _refuse(421, "this console does not answer for that host")
        if not scope["path"].startswith("/"):
            return _refuse(400, "the target of a request has to be a path")
        if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_BYTES_MAX:
            return _refuse(
                414, f"paths and queries of at most {TARGET_BYTES_MAX} bytes are allowed"
            )
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > HEADERS_MAX or size > HEADER_BYTES_MAX:
            text = f"at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes are allowed"
            return _refuse(431, text)
        return _of_another_site(scope["method"], headers, host) or _of_body(
            scope["method"], headers
        )


def _of_another_site(method: str, headers: Headers, host: str) -> Response | None:
    """Refuse what a page of another site sends: all of it but following a link to here."""
    site = headers.get("sec-fetch-site")
    if method in READING:
        follows_link = (
            headers.get("sec-fetch-mode", "navigate") == "navigate"
            and headers.get("sec-fetch-dest", "document") == "document"
        )
        if site in ("cross-site", "same-site") and not follows_link:
            return _refuse(403, "pages of other sites may link to this console and nothing else")
        return None
    if site is not None and site != "same-origin":
        return _refuse(403, "this has to be sent by a page of this console")
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return _refuse(403, "this has to be sent by a page of this console")
    return None


def _of_body(method: str, headers: Headers) -> Response | None:
    """Refuse bodies that are none of a form, are too long, or have two ends."""
    length = headers.get("content-length")
    chunked = "transfer-encoding" in headers
    if chunked and length is not None:
        return _refuse(400, "Content-Length and Transfer-Encoding exclude each other")
    if method in READING:
        if chunked or length not in (None, "0"):
            return _refuse(400, f"{method} has no body here")
        return None
    if chunked:
        return _refuse(411, "a body needs its Content-Length")
    if length is not None and not (length.isascii() and length.isdecimal() and len(length) < 10):
        return _refuse(400, "Content-Length has to be a number of bytes")
    if length is not None and int(length) > BODY_BYTES_MAX:
        return _refuse(413, f"at most {BODY_BYTES_MAX} bytes are allowed")
    return None


def _refuse(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status, {"Connection": "close"})
