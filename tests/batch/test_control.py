"""Control batches: what is built is read, and what cannot be read is told."""

from __future__ import annotations

import pytest

from fencepost.batch.control import (
    ControlRecord,
    build_control_batch,
    build_end_txn_marker,
    build_leader_change,
    read_control,
)
from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, read_header
from fencepost.batch.records import build_batch
from fencepost.wire.errors import EncodeError, ErrorCode
from fencepost.wire.records.control import (
    ControlType,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)

from .samples import RECORDS, build


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_marker_names_producer_and_outcome(committed):
    batch = build_end_txn_marker(
        committed=committed,
        coordinator_epoch=9,
        producer_id=5,
        producer_epoch=2,
        timestamp_ms=77,
        base_offset=40,
        leader_epoch=3,
    )
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.records_count) == (40, 3, 1)
    outcome = ControlType.COMMIT if committed else ControlType.ABORT
    assert read_control(batch) == [
        ControlRecord(40, 77, outcome, EndTxnMarker(coordinator_epoch=9))
    ]
    # Key: version 0 and the type. Value: version 0 and the coordinator's epoch. No headers.
    assert batch[-13:].hex() == f"08{int(outcome):08x}" + "0c" + "0000" + "00000009" + "00"


def test_a_leader_change_names_the_voters():
    batch = build_leader_change(
        leader_id=2,
        voters=[1, 2, 3],
        granting_voters=[2, 3],
        leader_epoch=8,
        timestamp_ms=5,
        base_offset=100,
    )
    header = read_header(batch)
    assert header.is_control and not header.is_transactional and header.producer_id == -1
    expected = LeaderChangeMessage(
        version=0,
        leader_id=2,
        voters=[LeaderChangeVoter(voter_id=voter) for voter in (1, 2, 3)],
        granting_voters=[LeaderChangeVoter(voter_id=voter) for voter in (2, 3)],
    )
    assert read_control(batch) == [ControlRecord(100, 5, ControlType.LEADER_CHANGE, expected)]


def test_a_batch_may_hold_several_and_others_are_passed_over():
    records = [
        (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=11)),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1)),
        (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord()),
    ]
    blob = build(RECORDS) + build_control_batch(records, timestamp_ms=1, base_offset=4)
    found = read_control(bytes(blob))
    assert [(each.offset, each.type, each.value) for each in found] == [
        (4 + index, control_type, record) for index, (control_type, record) in enumerate(records)
    ]


def test_what_is_no_control_record_cannot_be_written():
    with pytest.raises(EncodeError):
        build_control_batch([(ControlType.COMMIT, LeaderChangeVoter())], timestamp_ms=0)


def test_a_type_that_is_not_known_is_given_without_a_value():
    batch = build_batch([(b"\0\0\0\x63", b"whatever")], control=True, timestamp_ms=3)
    assert read_control(batch) == [ControlRecord(0, 3, 99, None)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\0", b""),
        (b"\0\0\0\x01", b"\0\0\0\0\0"),
        (b"\0\0\0\x02", b"\0\0\0\0\0\x01\x7f"),
        (b"\0\0\0\x02", None),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_place(key, value):
    batch = build_batch([(key, value)], control=True, base_offset=12)
    with pytest.raises(BatchError, match="control record at offset 12") as caught:
        read_control(batch)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert caught.value.offset == 12


def test_damage_is_told():
    batch = build_leader_change(1, [1], [1], leader_epoch=0, timestamp_ms=0)
    batch[-3] ^= 1
    with pytest.raises(BatchError, match="CRC"):
        read_control(batch)
