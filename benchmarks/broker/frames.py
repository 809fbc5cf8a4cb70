"""The requests of the benchmarks as bytes, and one of them at a time over a plain socket."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost.batch.records import BatchBuilder
from fencepost.wire.api import CreateTopicsRequest, CreateTopicsResponse
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from fencepost.wire.frame import decode_response, encode_request

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
CREATE_TOPICS_VERSION: Final = 5
DELETE_TOPICS_VERSION: Final = 4
CLIENT_ID: Final = "benchmark"
RECORD_VALUE_BYTES: Final = 100
TIMEOUT_S: Final = 120
LENGTH: Final = struct.Struct(">i")
NEW_SESSION: Final = (0, 0)
NO_SESSION: Final = (0, -1)


class RefusedError(Exception):
    """A broker does not do what a load needs."""


def build_batch(size_bytes: int) -> bytes:
    """A record batch of about `size_bytes` bytes; of one record if that is small."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    builder.append(b"key-0001", b"v" * RECORD_VALUE_BYTES, timestamp_ms=now_ms)
    while builder.size_bytes < size_bytes:
        builder.append(b"key-0001", b"v" * RECORD_VALUE_BYTES, timestamp_ms=now_ms)
    return bytes(builder.build())


def produce_frame(topic: str, partition: int, batch_bytes: int, acks: int = -1) -> bytes:
    """One Produce request, v9."""
    data = PartitionProduceData(index=partition, records=build_batch(batch_bytes))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return bytes(encode_request(request, PRODUCE_VERSION, 7, CLIENT_ID))


def fetch_frame(
    partitions: list[tuple[str, int, int]],
    max_bytes: int,
    max_wait_ms: int = 500,
    session: tuple[int, int] = NO_SESSION,
) -> bytes:
    """One Fetch request, v12, of (topic, partition, offset) each."""
    topics: dict[str, FetchTopic] = {}
    for topic, partition, offset in partitions:
        found = topics.setdefault(topic, FetchTopic(topic=topic))
        found.partitions.append(
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max(max_bytes, 1),
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics.values()),
    )
    return bytes(encode_request(request, FETCH_VERSION, 7, CLIENT_ID))


class Asker:
    """A connection that has one request at a time answered."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._stream = sock.makefile("rb")

    def ask(self, frame: bytes, response_class: Any, version: int) -> Any:
        """The answer. ConnectionError if none comes."""
        self._sock.sendall(frame)
        head = self._stream.read(LENGTH.size)
        if len(head) < LENGTH.size:
            raise ConnectionError("the broker disconnected")
        _, response = decode_response(
            response_class, version, self._stream.read(*LENGTH.unpack(head))
        )
        return response

    def close(self) -> None:
        """No more questions."""
        self._stream.close()


@contextmanager
def asker(bootstrap: str) -> Iterator[Asker]:
    """A connection for as long as the block."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as sock:
        made = Asker(sock)
        try:
            yield made
        finally:
            made.close()


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create the topic unless it is there; its files go soon after it is deleted."""
    configs = [CreatableTopicConfig(name="file.delete.delay.ms", value="1000")]
    wanted = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, configs=configs
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_S * 1000)
    frame = bytes(encode_request(request, CREATE_TOPICS_VERSION, 1, CLIENT_ID))
    with asker(bootstrap) as one:
        response = one.ask(frame, CreateTopicsResponse, CREATE_TOPICS_VERSION)
    error = response.topics[0].error_code
    if error not in (0, 36):
        raise RefusedError(f"cannot create {topic}: error {error}")


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete the topic and what was written to it."""
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=TIMEOUT_S * 1000)
    frame = bytes(encode_request(request, DELETE_TOPICS_VERSION, 1, CLIENT_ID))
    with asker(bootstrap) as one:
        response = one.ask(frame, DeleteTopicsResponse, DELETE_TOPICS_VERSION)
    if response.responses[0].error_code:
        raise RefusedError(f"cannot delete {topic}: error {response.responses[0].error_code}")


def write_once(bootstrap: str, topic: str, partitions: int, batch_bytes: int) -> None:
    """One batch to every partition, until it is taken: a new topic may not have its leaders yet."""
    deadline = time.monotonic() + TIMEOUT_S
    with asker(bootstrap) as one:
        for partition in range(partitions):
            frame = produce_frame(topic, partition, batch_bytes)
            error = -1
            while error:
                if time.monotonic() > deadline:
                    raise RefusedError(f"{topic}-{partition} is not served: error {error}")
                response = one.ask(frame, ProduceResponse, PRODUCE_VERSION)
                error = response.responses[0].partition_responses[0].error_code
