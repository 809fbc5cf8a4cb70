"""Control batches: the records that brokers and voters write into a log among the data.

A control batch has bit 5 of its attributes set; its records' keys name a type and their values
belong to the type (`fencepost.wire.records.control` has both). A transaction's end marker is a
batch of exactly one record that carries the producer's id and epoch; Raft's batches may hold
several records. Consumers never see any of them, but each takes an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    iter_headers,
    require_crc,
)
from fencepost.batch.records import BatchBuilder, Record, read_batch
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import (
    ControlType,
    EndTxnMarker,
    LeaderChangeMessage,
    LeaderChangeVoter,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from fencepost.wire.types import Buffer


class ControlRecord(NamedTuple):
    """One control record; `value` is None for a `type` that is not among `ControlType`."""

    offset: int
    timestamp_ms: int
    type: int
    value: Message | None


def build_control_batch(
    records: Iterable[tuple[ControlType, Message]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """One control batch of these records. Raises EncodeError for what is no control record."""
    builder = BatchBuilder()
    for control_type, record in records:
        key, value = encode_control_key(control_type), encode_control_value(record)
        builder.append(key, value, timestamp_ms=timestamp_ms)
    return builder.build(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def build_leader_change(
    leader_id: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int,
    followed_by: Iterable[tuple[ControlType, Message]] = (),
) -> bytearray:
    """The batch a new Raft leader begins its epoch with (KIP-595).

    More records may follow in it: the level and the voters that the leader writes again (KIP-853).
    """
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[LeaderChangeVoter(voter_id=voter) for voter in voters],
        granting_voters=[LeaderChangeVoter(voter_id=voter) for voter in granting_voters],
    )
    return build_control_batch(
        [(ControlType.LEADER_CHANGE, message), *followed_by],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def build_end_txn_marker(
    *,
    committed: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a producer's transaction in a partition (KIP-98)."""
    return build_control_batch(
        [
            (
                ControlType.COMMIT if committed else ControlType.ABORT,
                EndTxnMarker(coordinator_epoch=coordinator_epoch),
            )
        ],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def read_control(buf: Buffer, *, check: bool = True) -> list[ControlRecord]:
    """The control records of all whole batches in `buf`; other batches are passed over.

    Raises BatchError for a batch that is not sound, and CORRUPT_MESSAGE for a record in it whose
    key or value cannot be read as its type.
    """
    found: list[ControlRecord] = []
    for pos, header in iter_headers(buf):
        if not header.is_control:
            continue
        if check:
            require_crc(buf, pos, header)
        found += [parse_control(record, header) for record in read_batch(buf, pos, header)]
    return found


def parse_control(record: Record, header: BatchHeader) -> ControlRecord:
    """What a record of the control batch with this header says. BatchError as of `read_control`."""
    try:
        control_type = decode_control_key(record.key or b"")
        value = decode_control_value(control_type, record.value or b"")
    except DecodeError as error:
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"control record at offset {record.offset}: {error}",
            offset=header.base_offset,
        ) from error
    return ControlRecord(record.offset, record.timestamp_ms, control_type, value)
