"""Conditional puts whose answers are lost: who wrote is told by what is there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("obstore")

from fencepost.arrow.storage import Storage, storage_at
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.versions import Settings, Version, Versions


class LossyS3(ThreadingHTTPServer):
    """As much of S3 as conditional puts need. `lost` is how many puts are done, and not answered;
    `others` what another writer puts before the next one is done."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.lost = 0
        self.puts = 0
        self.others: dict[str, bytes] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the connection was cut on purpose


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyS3

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key, there = self.path.partition("?")[0], self.server.objects
        self.server.puts += 1
        there.update(self.server.others)
        self.server.others = {}
        wanted = self.headers.get("If-Match")
        taken = self.headers.get("If-None-Match") == "*" and key in there
        if taken or (wanted is not None and (key not in there or wanted != etag(there[key]))):
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        there[key] = body
        if self.server.lost:
            self.server.lost -= 1
            self.close_connection = True
            return
        self.answer(200, b"", body)

    def do_GET(self) -> None:
        if "list-type=2" in self.path:
            self.answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
            return
        body = self.server.objects.get(self.path.partition("?")[0])
        if body is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(200, body, body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, status: int, body: bytes, of: bytes | None = None) -> None:
        self.send_response(status)
        if of is not None:
            self.send_header("ETag", etag(of))
            self.send_header("Last-Modified", "Sun, 29 Nov 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


@pytest.fixture
def server() -> Iterator[LossyS3]:
    with LossyS3() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def storage(server: LossyS3) -> Storage:
    return storage_at(
        "s3://bucket/dir",
        {
            "endpoint_override": f"127.0.0.1:{server.server_address[1]}",
            "scheme": "http",
            "region": "here",
            "access_key": "a",
            "secret_key": "b",
        },
    )


def test_a_creation_whose_answer_is_lost_has_succeeded(server: LossyS3, storage: Storage) -> None:
    server.lost = 1
    assert storage.create_bytes("state", b"mine")
    assert server.puts == 2  # it was sent again
    assert not storage.create_bytes("state", b"other")
    assert server.objects == {"/bucket/dir/state": b"mine"}


def test_another_writer_between_the_two_is_not_taken_for_oneself(
    server: LossyS3, storage: Storage
) -> None:
    server.others = {"/bucket/dir/state": b"theirs"}
    assert not storage.create_bytes("state", b"mine")
    assert storage.read_bytes("state") == b"theirs"


def test_a_replacement_whose_answer_is_lost_has_succeeded(
    server: LossyS3, storage: Storage
) -> None:
    assert storage.create_bytes("state", b"1")
    _, version = storage.read_version("state")
    server.lost = 1
    assert storage.replace_bytes("state", b"2", version)
    assert not storage.replace_bytes("state", b"3", version)
    server.objects.clear()
    with pytest.raises(FileNotFoundError):
        storage.replace_bytes("state", b"4", version)


def test_a_version_of_a_table_whose_answer_is_lost_counts(
    server: LossyS3, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch failed before, as if another writer had published the version."""
    monkeypatch.setattr(Versions, "finish", lambda self, version: None)  # takes more of S3
    versions = Versions(storage)
    columns = pa.schema([("key", pa.binary())])
    server.lost = 1
    first = versions.publish(Version(Settings("bytes", ("key",), "topic", 1), columns))
    assert (first.number, versions.require_newest().number) == (1, 1)
    place = "/bucket/dir/_table/versions/00000000000000000002.json"
    server.others = {place: server.objects[place.replace("2.json", "1.json")]}
    with pytest.raises(TableError, match="another writer published version 2"):
        versions.publish(first)
