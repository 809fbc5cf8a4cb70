"""The frames around records of Kafka's own logs: known bytes, every class, and damaged input."""

import struct

import pytest

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.records import consumer, control, group, metadata
from fencepost.wire.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))


def _varied(message_class, version):
    """An object with something other than the default in every plain field of the version."""
    values = {}
    for field in message_class.fields:
        if not field.versions.holds(version) or field.is_array or field.struct is not None:
            continue
        kind = field.primitive.name
        if kind in ("STRING",):
            values[field.name] = "säule"
        elif kind == "BYTES":
            values[field.name] = b"\x00\xff"
        elif kind == "UUID":
            values[field.name] = TOPIC_ID
        elif kind == "BOOL":
            values[field.name] = True
        elif kind == "FLOAT64":
            values[field.name] = 0.5
        else:
            values[field.name] = 7
    return message_class(**values)


# -- metadata ----------------------------------------------------------------------------------


def test_metadata_record_bytes_are_kafkas():
    record = metadata.TopicRecord(name="events", topic_id=TOPIC_ID)
    expected = b"\x01\x02\x00" + b"\x07events" + bytes(range(16)) + b"\x00"
    assert metadata.encode_record(record) == expected
    assert metadata.decode_record(expected) == record


@pytest.mark.parametrize("record_id", sorted(metadata.RECORD_CLASSES))
def test_every_metadata_record_survives_every_version(record_id):
    record_class = metadata.RECORD_CLASSES[record_id]
    for version in range(record_class.min_version, record_class.max_version + 1):
        record = _varied(record_class, version)
        data = metadata.encode_record(record, version)
        assert data[:3] == bytes((1, record_id, version))
        assert metadata.decode_record(data) == record
        assert metadata.decode_record(memoryview(bytearray(data))) == record


def test_metadata_ids_are_kafkas():
    unused = {6, 13, 16}
    assert set(metadata.RECORD_CLASSES) == set(range(30)) - unused


def test_versions_unknown_to_4_3_are_not_written_unasked():
    assert metadata.written_version(metadata.RegisterBrokerRecord) == 3
    assert metadata.encode_record(metadata.RegisterBrokerRecord())[2] == 3
    with pytest.raises(EncodeError):
        metadata.encode_record(metadata.RegisterBrokerRecord(cordoned_log_dirs=[TOPIC_ID]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x01\x02",
        b"\x00\x02\x00",  # frame version 0
        b"\x02\x02\x00\x01" + bytes(17),  # frame version 2
        b"\x01\x06\x00\x00",  # an id nobody has
        b"\x01\x02\x01\x01" + bytes(17),  # a version TopicRecord does not have
        b"\xff\xff\xff\xff\xff\xff",  # a number without end
        b"\x01\x14\x00\x00\x00",  # a byte too many
        b"\x01\x02\x00\x05ab",  # a name that is cut off
    ],
)
def test_damaged_metadata_records_are_decode_errors(data):
    with pytest.raises(DecodeError):
        metadata.decode_record(data)


def test_a_metadata_record_cut_anywhere_is_a_decode_error():
    record = metadata.PartitionRecord(topic_id=TOPIC_ID, replicas=[1, 2], isr=[1], leader=1)
    whole = metadata.encode_record(record)
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            metadata.decode_record(whole[:end])


def test_only_metadata_records_get_the_frame():
    with pytest.raises(EncodeError):
        metadata.encode_record(control.EndTxnMarker())
    with pytest.raises(EncodeError):
        metadata.encode_record(group.OffsetCommitKey())


# -- control -----------------------------------------------------------------------------------


def test_control_keys():
    assert control.encode_control_key(control.ControlType.LEADER_CHANGE) == b"\x00\x00\x00\x02"
    assert control.decode_control_key(b"\x00\x00\x00\x01") == control.ControlType.COMMIT
    # A later version of the key may say more behind the type.
    assert control.decode_control_key(b"\x00\x09\x00\x01extra") == control.ControlType.COMMIT
    for bad in (b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"):
        with pytest.raises(DecodeError):
            control.decode_control_key(bad)


def test_an_end_marker_has_a_version_in_front_and_raft_records_have_it_inside():
    marker = control.EndTxnMarker(coordinator_epoch=5)
    assert control.encode_control_value(marker) == b"\x00\x00\x00\x00\x00\x05"
    assert control.decode_control_value(1, b"\x00\x00\x00\x00\x00\x05") == marker
    change = control.LeaderChangeMessage(
        leader_id=1, voters=[control.LeaderChangeVoter(voter_id=1)]
    )
    data = control.encode_control_value(change)
    assert (
        data == b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x02\x00\x00\x00\x01\x00" + b"\x01" + b"\x00"
    )
    assert control.decode_control_value(control.ControlType.LEADER_CHANGE, data) == change


@pytest.mark.parametrize(
    ("control_type", "record"),
    [
        (3, control.SnapshotHeaderRecord(last_contained_log_timestamp=12345)),
        (4, control.SnapshotFooterRecord()),
        (5, control.KRaftVersionRecord(kraft_version=1)),
        (
            6,
            control.VotersRecord(
                voters=[
                    control.Voter(
                        voter_id=3,
                        voter_directory_id=TOPIC_ID,
                        endpoints=[control.Endpoint(name="C", host="h", port=65535)],
                        kraft_version_feature=control.KRaftVersionFeature(max_supported_version=1),
                    )
                ]
            ),
        ),
    ],
)
def test_raft_control_records(control_type, record):
    assert (
        control.decode_control_value(control_type, control.encode_control_value(record)) == record
    )


def test_control_values_of_tomorrow_and_damaged_ones():
    assert control.decode_control_value(7, b"whatever") is None
    assert control.decode_control_value(-1, b"") is None
    for data in (b"", b"\x00", b"\x00\x00\x00", b"\xff\xff\x00\x00\x00\x05"):
        with pytest.raises(DecodeError):
            control.decode_control_value(0, data)
    with pytest.raises(DecodeError):
        control.decode_control_value(2, b"\x00\x00\x00")
    with pytest.raises(EncodeError):
        control.encode_control_value(metadata.NoOpRecord())


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
    key = _varied(key_class, 0)
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
        value = _varied(value_class, version)
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
    for record_type in (9, 10, 17, 24, 999, -1):
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
