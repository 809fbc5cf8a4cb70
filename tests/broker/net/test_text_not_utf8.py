"""Names that are not UTF-8 are served as Kafka serves them; what would be stored so is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker import apis
from fencepost.broker.net.pending_request import error_response
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES
from fencepost.wire.api import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    alter_configs,
    create_topics,
    incremental_alter_configs,
    join_group,
    metadata,
    offset_commit,
    response_class,
    txn_offset_commit,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response, encode_request
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..samples import sample
from ..topic_requests import batch, fetch_request, make_topic, produce_request

apis.load_all()

BAD = "\x7f\x7f\x7f"
"""Is sent as three bytes that are not UTF-8."""
MARK = "\N{REPLACEMENT CHARACTER}"
SHOWN = 3 * MARK
TOPIC = 2
GROUPS = ("classic", "consumer")


def frame_of(message: Message, version: int, client_id: str = "test") -> bytes:
    """The request, with bytes that are not UTF-8 where it says BAD."""
    return encode_request(message, version, 1, client_id).replace(BAD.encode(), b"\xff\xfe\xfd")


def ask(client: Any, message: Message, version: int, client_id: str = "test") -> Any:
    """The answer to it."""
    key = type(message).api_key
    client.send_raw(frame_of(message, version, client_id))
    return decode_response(response_class(key), version, client.receive_frame())[1]


@pytest.mark.parametrize("key", sorted(ROUTES))
def test_every_api_answers(node, key, caplog):
    route = ROUTES[key]
    for version in {route.min_version, route.max_version}:
        message = sample(route.request_class, version, BAD, Uuid.ZERO)
        with node.connect() as client:
            if route.stores_text and error_response(route, version, ErrorCode.NONE) is None:
                client.send_raw(frame_of(message, version, f"client {BAD}"))
                assert client.is_disconnected(), "the answer has no place for the error"
            else:
                ask(client, message, version, f"client {BAD}")
    assert [one for one in caplog.records if one.exc_info] == []


def test_a_client_id_is_a_name_for_people(node, client):
    """Also of Produce and Fetch, which have shorter ways, and when requests come in a row."""
    topic = make_topic(client)
    with node.connect() as odd:
        for offset in range(3):
            answer = ask(odd, produce_request(topic, batch(b"a")), 9, BAD)
            assert answer.responses[0].partition_responses[0].base_offset == offset
        for _ in range(2):
            answer = ask(odd, fetch_request(topic, 0), 12, BAD)
            assert answer.responses[0].partitions[0].high_watermark == 3
        odd.send_raw(4 * frame_of(produce_request(topic, batch(b"b")), 9, BAD))
        for offset in range(3, 7):
            _, answer = odd.receive(0, 9)
            assert answer.responses[0].partition_responses[0].base_offset == offset


def test_a_topic_of_such_a_name_does_not_exist(node, client):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = create_topics.CreatableTopicResult(name=BAD)
    for _ in range(2):
        answer = ask(client, produce_request(topic, batch(b"a")), 9)
        assert answer.responses[0].name == SHOWN
        assert answer.responses[0].partition_responses[0].error_code == unknown
        answer = ask(client, fetch_request(topic, 0), 12)
        assert answer.responses[0].topic == SHOWN
        assert answer.responses[0].partitions[0].error_code == unknown
    wanted = MetadataRequest(topics=[metadata.MetadataRequestTopic(name=BAD)])
    (found,) = ask(client, wanted, 9).topics
    assert (found.name, found.error_code) == (SHOWN, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_group_of_such_a_name_is_looked_for(client):
    looked_for = FindCoordinatorRequest(key=BAD)
    eventually(lambda: ask(client, looked_for, 3).error_code == 0, "its topic has been created")

    def described() -> bool:
        (group,) = ask(client, DescribeGroupsRequest(groups=[BAD]), 5).groups
        return (group.group_id, group.group_state) == (SHOWN, "Dead")

    eventually(described, "the coordinator has loaded")
    assert ask(client, OffsetFetchRequest(group_id=BAD, topics=None), 5).error_code == 0


def join(**fields: Any) -> JoinGroupRequest:
    kinds = [join_group.JoinGroupRequestProtocol(name=fields.pop("protocol", "range"))]
    wanted = {"group_id": "g", "protocol_type": "consumer", "session_timeout_ms": 10_000}
    return JoinGroupRequest(**{**wanted, **fields}, protocols=kinds)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (join(group_id=BAD), ErrorCode.INVALID_GROUP_ID),
        (join(group_instance_id=BAD), ErrorCode.INVALID_REQUEST),
        (join(protocol_type=BAD), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join(protocol=BAD), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join(member_id=BAD), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
    ids=["group", "instance", "protocol type", "protocol", "member"],
)
def test_no_member_has_such_a_text(client, message, error):
    looked_for = FindCoordinatorRequest(key="g")
    eventually(lambda: ask(client, looked_for, 3).error_code == ErrorCode.NONE)
    eventually(lambda: ask(client, message, 5).error_code == error)


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize(
    ("group_id", "kept", "error"),
    [
        (BAD, "", ErrorCode.INVALID_GROUP_ID),
        ("g", BAD, ErrorCode.INVALID_REQUEST),
    ],
    ids=["group", "metadata"],
)
def test_no_offset_is_kept_with_such_a_text(client, topic, group_id, kept, error, is_transactional):
    request: OffsetCommitRequest | TxnOffsetCommitRequest
    if is_transactional:
        part = txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=kept
        )
        asked = txn_offset_commit.TxnOffsetCommitRequestTopic(name=topic.name, partitions=[part])
        request = TxnOffsetCommitRequest(
            transactional_id="t", group_id=group_id, producer_id=1, topics=[asked]
        )
        answer = ask(client, request, 3)
    else:
        one = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=kept
        )
        wanted = offset_commit.OffsetCommitRequestTopic(name=topic.name, partitions=[one])
        request = OffsetCommitRequest(group_id=group_id, topics=[wanted])
        answer = ask(client, request, 8)
    assert answer.topics[0].partitions[0].error_code == error


def test_no_transactional_id_is_such_a_text(client):
    answer = ask(client, InitProducerIdRequest(transactional_id=BAD), 4)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_no_topic_has_such_a_name_or_config(client):
    def create(name: str, **configs: str) -> int:
        made = create_topics.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        return ask(client, CreateTopicsRequest(topics=[made]), 7).topics[0].error_code

    assert create(BAD) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create("odd", cleanup_policy=BAD) == ErrorCode.INVALID_CONFIG
    assert create("odd", leader_replication_throttled_replicas=BAD) == ErrorCode.INVALID_CONFIG


def test_no_config_has_such_a_value(client, topic):
    change = incremental_alter_configs.AlterableConfig(
        name="leader.replication.throttled.replicas", config_operation=0, value=BAD
    )
    changed = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name=topic.name, configs=[change]
    )
    (answer,) = ask(client, IncrementalAlterConfigsRequest(resources=[changed]), 1).responses
    assert (answer.error_code, answer.resource_name) == (ErrorCode.INVALID_CONFIG, topic.name)
    value = alter_configs.AlterableConfig(name="retention.ms", value=BAD)
    replaced = alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name=topic.name, configs=[value]
    )
    (answer,) = ask(client, AlterConfigsRequest(resources=[replaced]), 2).responses
    assert answer.error_code == ErrorCode.INVALID_CONFIG


def test_nothing_of_it_is_stored(node, client):
    groups = ask(client, ListGroupsRequest(), 2).groups
    assert [one for one in groups if MARK in one.group_id] == []
    assert MARK not in repr(node.call(lambda: node.node.image))
    kept = [key for kind in (ROUTES, CONTROLLER_ROUTES) for key in kind if kind[key].stores_text]
    expected = [22, 30, 38, 49, 51, 62, 68, 70, 76, 80, 82, 83, 84, 85, 86, 87, 88, 91]
    assert sorted(set(kept)) == expected
