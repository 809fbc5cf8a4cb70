"""What is in a leader's answers: batches, checked, and the parts of look-ups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc
from fencepost.batch.record_batch import RecordBatch, iter_batches
from fencepost.wire.api.list_offsets import ListOffsetsResponse
from fencepost.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochResponse


class CorruptRecords(Exception):
    """Records that are to be appended nowhere; the message says why."""


def batches_of(records: Any) -> tuple[RecordBatch, ...]:
    """The whole batches of an answer, whose CRCs are right; one that is cut at the end is left out.

    Raises CorruptRecords.
    """
    if not records:
        return ()
    data = b"".join(records) if isinstance(records, list | tuple) else records
    try:
        batches = tuple(iter_batches(data))
    except BatchError as error:
        raise CorruptRecords(str(error)) from error
    for batch in batches:
        if not check_crc(batch.data, 0, batch.header):
            raise CorruptRecords(f"CRC mismatch in the batch at offset {batch.header.base_offset}")
    return batches


class LookUp(Struct, frozen=True):
    """One partition's part of the answer to a look-up; `epoch` is that which ends at `offset`."""

    topic: str
    partition: int
    error_code: int
    epoch: int
    offset: int


def look_ups_of(response: Any) -> Iterator[LookUp]:
    """The parts of an OffsetForLeaderEpoch or ListOffsets response."""
    if isinstance(response, OffsetForLeaderEpochResponse):
        for topic in response.topics:
            for end in topic.partitions:
                yield LookUp(
                    topic.topic, end.partition, end.error_code, end.leader_epoch, end.end_offset
                )
    elif isinstance(response, ListOffsetsResponse):
        for listed in response.topics:
            for part in listed.partitions:
                yield LookUp(
                    listed.name,
                    part.partition_index,
                    part.error_code,
                    part.leader_epoch,
                    part.offset,
                )
