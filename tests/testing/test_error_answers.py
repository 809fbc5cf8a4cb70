"""Answers of failed requests, of every API in every version that we know."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.testing.faults.error_answers import (
    ERROR_FIELDS,
    SPOILED,
    error_answer,
    spoil,
)
from fencepost.wire.api import API_NAMES, request_class, response_class
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response, encode_response
from fencepost.wire.message import Struct
from fencepost.wire.types import Primitive, Uuid

LEGACY = {4, 5, 6}
"""Controller to broker in ZooKeeper's days: not in Kafka 4."""
NO_ITEMS = {31: "matching_acls", 32: "configs"}
VERSIONS = [
    (key, version)
    for key in sorted(API_NAMES)
    if key not in LEGACY
    for version in range(request_class(key).min_version, request_class(key).max_version + 1)
]
ZEROS: dict[Primitive, Any] = {
    Primitive.STRING: "x",
    Primitive.BOOL: True,
    Primitive.UUID: Uuid(b"u" * 16),
    Primitive.BYTES: b"b",
    Primitive.RECORDS: b"",
    Primitive.FLOAT64: 1.0,
}


def filled(struct: Any, version: int) -> Any:
    """A struct with two elements in every array."""
    for field in type(struct).fields:
        if not field.versions.holds(version):
            continue
        one: Any
        if field.struct is not None:
            one = [filled(field.struct(), version) for _ in range(2 if field.is_array else 1)]
        else:
            assert field.primitive is not None
            one = [ZEROS.get(field.primitive, 7)] * (2 if field.is_array else 1)
        setattr(struct, field.name, one if field.is_array else one[0])
    return struct


def errors_in(struct: Struct, version: int) -> tuple[list[int], list[int]]:
    """Error codes of the struct itself, and of all that is in its arrays."""
    own, inner = [], []
    for field in type(struct).fields:
        if not field.versions.holds(version):
            continue
        value = getattr(struct, field.name)
        if field.name in ERROR_FIELDS:
            own.append(value)
        elif field.is_array and field.struct is not None:
            for item in value or ():
                inner += [code for codes in errors_in(item, version) for code in codes]
    return own, inner


def has_inner_errors(cls: Any, version: int) -> bool:
    """Whether elements of the response's arrays have error codes."""
    return any(
        field.struct is not None
        and field.versions.holds(version)
        and (
            any(f.name in ERROR_FIELDS and f.versions.holds(version) for f in field.struct.fields)
            or has_inner_errors(field.struct, version)
        )
        for field in cls.fields
    )


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_every_item_of_every_answer_carries_the_error(error):
    for key, version in VERSIONS:
        if key in SPOILED:
            continue
        what = f"{API_NAMES[key]} v{version}"
        answer = error_answer(filled(request_class(key)(), version), version, error)
        assert answer is not None, what
        _, found = decode_response(
            response_class(key), version, encode_response(answer, version, 1)[4:]
        )
        own, inner = errors_in(found, version)
        assert set(inner) <= {error}, what
        if has_inner_errors(response_class(key), version):
            assert len(inner) >= 2, f"{what} lists what the request lists"
        if error is ErrorCode.UNKNOWN_SERVER_ERROR or not inner:
            assert set(own) <= {error}, what
        else:
            assert not any(own), f"{what}: an error about a partition is not one of the request"
        assert own or inner, what


def test_partitions_are_named_as_the_request_names_them():
    data = [PartitionProduceData(index=3), PartitionProduceData(index=5)]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="a", partition_data=data)])
    answer: Any = error_answer(request, 9, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (topic,) = answer.responses
    assert topic.name == "a"
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (3, 6, -1),
        (5, 6, -1),
    ]


def test_topic_ids_are_kept():
    topic_id = Uuid.random()
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=2)])]
    answer: Any = error_answer(FetchRequest(topics=topics), 13, ErrorCode.UNKNOWN_TOPIC_ID)
    assert answer.responses[0].topic_id == topic_id
    (partition,) = answer.responses[0].partitions
    assert (partition.partition_index, partition.high_watermark) == (2, -1)
    assert answer.error_code == 0


def test_an_error_of_a_fetch_session_names_no_partition():
    topics = [FetchTopic(topic="a", partitions=[FetchPartition(partition=2)])]
    request = FetchRequest(topics=topics, session_id=9, session_epoch=4)
    answer: Any = error_answer(request, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (answer.error_code, answer.responses, answer.session_id) == (70, [], 0)


def test_primitive_items_become_answers():
    topics = [OffsetFetchRequestTopics(name="a", partition_indexes=[4, 6])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer: Any = error_answer(
        OffsetFetchRequest(groups=[group]), 8, ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    (said,) = answer.groups
    assert said.group_id == "g"
    assert [(p.partition_index, p.committed_offset) for p in said.topics[0].partitions] == [
        (4, -1),
        (6, -1),
    ]


def test_a_member_is_told_its_id():
    answer: Any = error_answer(
        JoinGroupRequest(group_id="g", member_id="m"), 5, ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert (answer.error_code, answer.member_id) == (25, "m")


def test_metadata_fail_with_the_brokers_in_them():
    topic = MetadataResponseTopic(name="a", partitions=[MetadataResponsePartition()])
    brokers = [MetadataResponseBroker(node_id=1, host="h", port=2)]
    answer = MetadataResponse(topics=[topic], brokers=brokers)
    assert spoil(answer, 12, ErrorCode.LEADER_NOT_AVAILABLE)
    assert answer.topics[0].error_code == 5
    assert answer.topics[0].partitions == []
    assert answer.brokers == brokers
    assert not spoil(MetadataResponse(brokers=brokers), 12, ErrorCode.LEADER_NOT_AVAILABLE)
