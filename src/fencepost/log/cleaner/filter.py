"""One batch in, what is left of it out.

Theory of operation
-------------------
Per record, as far as the offset map reaches:

| the record                                                  | |
|-------------------------------------------------------------|---------|
| is not the last one of its key                              | goes    |
| has no key (a topic that was not always compacted)          | goes    |
| is a tombstone, and its batch's delete horizon has passed   | goes    |
| anything else, and everything behind the map's reach        | stays   |

Per batch:

| the batch                                    |                                                  |
|----------------------------------------------|--------------------------------------------------|
| is data of an aborted transaction            | loses all records                                |
| is a marker not needed (`transactions`)      | gets a delete horizon; goes when that has passed |
| has a tombstone left, and no delete horizon  | gets one: now + delete.retention.ms (KIP-534)    |
| has lost nothing and gets no horizon         | stays byte for byte                              |
| has lost some records                        | is compressed again, with its own codec           |
| has lost all records                         | goes, unless it must stay, emptied               |

A batch stays, emptied, if it has the last sequence number of a producer that the log remembers (or
the last marker of one that has written nothing else in its epoch), or if the caller says so.

Whatever is left of a batch keeps its base offset, its last offset delta and its producer's fields,
so offsets and sequence numbers mean what they meant. A delete horizon takes the place of the base
timestamp, so the records' timestamp deltas are written again; all else in a record is copied. (A
timestamp before 1970 can be so far from it that there is no such delta: then tombstones stay.)
Emptied batches name no codec. Messages of formats v0 and v1 become v2 batches, and their tombstones
get a horizon like all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

from msgspec import Struct

from fencepost.batch.header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from fencepost.batch.key_offsets import rebase_records
from fencepost.batch.record import LOG_APPEND_TIME, Record
from fencepost.batch.record_writer import encode_record
from fencepost.batch.records import assemble, read_batch, read_payload, read_rows
from fencepost.batch.walk import INT64_MAX, INT64_MIN
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.cleaner.transactions import TransactionTracker
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.control import decode_control_key
from fencepost.wire.types import Buffer

_KEPT_BITS = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""Attributes of an emptied batch that still mean something."""


class ProducerTail(Struct, frozen=True):
    """The last that a log knows of a producer."""

    last_offset: int
    """Of its last data; -1 if it has none in its current epoch."""
    epoch: int


class FilterCounts(Struct):
    """What a filter has seen and kept."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    """Of them, as many as went because they have no key."""


def control_type_of(header: BatchHeader, batch: Buffer) -> int | None:
    """Type of a control batch's first record; None without one, -1 for a key that says nothing.

    Raises BatchError.
    """
    for row in read_rows(read_payload(batch, 0, header), header):
        try:
            return decode_control_key(row[3] or b"")
        except DecodeError:
            return -1
    return None


class BatchFilter:
    """Decides for the batches of one cleaning; see the module docstring."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: TransactionTracker,
        producers: Mapping[int, ProducerTail],
        *,
        wall_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._wall_ms = wall_ms
        self._horizon_ms = min(wall_ms + delete_retention_ms, INT64_MAX)
        self.counts = FilterCounts()

    def filter(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        """What is left of the batch, None for nothing. `must_stay`: emptied if need be.

        Batches must come in order, all of them. Raises BatchError for one that is not sound.
        """
        is_useless = self._is_useless(header, batch)
        is_dropped = is_useless
        if header.is_control:
            is_dropped = is_useless and self._has_passed(header)
        must_stay = must_stay or self._is_producers_last(header)
        if is_dropped:
            self.counts.records_read += max(header.records_count, 0)
            return _emptied(header) if must_stay else None
        if header.magic != MAGIC:
            return self._filter_legacy(header, batch, must_stay)
        found, left = self._offsets.pick(
            read_payload(batch, 0, header),
            header,
            has_keys=self._has_keys(header),
            drops_tombstones=self._has_passed(header),
        )
        self.counts.records_read += header.records_count
        self.counts.records_kept += found.kept
        self.counts.records_without_key += found.without_key
        if not found.kept:
            return _emptied(header) if must_stay else None
        needs_horizon = not header.has_delete_horizon and (
            is_useless if header.is_control else found.tombstones > 0
        )
        rebased = rebase_records(left, header, self._horizon_ms) if needs_horizon else None
        if rebased is None and found.kept == header.records_count:
            return batch
        end = header._replace(records_count=found.kept)
        if rebased is not None:
            end = end._replace(
                attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=self._horizon_ms
            )
        if not header.is_log_append_time:
            end = end._replace(max_timestamp=found.max_timestamp)
        return assemble(end, left if rebased is None else rebased)

    def _is_useless(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether no reader needs the batch, whatever its records say."""
        if not header.is_control:
            return self._transactions.on_data(header)
        return self._transactions.on_marker(header, control_type_of(header, batch))

    def _has_passed(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._wall_ms

    def _is_producers_last(self, header: BatchHeader) -> bool:
        tail = self._producers.get(header.producer_id) if header.has_producer_id else None
        if tail is None:
            return False
        if tail.last_offset >= 0:
            return header.last_offset == tail.last_offset
        return header.is_control and header.producer_epoch == tail.epoch

    @staticmethod
    def _has_keys(header: BatchHeader) -> bool:
        """Whether the keys of a batch are users': a marker has one, too, and a user's record with
        the same bytes for a key does not supersede it (KAFKA-14055)."""
        return not header.is_control

    def _flags(self, records: Sequence[Record]) -> list[bool]:
        """Of each message whether it stays."""
        flags = []
        for record in records:
            is_behind = record.offset > self._offsets.latest_offset
            if record.key is None and not is_behind:
                self.counts.records_without_key += 1
            flags.append(
                is_behind
                or (record.key is not None and record.offset >= self._offsets.get(record.key))
            )
        return flags

    def _may_have_horizon(self, kept: Sequence[Record]) -> bool:
        """Whether one of these is a tombstone, and their timestamps can be relative to its time."""
        return any(record.value is None for record in kept) and all(
            record.timestamp_ms - self._horizon_ms >= INT64_MIN for record in kept
        )

    def _filter_legacy(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        """A message of format v0 or v1, or a compressed set of them, as a v2 batch."""
        records: list[Record] = read_batch(batch, 0, header)
        kept = list(compress(records, self._flags(records)))
        self.counts.records_read += len(records)
        self.counts.records_kept += len(kept)
        if not kept:
            return _emptied(header._replace(magic=MAGIC)) if must_stay else None
        attributes = header.compression
        if kept[0].timestamp_type == LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_BIT
        base_offset, base_timestamp = kept[0].offset, kept[0].timestamp_ms
        if self._may_have_horizon(kept):
            attributes |= DELETE_HORIZON_BIT
            base_timestamp = self._horizon_ms
        payload = bytearray()
        for record in kept:
            delta, timestamp = record.offset - base_offset, record.timestamp_ms - base_timestamp
            payload += encode_record(delta, timestamp, record.key, record.value, [])
        made = BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=max(kept[-1].offset, header.last_offset) - base_offset,
            base_timestamp=base_timestamp,
            max_timestamp=max(record.timestamp_ms for record in kept),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            records_count=len(kept),
        )
        return assemble(made, payload)


def _emptied(header: BatchHeader) -> bytearray:
    """The batch without its records; offsets and producer as they were."""
    return assemble(
        header._replace(
            attributes=header.attributes & _KEPT_BITS & ~CODEC_MASK,
            base_timestamp=NO_TIMESTAMP,
            records_count=0,
        ),
        b"",
    )
