"""The inputs of a partition machine, and the values of its replies.

All plain values. Tokens, buffers and broker numbers are the shell's; offsets and epochs are the
log's. Deadlines are of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from fencepost.batch.header import SEQUENCE_MAX, BatchHeader
from fencepost.batch.record_batch import BatchBlock, RecordBatch
from fencepost.log.epochs import EpochEndOffset
from fencepost.wire.errors import ErrorCode

ANY_BROKER_EPOCH: Final = -1
"""A broker epoch that is not checked (clients of before KIP-903)."""


NO_TICKET: Final = 0
"""Stands for the ticket of what is not, or need not be, verified."""
TICKET_NOT_NEEDED: Final = -1
"""Stands for it where verification is switched off."""


class Isolation(IntEnum):
    """What a consumer may read, in the wire's numbers."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class RecoveryState(IntEnum):
    """Whether a leader was elected uncleanly and has not yet said that it settled (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionConfig(Struct, frozen=True):
    """What the topic's and the broker's configuration say about replication."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    alter_partition_retry_ms: int = 1_000
    log_append_time: bool = False


class ReplicaInSync(NamedTuple):
    """A broker of an in-sync set, with the epoch under which it is registered."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


# Inputs


class Produce(NamedTuple):
    """A client's batch for the leader: validated, its data writable.

    `deadline_ms` counts for acks=-1 only, as in Kafka. `ticket` is what `StartVerification` was
    answered with, if the batch is part of a transaction.
    """

    batch: RecordBatch
    acks: int
    token: Any
    deadline_ms: int
    ticket: int = NO_TICKET


class ProduceGroup(Struct, frozen=True):
    """Clients' batches that came together, in their order: appended together, answered one by one.

    The answers are those that the same batches get one after the other. Of one producer id there is
    more than one batch only if each follows the one before it (`may_follow`).
    """

    produces: Sequence[Produce]


class ProduceBlock(Struct, frozen=True):
    """The same for plain batches that stand together already, with one acks and one deadline.

    `token` is answered for all of them, with the offset of the first; `token_of(place)` is for one
    of them. Either all are answered in the one way, or each in the other.
    """

    block: BatchBlock
    acks: int
    token: Any
    token_of: Callable[[int], Any]
    deadline_ms: int

    def one_by_one(self) -> list[Produce]:
        """Its batches, each by itself."""
        return [
            Produce(batch, self.acks, self.token_of(place), self.deadline_ms)
            for place, batch in enumerate(self.block)
        ]


def may_follow(first: BatchHeader, second: BatchHeader) -> bool:
    """Whether, when the first was just appended, the second can be appended, too: of that there is
    no doubt where its producer goes on counting, and does not pass from a transaction to what is
    outside of any, or back. Behind a batch of a transaction that transaction is open."""
    return (
        first.producer_epoch == second.producer_epoch
        and second.base_sequence == (first.last_sequence + 1) & SEQUENCE_MAX
        and first.is_transactional == second.is_transactional
    )


class StartVerification(Struct, frozen=True):
    """A transactional producer is about to write: does its transaction coordinator have to be
    asked first? Answered `VerificationStarted`.

    `bumps_epochs` says that the producer's epoch goes up with every transaction (KIP-890, from
    Produce v12 on); `first_sequence` is -1 for what has none (offsets).
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    bumps_epochs: bool
    token: Any


class WriteMarker(Struct, frozen=True):
    """The marker that ends a transaction, for the leader: `batch` has nothing else.

    It is answered `ProduceResult` when it is committed, as with acks=all.
    """

    batch: RecordBatch
    coordinator_epoch: int
    transaction_version: int
    token: Any
    deadline_ms: int


class CoordinatorAppend(Struct, frozen=True):
    """A coordinator's batch for its own partition, decided while it led in `leader_epoch`.

    It is answered when it is in the log, not when it is committed: that, the coordinator sees by
    the high watermark. What is part of a transaction needs a `ticket` as a client's batch does, and
    its producer's epoch is checked, but no sequence; a marker brings what `WriteMarker` does.
    """

    batch: RecordBatch
    leader_epoch: int
    token: Any
    ticket: int = NO_TICKET
    coordinator_epoch: int = -1
    transaction_version: int = 0


class BecomeLeader(Struct, frozen=True):
    """The cluster's metadata says that this broker leads, or what changed while it leads.

    `eligible` maps every broker that may enter an in-sync set (registered, neither fenced nor
    shutting down) to its broker epoch.
    """

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: Mapping[int, int]
    recovery_state: RecoveryState = RecoveryState.RECOVERED


class BecomeFollower(Struct, frozen=True):
    """The cluster's metadata says that another broker leads, or none (`leader_id` -1)."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class BrokersChanged(Struct, frozen=True):
    """Which brokers may enter an in-sync set has changed; see `BecomeLeader.eligible`."""

    eligible: Mapping[int, int]


class AdvanceLogStart(NamedTuple):
    """Let the log start at `offset`, wherever that is asked for: records below it are deleted.

    With a `token` a client asks (DeleteRecords, KIP-107) and is answered `DeleteRecordsResult`:
    only a leader does it, -1 stands for the high watermark, and asking for less than is gone
    already is no error. It is answered when the logs of all live replicas start there, or with
    REQUEST_TIMED_OUT at `deadline_ms`, if that comes first. Without a token, the log's own
    retention asks, on leaders and followers. Records that consumers may not read yet cannot be
    deleted.
    """

    offset: int
    token: Any = None
    deadline_ms: int = 0


class StopReplica(Struct, frozen=True):
    """This broker has the partition no longer: it was deleted, or others were assigned to it.

    The last input: all requests that wait are answered, and nothing else is done any more.
    """

    is_deleted: bool


class FollowerFetched(Struct, frozen=True):
    """A follower asked for `fetch_offset`: everything below is durable in its log.

    To be fed for fetches that `check_fetch` found in order and not diverging. `leader_epoch` is
    the one the follower named (negative: none): what an older epoch's follower holds proves
    nothing. `log_start_offset` is where its log starts; -1: it did not say.
    """

    replica_id: int
    fetch_offset: int
    broker_epoch: int = ANY_BROKER_EPOCH
    leader_epoch: int = -1
    log_start_offset: int = -1


class FollowerSeen(Struct, frozen=True):
    """A follower has asked for its offset again and again, the last time at `at_ms`.

    For fetches that are not fed one by one, because neither they nor the log changed anything
    (`machines.fetch.quiet`).
    """

    replica_id: int
    broker_epoch: int
    at_ms: int


class AlterPartitionAnswered(Struct, frozen=True):
    """The controller's answer to an `AlterPartition`, or the error that came instead.

    `asked` is what was asked for: an answer to something that the leader no longer asks for says
    nothing about what it does. None is for the last.
    """

    error_code: int
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    asked: AlterPartition | None = None


class ConfigChanged(Struct, frozen=True):
    """The topic's configuration was altered."""

    config: PartitionConfig


class Fetched(Struct, frozen=True):
    """For a follower: what its leader answered to a fetch at `fetch_offset` under `leader_epoch`.

    `batches` are whole, with their final offsets; `leader_log_start_offset` is -1 where the leader
    does not say.
    """

    leader_epoch: int
    fetch_offset: int
    batches: Sequence[RecordBatch]
    leader_high_watermark: int
    leader_log_start_offset: int = -1


class Diverged(Struct, frozen=True):
    """For a follower: the leader's log parts from ours; its `epoch` ends at `end_offset` there."""

    leader_epoch: int
    epoch: int
    end_offset: int


class FetchedOutOfRange(Struct, frozen=True):
    """For a follower: our end offset is outside of the leader's log, which has these bounds."""

    leader_epoch: int
    leader_start_offset: int
    leader_end_offset: int


# Answers


class ProduceResult(NamedTuple):
    """What became of a batch. `base_offset` is -1 with an error."""

    error_code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class VerificationStarted(Struct, frozen=True):
    """With NONE: the ticket to write with once the coordinator has agreed, or `NO_TICKET` if the
    transaction is open here already and the coordinator need not be asked."""

    error_code: ErrorCode
    ticket: int = NO_TICKET


class DeleteRecordsResult(NamedTuple):
    """The least offset at which the log of any live replica starts now.

    -1 with an error, but for REQUEST_TIMED_OUT, and as long as a replica has not said.
    """

    error_code: ErrorCode
    low_watermark: int = -1


class AlterPartition(Struct, frozen=True):
    """Ask the controller for another in-sync set (KIP-497); sent to `CONTROLLER`."""

    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[ReplicaInSync, ...]
    recovery_state: RecoveryState


class FetchState(Struct, frozen=True):
    """What the answer to a fetch depends on, but for the log's end, which only replicas see.

    The last stable offset moves with the high watermark.
    """

    high_watermark: int
    log_start_offset: int
    leader_epoch: int
    is_leader: bool
    has_ended: bool


class FetchBounds(Struct, frozen=True):
    """What a fetch may read: [its offset, `upper_bound`), unless its log `diverging`s from ours.

    `leader_epoch` is what all that was said under. `preferred_replica` is the broker that a
    consumer is to read from instead; -1: from here.
    """

    upper_bound: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    leader_epoch: int = -1
    diverging: EpochEndOffset | None = None
    preferred_replica: int = -1


class ListedOffset(Struct, frozen=True):
    """An answer to ListOffsets; -1 throughout if there is no such record."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


NOT_LISTED: Final = ListedOffset(-1, -1, -1)


class TimestampLookup(Struct, frozen=True):
    """A ListOffsets request that needs the log's time index; `settle` judges what it finds.

    `timestamp_ms` is -3 where the greatest timestamp is asked for.
    """

    timestamp_ms: int
    last_fetchable_offset: int
    high_watermark_lags: bool

    def settle(self, found: tuple[int, int, int | None] | None) -> ListedOffset | ErrorCode:
        """The answer, given (offset, timestamp, leader epoch) of the log, or None.

        A record that may not be fetched yet is not there; if it may only be hidden by a high
        watermark that lags behind the election, the client is to ask again (KIP-207).
        """
        if found is not None and found[0] < self.last_fetchable_offset:
            offset, timestamp_ms, epoch = found
            return ListedOffset(offset, timestamp_ms, -1 if epoch is None else epoch)
        return ErrorCode.OFFSET_NOT_AVAILABLE if self.high_watermark_lags else NOT_LISTED
