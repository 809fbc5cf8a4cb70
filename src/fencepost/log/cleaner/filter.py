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
| is a marker nobody needs (`transactions`)    | gets a delete horizon; goes when that has passed |
| has a tombstone left, and no delete horizon  | gets one: now + delete.retention.ms (KIP-534)    |
| has lost nothing and gets no horizon         | stays byte for byte                              |
| has lost some records                        | is compressed anew, with its own codec           |
| has lost all records                         | goes, unless it must stay, emptied               |

A batch stays, emptied, if it has the last sequence number of a producer that the log remembers (or
the last marker of one that has written nothing else in its epoch), or if the caller says so.

Whatever is left of a batch keeps its base offset, its last offset delta and its producer's fields,
so offsets and sequence numbers mean what they meant. A delete horizon takes the place of the base
timestamp, so the records' timestamp deltas are written anew; all else in a record is copied.
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
from fencepost.batch.record import LOG_APPEND_TIME
from fencepost.batch.record_writer import append_varint, encode_record
from fencepost.batch.records import (
    Row,
    assemble,
    read_batch,
    read_payload,
    read_rows,
)
from fencepost.batch.walk import read_varint, read_varlong
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
        self._horizon_ms = wall_ms + delete_retention_ms
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
        payload = read_payload(batch, 0, header)
        rows = read_rows(payload, header)
        flags = self._flags(rows, header)
        kept: list[Row] = list(compress(rows, flags))
        self.counts.records_read += len(rows)
        self.counts.records_kept += len(kept)
        if not kept:
            return _emptied(header) if must_stay else None
        needs_horizon = not header.has_delete_horizon and (
            is_useless if header.is_control else any(row[4] is None for row in kept)
        )
        if not needs_horizon and len(kept) == len(rows):
            return batch
        left, end = _pick(payload, flags), {}
        if needs_horizon:
            left = self._moved(left, header)
            end = {
                "attributes": header.attributes | DELETE_HORIZON_BIT,
                "base_timestamp": self._horizon_ms,
            }
        if not header.is_log_append_time:
            end["max_timestamp"] = max(row[1] for row in kept)
        return assemble(header._replace(records_count=len(kept), **end), left)

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

    def _flags(self, rows: Sequence[Row], header: BatchHeader) -> list[bool]:
        """Of each record whether it stays."""
        if not self._has_keys(header):
            return [True] * len(rows)
        latest, last_offset = self._offsets.latest_offset, self._offsets.get
        values_only = self._has_passed(header)
        flags = []
        for offset, _, _, key, value, _ in rows:
            if offset > latest:
                flags.append(True)
            elif key is None:
                self.counts.records_without_key += 1
                flags.append(False)
            else:
                flags.append(offset >= last_offset(key) and not (values_only and value is None))
        return flags

    def _moved(self, payload: Buffer, header: BatchHeader) -> bytearray:
        """The records with timestamp deltas that are relative to the delete horizon."""
        moved = bytearray()
        pos, end = 0, len(payload)
        shift = header.base_timestamp - self._horizon_ms
        if header.is_log_append_time:
            shift = 0  # the header's timestamp goes for all of them
        body = bytearray()
        while pos < end:
            length, at = read_varint(payload, pos, end)
            delta, rest = read_varlong(payload, at + 1, end)
            body.clear()
            body.append(payload[at])
            append_varint(body, delta + shift)
            body += payload[rest : at + length]
            append_varint(moved, len(body))
            moved += body
            pos = at + length
        return moved

    def _filter_legacy(self, header: BatchHeader, batch: Buffer, must_stay: bool) -> Buffer | None:
        """A message of format v0 or v1, or a compressed set of them, as a v2 batch."""
        records = read_batch(batch, 0, header)
        kept = list(compress(records, self._flags(records, header)))
        self.counts.records_read += len(records)
        self.counts.records_kept += len(kept)
        if not kept:
            return _emptied(header._replace(magic=MAGIC)) if must_stay else None
        attributes = header.compression
        if kept[0].timestamp_type == LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_BIT
        base_offset, base_timestamp = kept[0].offset, kept[0].timestamp_ms
        if any(record.value is None for record in kept):
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


def _pick(payload: Buffer, flags: list[bool]) -> Buffer:
    """The records of `payload` whose flag is set, one behind the other."""
    if all(flags):
        return payload
    picked = bytearray()
    pos, end, begin = 0, len(payload), -1
    for flag in flags:
        if flag != (begin >= 0):
            if begin >= 0:
                picked += payload[begin:pos]
            begin = pos if flag else -1
        low = payload[pos]
        if low < 0x80:
            pos += 1 + (low >> 1)
        else:
            length, pos = read_varint(payload, pos, end)
            pos += length
    if begin >= 0:
        picked += payload[begin:pos]
    return picked
