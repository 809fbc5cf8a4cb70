"""What happens to a share partition, and what it asks of its node: inputs and effects.

Besides its own effects the machine has `Reply` and `SetTimer` of `machines.effects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from fencepost.machines.effects import Reply, SetTimer
from fencepost.machines.share.records import DeadLetterCause
from fencepost.machines.share.state_batch import StateBatch
from fencepost.wire.errors import ErrorCode

LOCKS_TIMER: Final = "locks"


class ShareLimits(Struct, frozen=True):
    """What the group's configs say, for the machine."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True
    has_dead_letters: bool = False
    """Whether records that are given up are written to a dead letter queue (KIP-1191)."""


class OffsetRange(NamedTuple):
    """Offsets from `first` to `last`, both inclusive."""

    first: int
    last: int


# Inputs


class Acquire(Struct, frozen=True):
    """Records were read from the log at `next_fetch_offset`, for a member to acquire.

    `batches` are the record batches, in order, the first perhaps with offsets in front of the one
    that was asked for. `aborted` are those of aborted transactions: archived, not delivered.
    """

    member_id: str
    batches: Sequence[OffsetRange]
    max_records: int
    batch_size: int
    is_record_limit: bool = False
    """Whether `max_records` is a hard limit (KIP-1206), or whole batches are acquired."""
    aborted: Sequence[OffsetRange] = ()


class AcknowledgedBatch(NamedTuple):
    """What a member says of a range: one type for all offsets, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class AcknowledgeResult(NamedTuple):
    """The answer to `Acknowledge` and `Release`."""

    error: ErrorCode
    message: str | None = None
    """What is wrong, for the client."""


class Acknowledge(Struct, frozen=True):
    """A member says what became of records it has acquired. Answered `AcknowledgeResult`."""

    member_id: str
    batches: Sequence[AcknowledgedBatch]
    token: Any


class Release(Struct, frozen=True):
    """The member's session has ended: what it holds becomes available. `token` as before."""

    member_id: str
    token: Any = None


class StateWritten(Struct, frozen=True):
    """The share coordinator has answered the write with that ticket."""

    ticket: int
    error: ErrorCode


class LogStartMoved(Struct, frozen=True):
    """The log begins at `offset` now."""

    offset: int


class LetterRange(NamedTuple):
    """Records whose dead letters are to be written, of one delivery count."""

    first: int
    last: int
    delivery_count: int
    cause: DeadLetterCause


class DeadLettersDone(Struct, frozen=True):
    """The letters of the range are written, or given up."""

    letters: LetterRange


# Effects


class WriteShareState(Struct, frozen=True):
    """Have the share coordinator merge `batches` into the state; answered by `StateWritten`."""

    ticket: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class SendDeadLetters(Struct, frozen=True):
    """Write letters for the records; answered by `DeadLettersDone`, once for each range."""

    letters: tuple[LetterRange, ...]


class Acquired(Struct, frozen=True):
    """The answer to `Acquire`: (first offset, last offset, delivery count), in order."""

    records: tuple[tuple[int, int, int], ...]


class MayAcquire(Struct, frozen=True):
    """A fetch that waits may find records that it did not find before."""


class Fenced(Struct, frozen=True):
    """The state belongs to a newer leader, or was begun again: this machine must not go on."""

    error: ErrorCode


ShareEffect = WriteShareState | SendDeadLetters | Acquired | MayAcquire | Fenced | Reply | SetTimer
ShareInput = Acquire | Acknowledge | Release | StateWritten | LogStartMoved | DeadLettersDone
