"""What brokers keep about their logs: transactions, producers, the quorum, remote storage."""

import struct

import pytest

from fencepost.wire.errors import DecodeError, EncodeError, UnsupportedVersionError
from fencepost.wire.json_form import JsonFormError
from fencepost.wire.records import (
    group,
    metadata,
    producer_snapshot,
    quorum_state,
    remote_log,
    transaction,
    txn_index,
)

from .record_samples import TOPIC_ID, varied

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
    record = varied(record_class, 0)
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
