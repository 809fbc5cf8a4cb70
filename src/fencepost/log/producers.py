"""What a log remembers of its producers, so that a retried batch is not stored twice.

Theory of operation
-------------------
An idempotent producer numbers its records per partition (KIP-98). For each producer id the log
keeps the epoch and the last five batches, which is as many as a producer may have in flight.
`check` judges a batch against that without changing anything:

| the batch                                                     | verdict                       |
|---------------------------------------------------------------|-------------------------------|
| has no producer id, or one that is not known here             | accepted, any sequence        |
| same epoch, first and last sequence of one of the last five   | a duplicate: its offsets      |
| an older epoch                                                | INVALID_PRODUCER_EPOCH        |
| a newer epoch, sequence 0                                     | accepted                      |
| a newer epoch, another sequence                               | OUT_OF_ORDER_SEQUENCE_NUMBER  |
| same epoch, sequence right behind the last                    | accepted                      |
| same epoch, any other sequence                                | OUT_OF_ORDER_SEQUENCE_NUMBER  |
| accepted so far, of no transaction while one is open          | INVALID_TXN_STATE             |

Sequences run from 0 to 2**31 - 1 and begin again at 0. An unknown producer is accepted with any
sequence because its state may have expired, or gone with a deleted disk; after an end marker, which
has no sequence, the next batch must begin at 0.

`check_marker` judges the end marker of a transaction, which a coordinator has written:

| the marker                                                    | verdict                       |
|---------------------------------------------------------------|-------------------------------|
| an older epoch                                                | INVALID_PRODUCER_EPOCH        |
| with KIP-890 the epoch of the transaction that is open: it    | INVALID_PRODUCER_EPOCH        |
|   must be a newer one, unless there is none (32767)           |                               |
| of an older coordinator than one that wrote a marker here     | TRANSACTION_COORDINATOR_FENCED|
| otherwise; also with nothing open: it may come again          | accepted                      |
|   (KAFKA-19999)                                               |                               |

`update` notes a batch that was appended, on the leader and on followers, and `complete_transaction`
an end marker. Transactions in progress are known by their first offset: the earliest of them bounds
what readers of committed data may see. So does one that is decided, until its marker is below the
high watermark: the marker might yet be lost, and another one come in its place.

Producers that have been silent for `producer.id.expiration.ms` are forgotten, unless in the midst
of a transaction. Deleting old segments forgets no producer (KAFKA-5355's lesson: a retry may come
later than the retention).

Snapshot file (`<offset>.snapshot`: the state up to that offset), big-endian:

    0   int16   version, 1
    2   uint32  CRC-32C of everything from byte 6 on
    6   int32   number of entries
    10  entries of 46 bytes: producer id int64, epoch int16, last sequence int32, last offset int64,
        last offset minus first offset int32, timestamp int64, coordinator epoch int32,
        first offset of the current transaction int64 (-1: none)

`fencepost.wire.records.producer_snapshot` declares the same as a message class, and says why the
bytes are packed by hand here.

Only the last batch of each producer is in it; after a restart the window refills.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from fencepost.batch.crc import crc32c
from fencepost.batch.header import BatchHeader
from fencepost.log.disk import Buffer
from fencepost.log.errors import CorruptFileError
from fencepost.wire.errors import ErrorCode

BATCHES_KEPT: Final = 5
"""As many batches as an idempotent producer may have in flight on one connection."""

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default of `producer.id.expiration.ms`."""

NO_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
KIP_890_VERSION: Final = 2
"""The version of the transaction protocol whose markers carry the next transaction's epoch."""
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
SEQUENCE_MAX: Final = (1 << 31) - 1

SNAPSHOT_BYTES_MAX: Final = 256 << 20
"""Of a snapshot file: more than five million producers."""

_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1
_CRC_COVERS_FROM: Final = 6
assert _SNAPSHOT_ENTRY.size == 46


class BatchMetadata(NamedTuple):
    """What is kept of an appended batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class Verdict(NamedTuple):
    """Whether a batch may be appended; offsets and timestamp are those of the original."""

    error_code: ErrorCode
    first_offset: int = NO_OFFSET
    last_offset: int = NO_OFFSET
    timestamp_ms: int = -1

    @property
    def is_ok(self) -> bool:
        """The batch may be appended."""
        return self.error_code == ErrorCode.NONE

    @property
    def is_duplicate(self) -> bool:
        """The batch has been appended before: answer with the original's offsets."""
        return self.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER

    @classmethod
    def duplicate_of(cls, original: BatchMetadata) -> Verdict:
        """The verdict about a batch that is stored already, as `original`."""
        return cls(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            original.first_offset,
            original.last_offset,
            original.timestamp_ms,
        )


OK: Final = Verdict(ErrorCode.NONE)
OUT_OF_ORDER: Final = Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
FENCED: Final = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
BAD_STATE: Final = Verdict(ErrorCode.INVALID_TXN_STATE)


class ProducerState:
    """One producer id's state; read-only outside of this module."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_EPOCH
        self.batches: tuple[BatchMetadata, ...] = ()
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET
        self.last_timestamp_ms = -1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if no batch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record, -1 if no batch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The kept batch with the same epoch and sequences."""
        if header.producer_epoch != self.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None


class ProducerStates:
    """The producers of one log, up to `end_offset`."""

    __slots__ = ("_decided", "_ongoing", "_states", "end_offset")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        # First offset of a transaction -> producer id, in the order of the offsets: every fetch
        # asks for the first, and there may be thousands.
        self._ongoing: dict[int, int] = {}
        self._decided: deque[tuple[int, int]] = deque()  # marker's offset, first offset
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of the producer."""
        return self._states.get(producer_id)

    def active(self) -> Iterator[ProducerState]:
        """Every known producer."""
        return iter(self._states.values())

    def check(self, header: BatchHeader) -> Verdict:
        """Judge a client's batch; see the table in the module docstring. Changes nothing."""
        if header.producer_id < 0:
            return OK
        state = self._states.get(header.producer_id)
        if state is None or state.producer_epoch == NO_EPOCH:
            return OK
        epoch = header.producer_epoch
        if epoch < state.producer_epoch:
            return FENCED
        if epoch > state.producer_epoch:
            follows = header.base_sequence == 0
        else:
            follows = header.base_sequence == (state.last_sequence + 1) & SEQUENCE_MAX
            if not follows:
                original = state.find_duplicate(header)
                if original is not None:
                    return Verdict.duplicate_of(original)
        if not follows:
            return OUT_OF_ORDER
        if state.current_txn_first_offset >= 0 and not header.is_transactional:
            return BAD_STATE
        return OK

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer is in the midst of a transaction of that epoch."""
        state = self._states.get(producer_id)
        return (
            state is not None
            and state.current_txn_first_offset >= 0
            and state.producer_epoch == producer_epoch
        )

    def check_marker(
        self,
        header: BatchHeader,
        coordinator_epoch: int,
        transaction_version: int,
        is_late: Callable[[bool], bool] = bool,
    ) -> ErrorCode:
        """Judge the end marker with this header; see the second table. Changes nothing.

        `is_late` says, given whether its transaction is open, whether a marker of KIP-890 with the
        epoch that is known already is refused.

        Only leaders ask: the protocol's version is not in the log.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return ErrorCode.NONE
        epoch, known = header.producer_epoch, state.producer_epoch
        if epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (
            transaction_version >= KIP_890_VERSION
            and epoch == known
            and is_late(state.current_txn_first_offset >= 0)
            and epoch != EPOCH_MAX
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def update(self, header: BatchHeader, offset: int) -> None:
        """Note a data batch that was appended with its first record at `offset`.

        Nothing is judged here: a follower takes over what its leader has accepted.
        """
        delta = header.last_offset_delta
        producer_id = header.producer_id
        if producer_id >= 0:
            state = self._states.get(producer_id)
            if state is None:
                state = self._states[producer_id] = ProducerState(producer_id)
            if header.producer_epoch != state.producer_epoch:
                state.producer_epoch = header.producer_epoch
                state.batches = ()
            timestamp_ms = header.max_timestamp
            state.batches = (
                *state.batches[1 - BATCHES_KEPT :],
                BatchMetadata(header.last_sequence, offset + delta, delta, timestamp_ms),
            )
            state.last_timestamp_ms = timestamp_ms
            if header.is_transactional and state.current_txn_first_offset < 0:
                state.current_txn_first_offset = offset
                self._ongoing[offset] = producer_id
        self.end_offset = offset + delta + 1

    def complete_transaction(self, header: BatchHeader, coordinator_epoch: int) -> int:
        """Note an end marker (commit or abort); the transaction's first offset, -1 if it had none.

        `header` is the marker's, with its final offset.
        """
        producer_id = header.producer_id
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id)
        if header.producer_epoch != state.producer_epoch:
            state.producer_epoch = header.producer_epoch
            state.batches = ()
        first_offset = state.current_txn_first_offset
        if self._ongoing.pop(first_offset, None) is not None:
            self._decided.append((header.last_offset, first_offset))
        state.current_txn_first_offset = NO_OFFSET
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp_ms = header.max_timestamp
        self.end_offset = header.next_offset
        return first_offset

    def first_undecided_offset(self) -> int | None:
        """First offset of the earliest transaction in progress."""
        return next(iter(self._ongoing), None)

    def oldest_transaction_ms(self) -> int | None:
        """When the earliest transaction in progress was last written to, by its records' times."""
        first_offset = self.first_undecided_offset()
        if first_offset is None:
            return None
        return self._states[self._ongoing[first_offset]].last_timestamp_ms

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """First offset of the earliest transaction whose end is not below the high watermark.

        It is either in progress, or its marker may still be lost.
        """
        first_offset = next(iter(self._ongoing), None)
        for marker, first in self._decided:
            if marker >= high_watermark and (first_offset is None or first < first_offset):
                first_offset = first
        return first_offset

    def forget_decided(self, high_watermark: int) -> None:
        """The high watermark is here now: transactions with markers below it are history."""
        decided = self._decided
        while decided and decided[0][0] < high_watermark:
            decided.popleft()

    def remove_expired(self, wall_ms: int, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> int:
        """Forget producers silent for `expiration_ms` and without a transaction; how many."""
        expired = [
            state.producer_id
            for state in self._states.values()
            if state.current_txn_first_offset < 0
            and wall_ms - state.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    def clear(self, end_offset: int) -> None:
        """Forget all producers; the state is now that of an empty log up to `end_offset`.

        Transactions whose markers are below it stay decided: snapshots do not have them.
        """
        self._states.clear()
        self._ongoing.clear()
        while self._decided and self._decided[-1][0] >= end_offset:
            self._decided.pop()
        self.end_offset = end_offset

    def load(self, entries: Iterable[ProducerState], end_offset: int) -> None:
        """Take over a snapshot's entries, the state up to `end_offset`."""
        self.clear(end_offset)
        ongoing = {}
        for state in entries:
            self._states[state.producer_id] = state
            if state.current_txn_first_offset >= 0:
                ongoing[state.current_txn_first_offset] = state.producer_id
        self._ongoing.update(sorted(ongoing.items()))

    def encode(self) -> bytes:
        """The content of a snapshot file of this state."""
        size = _SNAPSHOT_HEAD.size + _SNAPSHOT_ENTRY.size * len(self._states)
        data = bytearray(size)
        at = _SNAPSHOT_HEAD.size
        for state in self._states.values():
            batch = state.batches[-1] if state.batches else None
            _SNAPSHOT_ENTRY.pack_into(
                data,
                at,
                state.producer_id,
                state.producer_epoch,
                batch.last_sequence if batch else NO_SEQUENCE,
                batch.last_offset if batch else NO_OFFSET,
                batch.offset_delta if batch else 0,
                state.last_timestamp_ms,
                state.coordinator_epoch,
                state.current_txn_first_offset,
            )
            at += _SNAPSHOT_ENTRY.size
        _SNAPSHOT_HEAD.pack_into(data, 0, _SNAPSHOT_VERSION, 0, len(self._states))
        crc = crc32c(memoryview(data)[_CRC_COVERS_FROM:])
        _SNAPSHOT_HEAD.pack_into(data, 0, _SNAPSHOT_VERSION, crc, len(self._states))
        return bytes(data)


def decode_snapshot(path: str, data: Buffer) -> list[ProducerState]:
    """The producers in a snapshot file. CorruptFileError."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptFileError(path, f"has {len(data)} bytes, fewer than its head")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptFileError(path, f"has version {version}, not {_SNAPSHOT_VERSION}")
    expected = _SNAPSHOT_HEAD.size + _SNAPSHOT_ENTRY.size * count
    if count < 0 or len(data) != expected:
        raise CorruptFileError(path, f"has {len(data)} bytes, not {expected} for {count} entries")
    found = crc32c(memoryview(data)[_CRC_COVERS_FROM:])
    if found != crc:
        raise CorruptFileError(
            path, f"CRC mismatch: it says {crc:#010x}, its content has {found:#010x}"
        )
    entries = _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :])
    return [_state_of(entry) for entry in entries]


def _state_of(entry: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator, txn_first = entry
    state = ProducerState(producer_id)
    state.producer_epoch = epoch
    if offset >= 0:
        state.batches = (BatchMetadata(sequence, offset, delta, timestamp_ms),)
    state.last_timestamp_ms = timestamp_ms
    state.coordinator_epoch = coordinator
    state.current_txn_first_offset = txn_first
    return state
