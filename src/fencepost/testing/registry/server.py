"""`SchemaRegistry`: the registry as a server of HTTP, in threads of this process.

What clients can do to it is bounded: connections, how long one may be silent, the length of a
request, and of a schema (`documents`). Requests are answered one after the other, but for those in
which schemas are compared: the others go on meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import socket
import socketserver
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from fencepost.testing.ports import LOOPBACK
from fencepost.testing.registry.errors import RegistryError
from fencepost.testing.registry.levels import incompatibilities
from fencepost.testing.registry.routes import Text, answer
from fencepost.testing.registry.schemas import Reference, Schema
from fencepost.testing.registry.store import Numbered, Store

if TYPE_CHECKING:
    from fencepost.testing.certificates import Certificate

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
BODY_BYTES_MAX: Final = 4 << 20
CONNECTIONS_MAX: Final = 200
SILENCE_MAX_S: Final = 30.0
POLL_S: Final = 0.05


class SchemaRegistry:
    """A schema registry with Confluent's REST API, running from `start` to `close`, or as a context
    manager.

    `host` is the address that it listens at: loopback, unless other machines are to reach it.
    `credentials` ("user:password") are demanded of every request if there are any. With a
    `certificate` it speaks TLS. OSError when it cannot listen.
    """

    def __init__(
        self,
        host: str = LOOPBACK,
        port: int = 0,
        *,
        credentials: str | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.host, self._wanted_port = host, port
        self.credentials = credentials
        self.asked: Counter[str] = Counter()
        """How often each path was asked for, without its query."""
        self._certificate = certificate
        self._store = Store(self._compare)
        self._lock = threading.Lock()
        """Held while a request is answered, but while schemas are compared."""
        self._comparing = threading.Lock()
        self._failure: tuple[int, int] | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Listen; what was registered before is there. OSError."""
        if self._server is not None:
            return
        context = None if self._certificate is None else _context(self._certificate)
        self._server = _Server((self.host, self._wanted_port), self, context)
        self._wanted_port = self.port  # the same after `close` and `start`
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="fencepost-registry"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, cut all connections, end all threads."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self._server = self._thread = None
        server.shutdown()
        thread.join()
        server.cut()
        server.server_close()

    @property
    def port(self) -> int:
        """The port that it listens at; OSError when it does not."""
        if self._server is None:
            raise OSError("the registry is not running")
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address for clients on this machine, and on others if `host` is not loopback."""
        scheme = "http" if self._certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    # -- what a test does to it ------------------------------------------------------------------

    def register(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[Reference] = ()
    ) -> int:
        """Register a schema as a client would; its id. RegistryError."""
        with self._lock:
            schema = self._store.parse(subject, kind, text, references, False)
            return self._store.register(subject, schema).schema_id

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """The level of a subject, or of all. RegistryError."""
        with self._lock:
            self._store.set_compatibility(subject, level)

    def put_unchecked(
        self,
        schema_id: int,
        text: str,
        kind: str = "AVRO",
        references: Sequence[Reference] = (),
        *,
        subject: str | None = None,
    ) -> None:
        """A schema under an id, and as the next version of a subject, without a look at it, as no
        registry should have it: for tests of clients that must not trust what they get.
        RegistryError for an id that another schema has."""
        with self._lock:
            schema = Schema(kind, text, tuple(references), canonical=text)
            self._store.put_unchecked(schema_id, schema, subject)

    def fail(self, status: int = 500, count: int = -1) -> None:
        """Refuse the next `count` requests with this HTTP status; -1: all, until `heal`."""
        self._failure = status, count

    def heal(self) -> None:
        """Answer again."""
        self._failure = None

    # -- requests --------------------------------------------------------------------------------

    def respond(
        self, method: str, target: str, authorization: str | None, body: bytes
    ) -> tuple[int, str]:
        """Status and body of the answer to a request."""
        with self._lock:
            self.asked[target.partition("?")[0]] += 1
            try:
                self._check(authorization)
                found = answer(self._store, method, target, body)
            except RegistryError as error:
                return error.status, json.dumps({"error_code": error.code, "message": str(error)})
        return 200, found if isinstance(found, Text) else json.dumps(found)

    def _compare(self, level: str, schema: Schema, earlier: Numbered) -> list[str]:
        """Compare schemas for a request, which holds the lock, and let others be answered: of
        schemas at the limits this takes seconds. One comparison at a time."""
        self._lock.release()
        try:
            with self._comparing:
                return incompatibilities(level, schema, earlier)
        finally:
            self._lock.acquire()

    def _check(self, authorization: str | None) -> None:
        if self._failure is not None:
            status, left = self._failure
            if left:
                self._failure = status, left - 1 if left > 0 else left
                raise RegistryError(status, "the registry was told to refuse this")
        if self.credentials is None:
            return
        expected = "Basic " + base64.b64encode(self.credentials.encode()).decode()
        given = (authorization or "").encode(errors="replace")
        if not hmac.compare_digest(given, expected.encode()):
            raise RegistryError(401, "Unauthorized")


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="fencepost-registry-") as place:
        context.load_cert_chain(certificate.write(Path(place)))
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # they are waited for when it closes

    def __init__(
        self, address: tuple[str, int], registry: SchemaRegistry, context: ssl.SSLContext | None
    ) -> None:
        self.registry = registry
        self._context = context
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Past that of http.server, which asks the resolver for a name that nothing here needs.
        socketserver.TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(SILENCE_MAX_S)
        if self._context is not None:
            # The handshake is for the connection's thread: a client that is silent holds up none.
            connection = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._open_lock:
            if len(self._open) >= CONNECTIONS_MAX:
                return False
            self._open.add(request)
            return True

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Shut all connections down, so that their threads end."""
        with self._open_lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the client has left, or was cut off


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            self._send(411, json.dumps({"error_code": 411, "message": "Length Required"}))
            self.close_connection = True
            return
        if len(length) > 10 or int(length) > BODY_BYTES_MAX:
            self._send(413, json.dumps({"error_code": 413, "message": "Content Too Large"}))
            self.close_connection = True
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return
        authorization = self.headers.get("Authorization")
        self._send(*self.server.registry.respond(self.command, self.path, authorization, body))

    def _send(self, status: int, text: str) -> None:
        body = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="schema registry"')
        self.end_headers()
        self.wfile.write(body)
