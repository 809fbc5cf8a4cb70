"""What can be asked of a partition without changing it: may this be read, where does that end.

Theory of operation
-------------------
Every question comes with the leader epoch its asker believes in, and is judged in the order Kafka
judges it, because the order decides which error a confused client sees (and so what it does next):

1. the log is offline: KAFKA_STORAGE_ERROR; the partition was deleted: UNKNOWN_TOPIC_OR_PARTITION;
   others are assigned to it: NOT_LEADER_OR_FOLLOWER;
2. the asker's epoch is older than ours: FENCED_LEADER_EPOCH, newer: UNKNOWN_LEADER_EPOCH
   (-1: the asker does not say; nor does a fetch with any other negative one, as in Kafka);
3. the answer is the leader's to give and we are not: NOT_LEADER_OR_FOLLOWER. Only now: a client of
   an old epoch that asks a follower learns that its epoch is old;
4. a follower asks that is not assigned: UNKNOWN_LEADER_EPOCH if it named an epoch (it may know a
   newer assignment than we do), else NOT_LEADER_OR_FOLLOWER; one that asks with the broker epoch of
   a former incarnation: NOT_LEADER_OR_FOLLOWER (KIP-903);
5. its last fetched epoch does not end where it thinks: the answer says where our logs part;
6. its offset is outside of the log: OFFSET_OUT_OF_RANGE.

Readers never see past what is durable on every in-sync replica (the high watermark), readers of
committed data not past the first open transaction; only replicas see the log's end. All offsets of
one answer are read at one moment: nothing runs in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Protocol

from fencepost.log.divergence import find_divergence
from fencepost.log.epochs import UNDEFINED_EPOCH, EpochEndOffset, LeaderEpochCache
from fencepost.log.producers import ProducerStates
from fencepost.machines.partition.inputs import (
    ANY_BROKER_EPOCH,
    NOT_LISTED,
    AlterPartition,
    FetchBounds,
    FetchState,
    Isolation,
    ListedOffset,
    PartitionConfig,
    ReplicaInSync,
    TimestampLookup,
)
from fencepost.machines.partition.isr import FollowerState, IsrChanges, LeaderState
from fencepost.machines.partition.rules import PartitionRules
from fencepost.wire.errors import ErrorCode

ANY_LEADER_EPOCH: Final = -1
CONSUMER_REPLICA_ID: Final = -1
"""Replica id of consumers; -2 is a consumer that debugs and is treated like any other."""

FUTURE_LOCAL_REPLICA_ID: Final = -3
"""A copy of the log that is being moved to another directory of this broker."""

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


class LogView(Protocol):
    """What a partition sees of its log; `fencepost.log.partition_log.PartitionLog` is one."""

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def epochs(self) -> LeaderEpochCache:
        """Which epoch begins where."""
        ...

    @property
    def producers(self) -> ProducerStates:
        """What is known of idempotent producers."""
        ...


class PartitionQueries:
    """What a replica knows of its partition, and the questions that are answered from it.

    The parts of the machine (`part.py`) share this state and change it; other code reads it.
    """

    NOT_STATE: ClassVar = frozenset(("config", "isr_changes", "log", "rules", "wall_ms"))

    def __init__(
        self,
        local_id: int,
        log: LogView,
        *,
        high_watermark: int,
        durable_offset: int,
        config: PartitionConfig,
        rules: PartitionRules,
    ) -> None:
        self.local_id = local_id
        self.log = log
        self.config = config
        self.rules = rules
        self.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        self.durable_offset = min(durable_offset, log.end_offset)
        """Everything below it is on stable storage."""
        self.leader_epoch = -1
        self.leader_id = -1
        self.leader_state: LeaderState | None = None
        """What this replica knows as leader; None while it does not lead."""
        self.closed: ErrorCode | None = None
        """Why the replica has ended, and the error of every answer from then on."""
        self.answers_taken = 0
        """How many answers of leaders a fetcher has given it, used or not."""
        self.isr_changes = IsrChanges()
        """Only grows, through all leader epochs."""
        self.wall_ms = 0
        """The wall clock of the present step."""

    def raise_high_watermark(self, offset: int) -> None:
        """The high watermark has advanced to `offset`."""
        self.high_watermark = offset
        self.log.producers.forget_decided(offset)

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads, its log works, and it has not been stopped."""
        return self.leader_state is not None and self.closed is None

    @property
    def is_following(self) -> bool:
        """Whether another broker leads, whose log this replica is to copy."""
        return self.leader_state is None and self.closed is None and self.leader_id >= 0

    @property
    def fetch_state(self) -> FetchState:
        """What has to change for a fetch that waits to be answered otherwise."""
        has_ended = self.closed is not None
        return FetchState(
            self.high_watermark,
            self.log.start_offset,
            self.leader_epoch,
            self.leader_state is not None and not has_ended,
            has_ended,
        )

    @property
    def has_ended(self) -> bool:
        """Whether it answers nothing any more: its disk has refused, or it was stopped."""
        return self.closed is not None

    @property
    def is_offline(self) -> bool:
        """Whether the log's disk has refused."""
        return self.closed is ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.log.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided; never above the high watermark."""
        decided = self.rules.decided_from(self.high_watermark, self.log.end_offset)
        unstable = self.log.producers.first_unstable_offset(decided)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def isr(self) -> frozenset[int]:
        """The committed in-sync set, as far as a leader knows it; empty elsewhere."""
        return self.leader_state.isr if self.leader_state is not None else frozenset()

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that the controller may have in sync by now; empty unless this leads."""
        return self.leader_state.maximal_isr if self.leader_state is not None else frozenset()

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self.config.min_insync_replicas, self.replica_count)

    @property
    def replica_count(self) -> int:
        """How many replicas a leader knows the partition to have; 1 elsewhere."""
        return len(self.leader_state.followers) + 1 if self.leader_state is not None else 1

    @property
    def followers(self) -> Mapping[int, FollowerState]:
        """What a leader knows of its followers, by broker; empty elsewhere. To be read only."""
        return self.leader_state.followers if self.leader_state is not None else {}

    def follower_state(self, broker_id: int) -> FollowerState | None:
        """What a leader knows of a follower; None elsewhere, and of others."""
        leader = self.leader_state
        return leader.followers.get(broker_id) if leader is not None else None

    def in_sync_holding(self, offset: int) -> list[tuple[int, FollowerState]]:
        """The followers that are in sync and hold `offset`, as far as a leader knows."""
        leader = self.leader_state
        if leader is None:
            return []
        return [
            (broker_id, follower)
            for broker_id, follower in leader.followers.items()
            if broker_id in leader.isr and follower.log_start_offset <= offset <= follower.offset
        ]

    def epoch_to_ask_with(self, member: ReplicaInSync) -> int:
        """The broker epoch under which a follower is asked for that is in a proposal."""
        follower = self.follower_state(member.broker_id)
        since = member.broker_epoch if follower is None else follower.broker_epoch
        return self.rules.epoch_to_ask_with(member.broker_epoch, since)

    @property
    def proposal(self) -> AlterPartition | None:
        """What a leader asks the controller for and has no answer to yet."""
        return self.leader_state.pending if self.leader_state is not None else None

    def fetch_position(self) -> tuple[int, int]:
        """What a follower fetches next from its leader: (offset, last fetched epoch or -1).

        The answer holds once everything up to that offset is durable. The epoch is the latest one
        known, also if this replica led it and wrote nothing: the leader then says where the epoch
        before it ends, and only so can records of earlier epochs follow.
        """
        latest = self.log.epochs.latest_epoch()
        return self.log.end_offset, -1 if latest is None else latest

    def check_fetch(
        self,
        *,
        fetch_offset: int,
        current_leader_epoch: int = ANY_LEADER_EPOCH,
        last_fetched_epoch: int = UNDEFINED_EPOCH,
        replica_id: int = CONSUMER_REPLICA_ID,
        broker_epoch: int = ANY_BROKER_EPOCH,
        isolation: int = Isolation.READ_UNCOMMITTED,
        leader_only: bool = True,
    ) -> FetchBounds | ErrorCode:
        """What a fetch at `fetch_offset` may read; see the module for the order of the checks.

        `leader_only` is False for consumers of Fetch v11 and later, which may read from followers.
        `FetchBounds.diverging` means: answer with it and without records, and do not tell the
        machine that the follower fetched.
        """
        if current_leader_epoch < ANY_LEADER_EPOCH:
            current_leader_epoch = ANY_LEADER_EPOCH
        refused = self.check_asker(current_leader_epoch, leader_only or replica_id >= 0)
        if refused is None and replica_id >= 0:
            refused = self._check_follower(replica_id, broker_epoch, current_leader_epoch)
        if refused is not None:
            return refused
        log = self.log
        start, end = log.start_offset, log.end_offset
        high_watermark, stable = self.high_watermark, self.last_stable_offset
        leader_epoch = self.leader_epoch
        if replica_id >= 0 or replica_id == FUTURE_LOCAL_REPLICA_ID:
            upper_bound = end
        else:
            upper_bound = stable if isolation == Isolation.READ_COMMITTED else high_watermark
        if last_fetched_epoch > UNDEFINED_EPOCH:
            log_end = EpochEndOffset(UNDEFINED_EPOCH, end)
            diverging = find_divergence(log.epochs, last_fetched_epoch, fetch_offset, log_end)
            if diverging is not None and fetch_offset >= start:
                if diverging.epoch == UNDEFINED_EPOCH:
                    return ErrorCode.OFFSET_OUT_OF_RANGE
                return FetchBounds(
                    upper_bound, high_watermark, stable, start, end, leader_epoch, diverging
                )
        if not start <= fetch_offset <= end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchBounds(upper_bound, high_watermark, stable, start, end, leader_epoch)

    def offset_for_leader_epoch(
        self, current_leader_epoch: int, epoch: int, *, leader_only: bool = True
    ) -> EpochEndOffset | ErrorCode:
        """Where `epoch` ends in this log; (-1, -1) where that cannot be said (KIP-101, KIP-279).

        For the latest epoch that is the log's end, not the high watermark: a consumer may hear of
        an offset that it may not read yet.
        """
        refused = self.check_asker(current_leader_epoch, leader_only)
        if refused is not None:
            return refused
        return self.log.epochs.end_offset_for(epoch, self.log.end_offset)

    def list_offset(
        self,
        *,
        timestamp_ms: int,
        current_leader_epoch: int = ANY_LEADER_EPOCH,
        isolation: int | None = Isolation.READ_UNCOMMITTED,
        leader_only: bool = True,
    ) -> ListedOffset | TimestampLookup | ErrorCode:
        """The offset at `timestamp_ms` or at one of ListOffsets' special negative ones.

        `isolation` is None for replicas, whose latest offset is the log's end. After an election
        the high watermark may lag behind the start of the new epoch; until it has caught up the
        latest offset is OFFSET_NOT_AVAILABLE rather than one that was surpassed before (KIP-207).
        An answer that needs the time index is a `TimestampLookup`.
        """
        refused = self.check_asker(current_leader_epoch, leader_only)
        if refused is not None:
            return refused
        if isolation is None:
            fetchable = self.log.end_offset
        elif isolation == Isolation.READ_COMMITTED:
            fetchable = self.last_stable_offset
        else:
            fetchable = self.high_watermark
        lags = (
            isolation is not None
            and self.leader_state is not None
            and not self.rules.knows_latest_offset(
                self.high_watermark, self.leader_state.epoch_start_offset
            )
        )
        if timestamp_ms == LATEST_TIMESTAMP:
            if lags:
                return ErrorCode.OFFSET_NOT_AVAILABLE
            return ListedOffset(fetchable, -1, self.leader_epoch)
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = self.log.start_offset
            epoch = self.log.epochs.epoch_at(start)
            return ListedOffset(start, -1, -1 if epoch is None else epoch)
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return NOT_LISTED  # nothing is tiered
        if timestamp_ms < MAX_TIMESTAMP:
            return ErrorCode.UNSUPPORTED_VERSION
        return TimestampLookup(timestamp_ms, fetchable, lags)

    def check_asker(self, current_leader_epoch: int, leader_only: bool) -> ErrorCode | None:
        """The error for a request that names this leader epoch; None if it may be answered."""
        if self.closed is not None:
            return self.closed
        if current_leader_epoch != ANY_LEADER_EPOCH and current_leader_epoch != self.leader_epoch:
            other = self.check_other_epoch(current_leader_epoch)
            if other is not None:
                return other
        if leader_only and self.leader_state is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    def check_other_epoch(self, asked: int) -> ErrorCode | None:
        """The error for a request that names another leader epoch than ours, if there is one."""
        if self.rules.is_of_older_epoch(asked, self.leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH
        if self.rules.is_of_newer_epoch(asked, self.leader_epoch):
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return None

    def _check_follower(
        self, replica_id: int, broker_epoch: int, current_leader_epoch: int
    ) -> ErrorCode | None:
        leader = self.leader_state
        assert leader is not None
        if replica_id not in leader.followers:
            if current_leader_epoch != ANY_LEADER_EPOCH:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader.is_of_former_incarnation(replica_id, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None
