"""Entries of the three indexes and of producer snapshots as items.

An index may have zeros at its end: Kafka allocates the file of the active segment in advance, and
cuts it when the segment is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from fencepost.batch.crc import crc32c
from fencepost.log.dump.batches import Readable
from fencepost.log.dump.items import Item, damage
from fencepost.log.txn_index import reason_against
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.producer_snapshot import CRC_COVERS_FROM, ProducerSnapshot
from fencepost.wire.records.txn_index import ENTRY_BYTES as TXN_ENTRY_BYTES, iter_entries

OFFSET_ENTRY: Final = Struct(">Ii")
TIME_ENTRY: Final = Struct(">qI")
_ENTRIES_AT_ONCE: Final = 8192
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_ENTRY_BYTES: Final = 46


def iter_index(file: Readable, layout: Struct) -> Iterator[tuple[int, tuple[int, ...] | None]]:
    """(position, entry) of each entry of an index; zeros at the end are one item of None. OSError.

    An entry that is cut off is left out.
    """
    zeros_at: int | None = None
    position = 0
    while data := file.read_at(_ENTRIES_AT_ONCE * layout.size, position):
        whole = len(data) // layout.size * layout.size
        if not whole:
            break
        if zeros_at is None or data.count(0) != len(data):
            for entry in layout.iter_unpack(memoryview(data)[:whole]):
                if any(entry):
                    if zeros_at is not None:
                        yield from _zero_entries(zeros_at, position, layout)
                        zeros_at = None
                    yield position, entry
                elif zeros_at is None:
                    zeros_at = position
                position += layout.size
        else:
            position += whole
    if zeros_at is not None:
        yield zeros_at, None


def _zero_entries(
    start: int, end: int, layout: Struct
) -> Iterator[tuple[int, tuple[int, ...] | None]]:
    for position in range(start, end, layout.size):
        yield position, (0, 0)


def dump_offset_index(file: Readable, base_offset: int) -> Iterator[Item]:
    """Entries of `<base>.index`. OSError."""
    previous: tuple[int, int] | None = None
    for position, entry in iter_index(file, OFFSET_ENTRY):
        if entry is None:
            yield unused(file, position)
            break
        relative, batch_position = entry
        fields = {"position": position, "offset": base_offset + relative}
        yield Item("entry", {**fields, "batch_position": batch_position})
        if previous is not None and (relative <= previous[0] or batch_position <= previous[1]):
            yield damage(position, "it does not lie behind the entry in front of it")
        previous = relative, batch_position
    yield from _rest(file, OFFSET_ENTRY.size)


def dump_time_index(file: Readable, base_offset: int) -> Iterator[Item]:
    """Entries of `<base>.timeindex`. OSError."""
    previous: tuple[int, int] | None = None
    for position, entry in iter_index(file, TIME_ENTRY):
        if entry is None:
            yield unused(file, position)
            break
        timestamp_ms, relative = entry
        fields = {"position": position, "timestamp_ms": timestamp_ms}
        yield Item("entry", {**fields, "offset": base_offset + relative})
        if previous is not None and (timestamp_ms <= previous[0] or relative < previous[1]):
            yield damage(position, "it does not lie behind the entry in front of it")
        previous = timestamp_ms, relative
    yield from _rest(file, TIME_ENTRY.size)


def unused(file: Readable, position: int) -> Item:
    """Zeros at the end of an index."""
    size = file.size() - position
    return Item("note", {"position": position, "size_bytes": size, "what": "allocated, not used"})


def _rest(file: Readable, entry_bytes: int) -> Iterator[Item]:
    size = file.size()
    left = size % entry_bytes
    if left:
        reason = f"{left} bytes are left of an entry of {entry_bytes}"
        yield damage(size - left, reason, is_tail=True)


def dump_txn_index(file: Readable, base_offset: int) -> Iterator[Item]:
    """Entries of `<base>.txnindex`. OSError."""
    position, previous = 0, base_offset - 1
    while len(data := file.read_at(TXN_ENTRY_BYTES, position)) == TXN_ENTRY_BYTES:
        try:
            (entry,) = iter_entries(data)
        except DecodeError as error:
            yield damage(position, str(error))
        else:
            yield Item(
                "entry",
                {
                    "position": position,
                    "producer_id": entry.producer_id,
                    "first_offset": entry.first_offset,
                    "last_offset": entry.last_offset,
                    "last_stable_offset": entry.last_stable_offset,
                },
            )
            reason = reason_against(entry, previous)
            if reason is not None:
                yield damage(position, reason)
            previous = max(previous, entry.last_offset)
        position += TXN_ENTRY_BYTES
    yield from _rest(file, TXN_ENTRY_BYTES)


def dump_snapshot(file: Readable) -> Iterator[Item]:
    """Entries of a producer snapshot `<offset>.snapshot`, all of which is read at once. OSError."""
    data = file.read_at(file.size(), 0)
    if len(data) < _SNAPSHOT_HEAD.size:
        yield damage(0, f"{len(data)} bytes, fewer than its head", is_tail=True)
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    found = crc32c(memoryview(data)[CRC_COVERS_FROM:])
    head = {"version": version, "crc": crc, "is_crc_right": crc == found, "entries_count": count}
    yield Item("content", head)
    if version != _SNAPSHOT_VERSION:
        yield damage(0, f"version {version}, not {_SNAPSHOT_VERSION}")
        return
    if crc != found:
        yield damage(0, f"the content's CRC is {found:#010x}")
    whole = (len(data) - _SNAPSHOT_HEAD.size) // _SNAPSHOT_ENTRY_BYTES
    shown = max(min(count, whole), 0)
    entries_end = _SNAPSHOT_HEAD.size + shown * _SNAPSHOT_ENTRY_BYTES
    body = data[2:6] + shown.to_bytes(4) + data[_SNAPSHOT_HEAD.size : entries_end]
    snapshot, _ = ProducerSnapshot.read(body, 0, version)
    for number, one in enumerate(snapshot.producer_entries):
        yield Item(
            "entry",
            {
                "position": _SNAPSHOT_HEAD.size + number * _SNAPSHOT_ENTRY_BYTES,
                "producer_id": one.producer_id,
                "producer_epoch": one.epoch,
                "coordinator_epoch": one.coordinator_epoch,
                "last_sequence": one.last_sequence,
                "last_offset": one.last_offset,
                "offset_delta": one.offset_delta,
                "timestamp_ms": one.timestamp,
                "current_txn_first_offset": one.current_txn_first_offset,
            },
        )
    if count != shown or entries_end != len(data):
        reason = f"{len(data)} bytes are not those of {count} entries"
        yield damage(entries_end, reason, is_tail=count > shown)
