"""A request leaves no reference cycle with work in it, whatever becomes of it: collections are rare
(`main.GC_THRESHOLD`), and what a cycle holds counts nowhere until then."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from fencepost.batch.header import pack_header, stamp_crc, unpack_header
from fencepost.broker import apis
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES, Route
from fencepost.wire.api import ApiVersionsRequest, ListOffsetsRequest
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ...reference_cycles import cycles, frozen, is_kept_work
from ...waiting import DEADLINE_S
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..samples import sample
from ..topic_requests import batch, fetch, make_topic, produce

apis.load_all()

LISTENERS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
LAST = 77
ASK = encode_request(
    ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3, LAST, "t"
)
"""What is sent behind each request: the answer to it says that the request is done."""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("cycles") / "data", LISTENERS)
    with frozen():
        yield running
    running.close()


def matters(one: object) -> bool:
    """Work that is kept, and messages."""
    return is_kept_work(one) or isinstance(one, Message)


def requests(route: Route, topic) -> Iterator[bytes]:
    """A request that is served, one that says nothing, one that is refused, one that is cut."""
    for version in {route.min_version, route.max_version}:
        good = sample(route.request_class, version, topic.name, topic.topic_id)
        unknown = sample(route.request_class, version, "no-such", Uuid.ZERO)
        for message in (good, route.request_class(), unknown):
            yield encode_request(message, version, 1, "t")
        cut = encode_request(good, version, 1, "t")[4:-1]
        yield struct.pack(">i", len(cut)) + cut


def finish(running: RunningNode, port: int, data: bytes) -> None:
    """Send a request, and wait until it is answered or the client is disconnected."""
    with Client(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)) as client:
        client.send_raw(data + ASK)
        with contextlib.suppress(EOFError, ConnectionError):
            while int.from_bytes(client.receive_frame()[:4]) != LAST:
                pass
    running.call(lambda: None)  # what was called back for it is done, too


KEYS = [("broker", key) for key in sorted(ROUTES)] + [
    ("controller", key) for key in sorted(CONTROLLER_ROUTES)
]


@pytest.mark.parametrize(("kind", "key"), KEYS, ids=lambda value: str(value))
def test_a_request_leaves_no_cycle(served, kind, key):
    route = (ROUTES if kind == "broker" else CONTROLLER_ROUTES)[key]
    part = getattr(served.node, kind)
    port = part.bound[0].port
    with served.connect() as client:
        topic = make_topic(client)
    sent = list(requests(route, topic))
    for data in sent:  # what is imported and made once is there afterwards
        finish(served, port, data)
    with cycles(matters) as found:
        for data in sent:
            finish(served, port, data)
    assert found == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_work_of_threads_leaves_no_cycle(served, codec):
    """Batches that threads decompress: appended, refused, searched by time, and fetched."""
    large = batch(b"x" * 600_000, compression=codec)
    damaged = bytearray(large)  # it claims two records
    pack_header(damaged, unpack_header(large)._replace(records_count=2, last_offset_delta=1))
    stamp_crc(damaged)
    by_time = ListOffsetsPartition(partition_index=0, timestamp=1)
    with served.connect() as client:
        topic = make_topic(client)
        search = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[by_time])]
        )

        def ask() -> list[int]:
            (found,) = client.ask(search, 7).topics[0].partitions
            (part,) = fetch(client, topic, found.offset)
            codes = [produce(client, topic, data).error_code for data in (large, damaged)]
            return [*codes, found.error_code, part.error_code]

        produce(client, topic, large)
        assert ask() == [0, ErrorCode.INVALID_RECORD, 0, 0]
        with cycles(matters) as found:
            ask()
            served.call(lambda: None)
        assert found == []


def test_a_cycle_is_found():
    def leave() -> None:
        try:
            raise ValueError("said the test")
        except ValueError as error:
            kept = error  # noqa: F841 - the frame has the error, which has the frame

    with cycles() as found:
        leave()
    assert any("frame of" in one and "leave" in one for one in found)
