"""Topics as they stand in Metadata responses, encoded once for all clients.

What a client gets of a topic follows from the topic and the brokers of one image, the version of
the API, the listener it came in by, and whether it asked what it may do. The bytes are kept by that
(`EncodedTopics`), for as long as both parts of the image are the ones they were made of: an image
that changes elsewhere changes nothing here.

A response is put together from bytes that the codec has written: those of a response with
one topic, or with some partitions of one, cut where the array begins and ends. What stands behind
an array has a fixed size in every version (`_behind_partitions`, `_behind_topics`). So a topic of
ten thousand partitions can be encoded in pieces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.wire.api.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.runtime import uvarint
from fencepost.wire.types import Uuid

KEPT_BYTES_MAX: Final = 8 << 20
"""Of all encoded topics; at 40 bytes for a partition, those of 200,000 partitions."""
OVERHEAD_BYTES: Final = 512
"""What an entry takes besides."""
PARTITIONS_AT_ONCE: Final = 100
"""So that their number takes one byte where it is a varint."""
_OPERATIONS_FROM: Final = 8
_CLUSTER_OPERATIONS_TO: Final = 10
_TOP_ERROR_FROM: Final = 13


class EncodedTopic(Struct, frozen=True):
    """A topic's bytes in a response, and the error codes in them that are not 0."""

    data: bytes
    errors: tuple[int, ...] = ()


class TopicKey(Struct, frozen=True):
    """What the bytes depend on besides the image."""

    topic_id: Uuid
    version: int
    listener_name: str
    operations: int
    """`topic_authorized_operations`, which are the client's."""


class _Entry(Struct, frozen=True):
    encoded: EncodedTopic
    topic: TopicImage
    brokers: object


class EncodedTopics:
    """The encoded topics of a node, the most recently asked for."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._entries: OrderedDict[TopicKey, _Entry] = OrderedDict()
        self.kept_bytes = 0

    def get(self, key: TopicKey, image: ClusterImage, topic: TopicImage) -> EncodedTopic | None:
        """The bytes, if they were made of this topic and of these brokers."""
        entry = self._entries.get(key)
        if entry is None or entry.topic is not topic or entry.brokers is not image.brokers:
            return None
        self._entries.move_to_end(key)
        return entry.encoded

    def put(
        self, key: TopicKey, image: ClusterImage, topic: TopicImage, encoded: EncodedTopic
    ) -> None:
        """Keep the bytes; those that were not asked for longest make room."""
        self._drop(key)
        self._entries[key] = _Entry(encoded, topic, image.brokers)
        self.kept_bytes += len(encoded.data) + OVERHEAD_BYTES
        while self.kept_bytes > self._kept_bytes_max:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: TopicKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.kept_bytes -= len(entry.encoded.data) + OVERHEAD_BYTES


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """A topic in a response of this version."""
    begin = _topics_begin(version)
    data = MetadataResponse(topics=[topic]).encode(version)
    return data[begin : len(data) - _behind_topics(version)]


def encode_partitions(partitions: Sequence[MetadataResponsePartition], version: int) -> bytes:
    """Up to `PARTITIONS_AT_ONCE` partitions of a topic, without their number."""
    assert len(partitions) <= PARTITIONS_AT_ONCE
    behind = _behind_partitions(version)
    begin = _partitions_begin(version)
    data = encode_topic(MetadataResponseTopic(partitions=list(partitions)), version)
    return data[begin : len(data) - behind]


def join_topic(
    topic: MetadataResponseTopic, pieces: Sequence[bytes], count: int, version: int
) -> bytes:
    """`topic`, which has no partitions, with `count` partitions in `pieces`."""
    data, behind = encode_topic(topic, version), _behind_partitions(version)
    return _join(data, behind, pieces, count, version)


def join_response(
    response: MetadataResponse, topics: Sequence[EncodedTopic], version: int
) -> bytes:
    """`response`, which has no topics, with these."""
    pieces = [topic.data for topic in topics]
    data = response.encode(version)
    return _join(data, _behind_topics(version), pieces, len(pieces), version)


def _join(data: bytes, behind: int, pieces: Sequence[bytes], count: int, version: int) -> bytes:
    """Put an array in the place of the empty one that has `behind` bytes behind it."""
    end = len(data) - behind
    if _is_flexible(version):
        return b"".join((data[: end - 1], uvarint(count + 1), *pieces, data[end:]))
    return b"".join((data[: end - 4], count.to_bytes(4), *pieces, data[end:]))


def _is_flexible(version: int) -> bool:
    return MetadataResponse.is_flexible(version)


@cache
def _topics_begin(version: int) -> int:
    """Where the first topic of a response begins, if there is one."""
    return len(MetadataResponse().encode(version)) - _behind_topics(version)


@cache
def _partitions_begin(version: int) -> int:
    """Where the first of few partitions begins in a topic without a name."""
    return len(encode_topic(MetadataResponseTopic(), version)) - _behind_partitions(version)


def _behind_partitions(version: int) -> int:
    """Bytes of a topic behind its partitions: what the client may do, and no tags."""
    return 4 * (version >= _OPERATIONS_FROM) + _is_flexible(version)


def _behind_topics(version: int) -> int:
    """Bytes of a response behind its topics: what the client may do, or an error, and no tags."""
    operations = 4 * (_OPERATIONS_FROM <= version <= _CLUSTER_OPERATIONS_TO)
    return operations + 2 * (version >= _TOP_ERROR_FROM) + _is_flexible(version)
