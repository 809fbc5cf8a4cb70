"""What a master of Spark says while it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fencepost.testing.spark_standalone import state_of_master


@contextmanager
def answering(*bodies: bytes) -> Iterator[str]:
    """The address of a server that answers each request with the next of these."""
    left = iter(bodies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = next(left)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/json/"
        finally:
            server.shutdown()


def test_a_page_that_answers_for_the_one_of_json_is_a_master_that_starts():
    page, half = b"<!DOCTYPE html><html></html>", b'{"workers": ['
    with answering(page, half, b"", b'{"workers": []}') as address:
        for _ in range(3):
            with pytest.raises(OSError, match="does not answer with JSON yet"):
                state_of_master(address)
        assert state_of_master(address) == {"workers": []}


def test_a_master_that_is_not_there_is_an_os_error():
    with answering() as address:
        pass
    with pytest.raises(OSError):
        state_of_master(address)
