"""Encoded topics: the bytes the codec would write, kept for as long as they are true, bounded."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.broker.cluster.encoded_topics import (
    OVERHEAD_BYTES,
    PARTITIONS_AT_ONCE,
    EncodedTopic,
    EncodedTopics,
    TopicKey,
    encode_partitions,
    encode_topic,
    join_response,
    join_topic,
)
from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.runtime.requests.permissions import OPERATIONS_NOT_ASKED_FOR
from fencepost.wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.types import Uuid

ID = Uuid(bytes(range(16)))


def partition(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=index % 3,
        partition_index=index,
        leader_id=1,
        leader_epoch=index,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2] * (index % 2),
    )


def topic(version: int, number: int, partitions: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=number % 2,
        name=f"topic-{number}",
        topic_id=ID,
        is_internal=version >= 1 and number % 2 == 0,
        partitions=[partition(index) for index in range(partitions)],
        topic_authorized_operations=number if version >= 8 else -0x80000000,
    )


def response(version: int) -> MetadataResponse:
    made = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="a", port=9)],
        cluster_id="c",
        controller_id=1,
    )
    if 8 <= version <= 10:
        made.cluster_authorized_operations = 77
    if version >= 13:
        made.error_code = 129
    return made


def joined(topic: MetadataResponseTopic, version: int) -> EncodedTopic:
    pieces = [
        encode_partitions(topic.partitions[start : start + PARTITIONS_AT_ONCE], version)
        for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE)
    ]
    count, topic.partitions = len(topic.partitions), []
    return EncodedTopic(join_topic(topic, pieces, count, version))


@pytest.mark.parametrize("version", range(MetadataResponse.max_version + 1))
def test_what_is_put_together_is_what_the_codec_writes(version):
    sizes = (0, 1, PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE + 1, 3)
    for count in (0, 1, len(sizes), 130):
        topics = [topic(version, at, sizes[at % len(sizes)]) for at in range(count)]
        whole = response(version)
        whole.topics = topics
        expected = whole.encode(version)
        assert [encode_topic(one, version) for one in topics] == [
            joined(topic(version, at, sizes[at % len(sizes)]), version).data for at in range(count)
        ]
        encoded = [joined(one, version) for one in topics]
        assert join_response(response(version), encoded, version) == expected


def key(version: int = 12) -> TopicKey:
    return TopicKey(ID, version, "PLAINTEXT", OPERATIONS_NOT_ASKED_FOR)


def test_bytes_are_kept_until_the_topic_or_a_broker_changes():
    kept, image = EncodedTopics(), ClusterImage()
    known, encoded = TopicImage("t", ID, ()), EncodedTopic(b"t")
    kept.put(key(), image, known, encoded)
    assert kept.get(key(), image, known) is encoded
    assert kept.get(key(), replace(image, offset=5), known) is encoded
    assert kept.get(key(), image, replace(known)) is None
    assert kept.get(key(), replace(image, brokers=image.brokers.set(1, "b")), known) is None
    assert kept.get(key(11), image, known) is None
    assert kept.get(replace(key(), listener_name="X"), image, known) is None
    assert kept.get(replace(key(), operations=8), image, known) is None


def test_memory_is_bounded_and_who_was_not_asked_for_goes_first():
    kept, image = EncodedTopics(3 * (OVERHEAD_BYTES + 1)), ClusterImage()
    known = TopicImage("t", ID, ())
    for version in range(3):
        kept.put(key(version), image, known, EncodedTopic(b"1"))
    assert kept.get(key(0), image, known) is not None
    kept.put(key(3), image, known, EncodedTopic(b"1"))
    assert [kept.get(key(at), image, known) is not None for at in range(4)] == [
        True,
        False,
        True,
        True,
    ]
    for _ in range(3):  # the same again takes no more
        kept.put(key(3), image, known, EncodedTopic(b"1"))
    assert kept.kept_bytes == 3 * (OVERHEAD_BYTES + 1)
    kept.put(key(4), image, known, EncodedTopic(bytes(4 * OVERHEAD_BYTES)))
    assert (kept.kept_bytes, kept.get(key(4), image, known)) == (0, None)
