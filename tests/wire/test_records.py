"""The frames around records of Kafka's own logs: known bytes, every class, and damaged input."""

import struct
import subprocess
import sys

import pytest

from fencepost.wire import records
from fencepost.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from fencepost.wire.json_form import JsonFormError
from fencepost.wire.records import (
    consumer,
    control,
    group,
    metadata,
    principal,
    producer_snapshot,
    quorum_state,
    remote_log,
    transaction,
    txn_index,
)
from fencepost.wire.types import Uuid

from .catalogue import RELEASED

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


def test_control_records_at_every_version_and_cut_anywhere():
    key = control.encode_control_key(6)
    assert key == b"\x00\x00" + control.ControlRecordTypeSchema(type=6).encode(0)
    with pytest.raises(EncodeError):
        control.encode_control_key(1 << 15)
    voter = control.LeaderChangeVoter(voter_id=2, voter_directory_id=TOPIC_ID)
    change = control.LeaderChangeMessage(version=1, leader_id=2, voters=[voter])
    assert change.encode(1) == (
        b"\x00\x01\x00\x00\x00\x02" + b"\x02\x00\x00\x00\x02" + TOPIC_ID + b"\x00" + b"\x01\x00"
    )
    assert control.LeaderChangeMessage.decode(change.encode(1), 1) == change
    with pytest.raises(EncodeError):  # written at v0, which has no directory ids
        control.encode_control_value(change)
    voter.voter_directory_id = Uuid.ZERO
    # The version it carries says nothing about its layout.
    assert control.decode_control_value(2, control.encode_control_value(change)) == change
    values = {
        0: control.EndTxnMarker(coordinator_epoch=5),
        2: change,
        3: control.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=7),
        4: control.SnapshotFooterRecord(version=0),
        5: control.KRaftVersionRecord(version=0, kraft_version=1),
        6: control.VotersRecord(voters=[control.Voter(voter_id=3)]),
    }
    for control_type, record in values.items():
        whole = control.encode_control_value(record)
        assert control.decode_control_value(control_type, memoryview(whole)) == record
        for end in range(len(whole)):
            with pytest.raises(DecodeError):
                control.decode_control_value(control_type, whole[:end])
    assert control.encode_control_value(values[3]) == b"\x00\x00" + struct.pack(">q", 7) + b"\x00"
    assert control.encode_control_value(values[4]) == b"\x00\x00\x00"
    assert control.encode_control_value(values[5]) == b"\x00\x00\x00\x01\x00"


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


# -- transactions ------------------------------------------------------------------------------

TRANSACTION = transaction.TransactionLogValue(
    producer_id=1000,
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    transaction_status=transaction.TransactionState.ONGOING,
    transaction_partitions=[transaction.PartitionsSchema(topic="t", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=7,
    transaction_start_timestamp_ms=6,
)
TRANSACTION_BYTES = {
    0: b"\x00\x00"
    + struct.pack(">qhib", 1000, 3, 60_000, 1)
    + b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02"
    + struct.pack(">qq", 7, 6),
    1: b"\x00\x01"
    + struct.pack(">qhib", 1000, 3, 60_000, 1)
    + b"\x02\x02t\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00"
    + struct.pack(">qq", 7, 6)
    + b"\x00",
}


@pytest.mark.parametrize("version", [0, 1])
def test_transaction_bytes_are_kafkas(version):
    key = transaction.TransactionLogKey(transactional_id="tx")
    assert transaction.encode_key(key) == b"\x00\x00" + b"\x00\x02tx"
    assert transaction.decode_key(b"\x00\x00\x00\x02tx") == key
    data = transaction.encode_value(TRANSACTION, version)
    assert data == TRANSACTION_BYTES[version]
    assert transaction.decode_value(key, data) == TRANSACTION
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            transaction.decode_value(key, data[:end])
    with pytest.raises(DecodeError):
        transaction.decode_value(key, data + b"\x00")


def test_tags_of_a_transaction_ascend_whatever_the_schema_says():
    value = transaction.TransactionLogValue(
        previous_producer_id=1,
        next_producer_id=2,
        next_producer_epoch=4,
        client_transaction_version=3,
        transaction_partitions=None,
    )
    data = transaction.encode_value(value, 1)
    tags = (
        b"\x04"
        + (b"\x00\x08" + struct.pack(">q", 1))
        + (b"\x01\x08" + struct.pack(">q", 2))
        + (b"\x02\x02" + struct.pack(">h", 3))
        + (b"\x03\x02" + struct.pack(">h", 4))
    )
    assert data == b"\x00\x01" + bytes(8 + 2 + 4 + 1) + b"\x00" + bytes(16) + tags
    assert transaction.decode_value(transaction.TransactionLogKey(), data) == value
    with pytest.raises(EncodeError):
        transaction.encode_value(value, 0)


def test_transactions_of_other_types_and_versions():
    for record_type in (1, -1, 999):
        with pytest.raises(transaction.UnknownRecordTypeError) as caught:
            transaction.decode_key(struct.pack(">h", record_type) + b"\x00\x02tx")
        assert caught.value.record_type == record_type
    whole = transaction.encode_key(transaction.TransactionLogKey(transactional_id="tx"))
    for damaged in [whole[:end] for end in range(len(whole))] + [whole + b"\x00"]:
        with pytest.raises(DecodeError):
            transaction.decode_key(damaged)
    for version in (-1, 2):
        with pytest.raises(DecodeError):
            transaction.decode_value(
                transaction.TransactionLogKey(), struct.pack(">h", version) + bytes(60)
            )
    with pytest.raises(EncodeError):
        transaction.encode_key(group.OffsetCommitKey())
    with pytest.raises(EncodeError):
        transaction.encode_value(group.OffsetCommitValue(), 0)
    with pytest.raises(DecodeError):
        transaction.decode_value(group.OffsetCommitKey(), TRANSACTION_BYTES[0])
    assert [state.value for state in transaction.TransactionState] == list(range(8))


# -- principals --------------------------------------------------------------------------------


def test_principal_bytes_are_kafkas():
    found = principal.DefaultPrincipalData(type="User", name="ada", token_authenticated=True)
    data = b"\x00\x00" + b"\x05User" + b"\x04ada" + b"\x01" + b"\x00"
    assert principal.encode_principal(found) == data
    assert principal.decode_principal(memoryview(data)) == found
    for damaged in [data[:end] for end in range(len(data))] + [data + b"\x00"]:
        with pytest.raises(DecodeError):
            principal.decode_principal(damaged)
    for version in (b"\x00\x01", b"\xff\xff"):
        with pytest.raises(DecodeError, match="has no version"):
            principal.decode_principal(version + data[2:])
    with pytest.raises(UnsupportedVersionError):
        principal.encode_principal(found, 1)


# -- the transaction index ---------------------------------------------------------------------


def test_transaction_index_bytes_are_kafkas():
    entries = [
        txn_index.AbortedTxn(
            producer_id=1000, first_offset=5, last_offset=9, last_stable_offset=10
        ),
        txn_index.AbortedTxn(producer_id=2, first_offset=7, last_offset=12, last_stable_offset=13),
    ]
    data = b"".join(txn_index.encode_entry(entry) for entry in entries)
    assert data == struct.pack(">hqqqqhqqqq", 0, 1000, 5, 9, 10, 0, 2, 7, 12, 13)
    assert len(data) == 2 * txn_index.ENTRY_BYTES == 68
    assert list(txn_index.iter_entries(data)) == entries
    assert list(txn_index.iter_entries(b"")) == []
    for end in range(1, len(data)):
        if end != txn_index.ENTRY_BYTES:
            with pytest.raises(DecodeError):
                list(txn_index.iter_entries(data[:end]))
    for version in (b"\x00\x01", b"\xff\xff"):
        with pytest.raises(DecodeError) as caught:
            list(txn_index.iter_entries(data[:34] + version + data[36:]))
        assert caught.value.position == 34


# -- producer snapshots ------------------------------------------------------------------------


def test_producer_snapshot_bytes_are_kafkas():
    entry = producer_snapshot.ProducerEntry(
        producer_id=1000,
        epoch=2,
        last_sequence=9,
        last_offset=109,
        offset_delta=4,
        timestamp=7,
        coordinator_epoch=-1,
        current_txn_first_offset=-1,
    )
    snapshot = producer_snapshot.ProducerSnapshot(crc=0xDEADBEEF, producer_entries=[entry])
    data = snapshot.encode(1)
    assert data == struct.pack(">Ii", 0xDEADBEEF, 1) + struct.pack(
        ">qhiqiqiq", 1000, 2, 9, 109, 4, 7, -1, -1
    )
    assert producer_snapshot.ProducerSnapshot.decode(data, 1) == snapshot
    with pytest.raises(UnsupportedVersionError):
        snapshot.encode(0)
    for damaged in [data[:end] for end in range(len(data))] + [data + b"\x00"]:
        with pytest.raises(DecodeError):
            producer_snapshot.ProducerSnapshot.decode(damaged, 1)


# -- quorum state ------------------------------------------------------------------------------


def test_quorum_state_has_kafkas_keys():
    old = quorum_state.QuorumStateData(
        leader_id=1, leader_epoch=9, current_voters=[quorum_state.QuorumVoter(voter_id=1)]
    )
    assert quorum_state.to_file(old, 0) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 9,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    new = quorum_state.QuorumStateData(leader_epoch=3, voted_id=2, voted_directory_id=TOPIC_ID)
    content = quorum_state.to_file(new, 1)
    assert content == {
        "leaderId": -1,
        "leaderEpoch": 3,
        "votedId": 2,
        "votedDirectoryId": "AAECAwQFBgcICQoLDA0ODw",
        "data_version": 1,
    }
    for state, version in ((old, 0), (new, 1)):
        assert quorum_state.from_file(quorum_state.to_file(state, version)) == (state, version)
    for missing in content:
        with pytest.raises(JsonFormError):
            quorum_state.from_file({key: content[key] for key in content if key != missing})
    for changes in ({"data_version": 2}, {"data_version": True}, {"leaderId": "1"}, {"more": 1}):
        with pytest.raises(JsonFormError):
            quorum_state.from_file(content | changes)
    with pytest.raises(JsonFormError):
        quorum_state.from_file([])
    with pytest.raises(JsonFormError):
        quorum_state.to_file(new, 0)


# -- remote log --------------------------------------------------------------------------------


def test_remote_log_record_bytes_are_kafkas():
    record = remote_log.RemotePartitionDeleteMetadataRecord(
        topic_id_partition=remote_log.TopicIdPartitionEntry(name="t", id=TOPIC_ID, partition=3),
        broker_id=1,
        event_timestamp_ms=7,
        remote_partition_delete_state=2,
    )
    data = (
        b"\x01\x02\x00"
        + (b"\x02t" + bytes(range(16)) + b"\x00\x00\x00\x03" + b"\x00")
        + struct.pack(">iqb", 1, 7, 2)
        + b"\x00"
    )
    assert remote_log.encode_record(record) == data
    assert remote_log.decode_record(data) == record
    segment = remote_log.RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=TOPIC_ID,
        end_offset=9,
        segment_leader_epochs=[remote_log.SegmentLeaderEpochEntry(leader_epoch=1, offset=0)],
        txn_index_empty=True,
    )
    assert remote_log.encode_record(segment) == (
        b"\x01\x03\x00"
        + bytes(range(16))
        + struct.pack(">qqiqq", 0, 9, 0, 0, 0)
        + (b"\x02" + struct.pack(">iq", 1, 0) + b"\x00")
        + (b"\x00\x00\x00\x00" + b"\x00" + b"\x00")
        + b"\x01\x00\x01\x01"
    )


@pytest.mark.parametrize("record_id", range(4))
def test_every_remote_log_record_survives(record_id):
    record_class = remote_log.RECORD_CLASSES[record_id]
    record = _varied(record_class, 0)
    data = remote_log.encode_record(record, 0)
    assert data[:3] == bytes((1, record_id, 0))
    assert remote_log.decode_record(memoryview(bytearray(data))) == record
    for damaged in [data[:end] for end in range(len(data))] + [data + b"\x00"]:
        with pytest.raises(DecodeError):
            remote_log.decode_record(damaged)
    with pytest.raises(UnsupportedVersionError):
        remote_log.encode_record(record, 1)


def test_remote_log_records_are_told_from_others():
    assert set(remote_log.RECORD_CLASSES) == set(range(4))
    for bad in (b"\x00\x02\x00", b"\x02\x02\x00", b"\x01\x04\x00", b"\x01\x02\x01", b"\xff" * 6):
        with pytest.raises(DecodeError):
            remote_log.decode_record(bad + bytes(60))
    # The topics number their records alike: only the class tells them apart.
    with pytest.raises(EncodeError):
        remote_log.encode_record(metadata.TopicRecord())
    with pytest.raises(EncodeError):
        metadata.encode_record(remote_log.RemotePartitionDeleteMetadataRecord())


# -- by name -----------------------------------------------------------------------------------


def test_every_record_class_is_found_by_its_name():
    declared = {cls.__name__: cls for cls in RELEASED if cls.kind not in ("request", "response")}
    assert records.names() == sorted(declared)
    for name in records.names():
        cls = records.message_class(name)
        assert cls is declared[name]
        assert cls.kafka_name == name
    for absent in ("FetchRequest", "NoSuchRecord", "Voter", ""):
        with pytest.raises(KeyError):
            records.message_class(absent)


def test_looking_up_one_record_loads_one_module():
    code = (
        "import sys\n"
        "from fencepost.wire import records\n"
        "records.names()\n"
        "assert not [name for name in sys.modules if name.startswith('fencepost.wire.records.')]\n"
        "records.message_class('EndTxnMarker')\n"
        "loaded = [name for name in sys.modules if name.startswith('fencepost.wire.records.')]\n"
        "assert loaded == ['fencepost.wire.records.control'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
