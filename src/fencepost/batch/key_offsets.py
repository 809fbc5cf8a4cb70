"""The last offset of every key, and what it leaves of a batch: log compaction's work per record.

Theory of operation
-------------------
`KeyOffsets` is shown records twice. The first time it notes of each key the last offset (`note`);
the second time it picks those that stay (`pick`):

| a record up to the offset that was noted last                 | |
|---------------------------------------------------------------|-------|
| is not the last one of its key                                | goes  |
| has no key                                                    | goes  |
| is a tombstone, and the caller says that those go             | goes  |
| is anything else, or behind that offset                       | stays |

Keys of up to `PLAIN_KEY_BYTES_MAX` bytes stand for themselves. Longer ones are represented by one
byte more, of BLAKE2b, so that neither kind can be taken for the other.

`new_key_offsets` gives the compiled class or its twin here, which find the same and report the same
faults. Both check every record as `records.read_rows` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import compress
from typing import Any, Final, NamedTuple

from fencepost.batch import backend
from fencepost.batch.header import BatchHeader
from fencepost.batch.record_writer import append_varint
from fencepost.batch.records import Report, Row, read_rows_python
from fencepost.batch.walk import INT64_MAX, INT64_MIN, read_varint, read_varlong, record_error
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

PLAIN_KEY_BYTES_MAX: Final = 32


class Survivors(NamedTuple):
    """Which records of a batch stay."""

    kept: int
    without_key: int
    """Of those that go, as many as have no key."""
    tombstones: int
    """Of those that stay, as many as have no value."""
    max_timestamp: int
    """Of those that stay; means nothing if there are none, or if they have the header's."""


def new_key_offsets() -> Any:
    """A `KeyOffsets` without a key, of whichever backend is in use."""
    kernels: Any = backend.kernels
    return KeyOffsets() if kernels is None else kernels.KeyOffsets()


class KeyOffsets:
    """See the module docstring. For one thread at a time."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def clear(self) -> None:
        """Forget all keys."""
        self._offsets.clear()

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 for one that is not here."""
        return self._offsets.get(stored_key(key), -1)

    def put(self, key: bytes, offset: int) -> None:
        """Note the offset of a key."""
        self._offsets[stored_key(key)] = offset

    def note(
        self,
        payload: Buffer,
        header: BatchHeader,
        start_offset: int,
        entry_bytes: int,
        is_bounded: bool,
        left_bytes: int,
    ) -> tuple[Report | None, int, bool]:
        """Note the keys of a batch's records from `start_offset` on.

        A key that is new takes `entry_bytes` and its own of `left_bytes`; with `is_bounded` the
        first for which that is too little ends it. What is wrong with a record, if anything is; the
        bytes left; whether all were noted.
        """
        report, rows = read_rows_python(payload, header, header.records_count)
        if report is not None:
            return report, left_bytes, False
        offsets = self._offsets
        for row in rows:
            offset, key = row[0], row[3]
            if key is None or offset < start_offset:
                continue
            key = stored_key(key)
            if key not in offsets:
                cost = entry_bytes + len(key)
                if is_bounded and cost > left_bytes:
                    return None, left_bytes, False
                left_bytes -= cost
            offsets[key] = offset
        return None, left_bytes, True

    def pick(
        self, payload: Buffer, header: BatchHeader, latest_offset: int, drops_tombstones: bool
    ) -> tuple[Report | None, tuple[int, int, int, int], Buffer]:
        """Which of a batch's records stay, up to `latest_offset`, and they one behind the other.

        What is wrong with a record, if anything is; what `Survivors` has; `payload` itself if all
        stay.
        """
        report, rows = read_rows_python(payload, header, header.records_count)
        if report is not None:
            return report, (0, 0, 0, 0), payload
        flags, without_key = self._flags(rows, latest_offset, drops_tombstones)
        kept = list(compress(rows, flags))
        tombstones = sum(row[4] is None for row in kept)
        timestamps = () if header.is_log_append_time else (row[1] for row in kept)
        found = len(kept), without_key, tombstones, max(timestamps, default=INT64_MIN)
        return None, found, payload if all(flags) else _picked(payload, flags)

    def _flags(
        self, rows: Sequence[Row], latest_offset: int, drops_tombstones: bool
    ) -> tuple[list[bool], int]:
        """Of each record whether it stays; how many go because they have no key."""
        flags, without_key = [], 0
        for offset, _, _, key, value, _ in rows:
            if offset > latest_offset:
                flags.append(True)
            elif key is None:
                without_key += 1
                flags.append(False)
            else:
                is_dropped = drops_tombstones and value is None
                flags.append(not is_dropped and offset >= self.get(key))
        return flags, without_key


def note_records(
    offsets: Any,
    payload: Buffer,
    header: BatchHeader,
    *,
    start_offset: int,
    entry_bytes: int,
    left_bytes: int,
    is_bounded: bool,
) -> tuple[int, bool]:
    """Note the keys of a batch; bytes left, and whether all were noted (see `KeyOffsets.note`).

    Raises BatchError for a batch that is not sound, some of whose keys may then be noted.
    """
    report, left_bytes, is_whole = offsets.note(
        payload, header, start_offset, entry_bytes, is_bounded, left_bytes
    )
    if report is not None:
        raise record_error(report, code=ErrorCode.CORRUPT_MESSAGE, offset=header.base_offset)
    return left_bytes, is_whole


def pick_records(
    offsets: Any,
    payload: Buffer,
    header: BatchHeader,
    *,
    latest_offset: int,
    drops_tombstones: bool,
) -> tuple[Survivors, Buffer]:
    """The records of a batch that stay, uncompressed; `payload` itself if all do. BatchError."""
    report, found, left = offsets.pick(payload, header, latest_offset, drops_tombstones)
    if report is not None:
        raise record_error(report, code=ErrorCode.CORRUPT_MESSAGE, offset=header.base_offset)
    return Survivors(*found), left


def rebase_records(payload: Buffer, header: BatchHeader, base_timestamp: int) -> Buffer | None:
    """Sound records of a batch, their timestamp deltas relative to `base_timestamp`, which is not
    negative; None if a delta would pass 64 bits.

    With LogAppendTime, where the header's timestamp is that of all records, the deltas stay what
    they are.
    """
    kernels: Any = backend.kernels
    rebase = rebase_records_python if kernels is None else kernels.rebase_records
    rebased: Buffer | None = rebase(payload, header, base_timestamp)
    return rebased


def rebase_records_python(
    payload: Buffer, header: BatchHeader, base_timestamp: int
) -> bytearray | None:
    """`rebase_records` without the kernels."""
    if base_timestamp < 0:
        raise ValueError(f"no time to be relative to: {base_timestamp} ms")
    shift = 0 if header.is_log_append_time else header.base_timestamp - base_timestamp
    rebased, body = bytearray(), bytearray()
    pos, end = 0, len(payload)
    while pos < end:
        length, at = read_varint(payload, pos, end)
        delta, rest = read_varlong(payload, at + 1, end)
        if not INT64_MIN <= delta + shift <= INT64_MAX:
            return None
        body.clear()
        body.append(payload[at])
        append_varint(body, delta + shift)
        body += payload[rest : at + length]
        append_varint(rebased, len(body))
        rebased += body
        pos = at + length
    return rebased


def stored_key(key: bytes) -> bytes:
    """What stands for a key in `KeyOffsets`."""
    if len(key) <= PLAIN_KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=PLAIN_KEY_BYTES_MAX + 1).digest()


def _picked(payload: Buffer, flags: list[bool]) -> bytearray:
    """The records of `payload` whose flag is set, one behind the other."""
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
