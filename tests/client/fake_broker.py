"""A socket that speaks Kafka's framing and answers what a test says, byte for byte if need be.

Each connection has a thread; requests are decoded with the project's own messages, and a test's
`answer(request, version, correlation_id)` returns a response message, raw bytes to send as they
are, or None to close the connection. ApiVersions is answered from `versions` unless overridden.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from fencepost.client.protocol.framing import FrameReader
from fencepost.wire.api import request_class
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from fencepost.wire.frame import encode_response_parts, read_request_header

API_VERSIONS = 18
FRAME_BYTES_MAX = 100 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
Answer = Callable[[Any, int, int], Any]


class FakeBroker:
    """Listens on a free loopback port until closed; a context manager."""

    def __init__(self, answer: Answer, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.answer = answer
        self.versions = {API_VERSIONS: (0, 4), **(versions or {})}
        self.requests: list[tuple[Any, int]] = []
        self.connections = 0
        self._closing = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_connections()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def cut_connections(self) -> None:
        """Close every connection, as a broker that restarts does."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader(FRAME_BYTES_MAX)
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(RECEIVE_BYTES):
                if not all(self._answer(connection, frame) for frame in reader.feed(data)):
                    break
        with self._lock:
            self._open.discard(connection)

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        """Answer one request; False when the connection is to be closed instead."""
        header, position = read_request_header(frame)
        cls = request_class(header.request_api_key)
        known = cls.min_version <= header.request_api_version <= cls.max_version
        request = (
            cls.read(frame, position, header.request_api_version)[0]
            if known
            else header.request_api_key
        )
        self.requests.append((request, header.request_api_version))
        reply = self._reply(request, header.request_api_version, header.correlation_id)
        if reply:
            connection.sendall(reply)
        return reply is not None

    def _reply(self, request: Any, version: int, correlation_id: int) -> bytes | None:
        reply = self.answer(request, version, correlation_id)
        if reply is NotImplemented:
            reply = self.api_versions()
        if reply is None or isinstance(reply, bytes):
            return reply
        return b"".join(encode_response_parts(reply, version, correlation_id))

    def api_versions(self, error_code: int = 0) -> ApiVersionsResponse:
        """What this broker offers."""
        return ApiVersionsResponse(
            error_code=error_code,
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ],
        )


def framed(payload: bytes) -> bytes:
    """`payload` behind its length."""
    return struct.pack(">i", len(payload)) + payload
