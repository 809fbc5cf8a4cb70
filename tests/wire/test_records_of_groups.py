"""Records of groups and of the consumer protocol, which have their version in front."""

import struct

import pytest

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.records import (
    consumer,
    group,
    metadata,
)

from .record_samples import varied

# -- groups ------------------------------------------------------------------------------------


def test_offset_commit_bytes_are_kafkas():
    key = group.OffsetCommitKey(group="g", topic="t", partition=1)
    assert group.encode_key(key) == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x01"
    value = group.OffsetCommitValue(offset=10, leader_epoch=2, metadata="m", commit_timestamp=3)
    data = group.encode_value(value, 3)
    assert data == struct.pack(">hqih1sq", 3, 10, 2, 1, b"m", 3)
    assert group.decode_value(key, data) == value


KEY_CLASSES = [
    group.LegacyOffsetCommitKey,
    group.OffsetCommitKey,
    group.GroupMetadataKey,
    group.ConsumerGroupMetadataKey,
    group.ConsumerGroupPartitionMetadataKey,
    group.ConsumerGroupMemberMetadataKey,
    group.ConsumerGroupTargetAssignmentMetadataKey,
    group.ConsumerGroupTargetAssignmentMemberKey,
    group.ConsumerGroupCurrentMemberAssignmentKey,
    group.ConsumerGroupRegularExpressionKey,
]


@pytest.mark.parametrize("key_class", KEY_CLASSES)
def test_every_group_key_survives(key_class):
    key = varied(key_class, 0)
    data = group.encode_key(key)
    assert struct.unpack_from(">h", data) == (key_class.record_id,)
    assert group.decode_key(data) == key
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            group.decode_key(data[:end])
    with pytest.raises(DecodeError):
        group.decode_key(data + b"\x00")


VALUES = [
    (group.OffsetCommitKey(), group.OffsetCommitValue),
    (group.LegacyOffsetCommitKey(), group.OffsetCommitValue),
    (group.GroupMetadataKey(), group.GroupMetadataValue),
    (group.ConsumerGroupMetadataKey(), group.ConsumerGroupMetadataValue),
    (group.ConsumerGroupMemberMetadataKey(), group.ConsumerGroupMemberMetadataValue),
    (
        group.ConsumerGroupCurrentMemberAssignmentKey(),
        group.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    (group.ConsumerGroupRegularExpressionKey(), group.ConsumerGroupRegularExpressionValue),
]


@pytest.mark.parametrize(("key", "value_class"), VALUES)
def test_group_values_survive_every_version(key, value_class):
    for version in range(value_class.min_version, value_class.max_version + 1):
        value = varied(value_class, version)
        data = group.encode_value(value, version)
        assert group.decode_value(key, data) == value
        with pytest.raises(DecodeError):
            group.decode_value(key, data + b"\x00")


def test_group_members_survive():
    member = group.MemberMetadata(
        member_id="m", client_id="c", client_host="/h", subscription=b"s", assignment=b"a"
    )
    value = group.GroupMetadataValue(protocol_type="consumer", members=[member])
    for version in range(5):
        data = group.encode_value(value, version)
        assert group.decode_value(group.GroupMetadataKey(), data) == value


def test_types_from_elsewhere_are_told_apart_from_damage():
    for record_type in (18, 24, 999, -1):
        with pytest.raises(group.UnknownRecordTypeError) as caught:
            group.decode_key(struct.pack(">h", record_type) + b"\x00\x01g")
        assert caught.value.record_type == record_type
    with pytest.raises(DecodeError) as caught:
        group.decode_key(b"\x00")
    assert not isinstance(caught.value, group.UnknownRecordTypeError)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x05", b"\xff\xff", b"\x00\x03\x00"])
def test_damaged_group_values_are_decode_errors(data):
    with pytest.raises(DecodeError):
        group.decode_value(group.OffsetCommitKey(), data)


def test_only_group_messages_get_the_group_frame():
    with pytest.raises(EncodeError):
        group.encode_key(metadata.TopicRecord())
    with pytest.raises(EncodeError):
        group.encode_key(group.OffsetCommitValue())
    for stranger in (metadata.TopicRecord(), group.OffsetCommitKey()):
        with pytest.raises(EncodeError):
            group.encode_value(stranger, 0)
    with pytest.raises(DecodeError):
        group.decode_value(metadata.NoOpRecord(), b"\x00\x00")


# -- consumer protocol -------------------------------------------------------------------------


def test_subscription_bytes_are_kafkas():
    subscription = consumer.ConsumerProtocolSubscription(topics=["t"])
    assert consumer.encode_prefixed(subscription, 0) == (
        b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"
    )


def test_prefixed_messages_survive_every_version():
    for version in range(4):
        assignment = consumer.ConsumerProtocolAssignment(
            assigned_partitions=[consumer.TopicPartitionAssigned(topic="t", partitions=[0, 2])],
            user_data=b"u",
        )
        data = consumer.encode_prefixed(assignment, version)
        assert consumer.decode_prefixed(consumer.ConsumerProtocolAssignment, data) == assignment
    subscription = consumer.ConsumerProtocolSubscription(
        topics=["a", "b"],
        owned_partitions=[consumer.TopicPartitionOwned(topic="a", partitions=[1])],
        generation_id=4,
        rack_id="r",
    )
    data = consumer.encode_prefixed(subscription, 3)
    assert consumer.decode_prefixed(consumer.ConsumerProtocolSubscription, data) == subscription


def test_a_later_version_is_read_as_the_highest_known():
    subscription = consumer.ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    data = b"\x00\x09" + subscription.encode(3) + b"something new"
    assert consumer.decode_prefixed(consumer.ConsumerProtocolSubscription, data) == subscription


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x00\x00"])
def test_damaged_prefixed_messages_are_decode_errors(data):
    with pytest.raises(DecodeError):
        consumer.decode_prefixed(consumer.ConsumerProtocolSubscription, data)


@pytest.mark.parametrize("version", range(4))
def test_a_later_assignment_is_read_as_the_highest_known(version):
    assignment = consumer.ConsumerProtocolAssignment(
        assigned_partitions=[consumer.TopicPartitionAssigned(topic="t", partitions=[0, 2])]
    )
    data = consumer.encode_prefixed(assignment, version)
    assert data == (
        struct.pack(">h", version)
        + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02"
        + b"\xff\xff\xff\xff"
    )
    for later in (version, 4, 0x7FFF):
        stamped = struct.pack(">h", later) + data[2:] + b"of tomorrow"
        assert consumer.decode_prefixed(consumer.ConsumerProtocolAssignment, stamped) == assignment
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            consumer.decode_prefixed(consumer.ConsumerProtocolAssignment, data[:end])


def test_subscriptions_grow_at_their_end():
    subscription = consumer.ConsumerProtocolSubscription(
        topics=["t"],
        user_data=b"u",
        owned_partitions=[consumer.TopicPartitionOwned(topic="t", partitions=[1])],
        generation_id=4,
        rack_id="r",
    )
    v0 = b"\x00\x00\x00\x01\x00\x01t" + b"\x00\x00\x00\x01u"
    v1 = v0 + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x01"
    v2 = v1 + b"\x00\x00\x00\x04"
    v3 = v2 + b"\x00\x01r"
    for version, body in enumerate((v0, v1, v2, v3)):
        data = consumer.encode_prefixed(subscription, version)
        assert data == struct.pack(">h", version) + body
        for end in range(len(data)):
            with pytest.raises(DecodeError):
                consumer.decode_prefixed(consumer.ConsumerProtocolSubscription, data[:end])


def test_a_member_of_the_consumer_protocol_is_written_as_kafka_writes_it():
    """Bytes from the log of Apache Kafka 4.4.0. In a tagged field a null struct is one byte 0."""
    data = bytes.fromhex(
        "0000 00 00 0a 66656e6365706f7374 0b 2f3132372e302e302e31 02 02 74 01 000493e0 00"
        "01 00 01 00"
    )
    key = group.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    value = group.decode_value(key, data)
    assert value == group.ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="fencepost",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=300_000,
        server_assignor=None,
        classic_member_metadata=None,
    )
    assert group.encode_value(value, 0) == data
    without_tag = data[:-4] + b"\x00"
    assert group.decode_value(key, without_tag).classic_member_metadata == (
        group.ClassicMemberMetadata()
    )
