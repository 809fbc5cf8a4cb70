"""The in-sync set of a leader: followers' fetches, and what the controller is asked for.

What is in sync, and how far, is reckoned by `LeaderState` (`isr`); this part has it look when a
follower fetches and when followers may have fallen behind, and takes its proposals to the
controller. One proposal is under way at a time, and is sent again until there is an answer.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.effects import CONTROLLER, Send
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.machines.partition.inputs import (
    AlterPartition,
    AlterPartitionAnswered,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    FollowerFetched,
    FollowerSeen,
)
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.log_start import LogStart
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import ANY_LEADER_EPOCH, PartitionQueries
from fencepost.wire.errors import ErrorCode

ISR_TIMER: Final = "isr"
ALTER_PARTITION_TIMER: Final = "alter-partition"

# Answers that say our metadata of the partition are out of date: newer ones are on their way, until
# then the proposal counts as possibly accepted.
_WAIT_FOR_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class InSync(PartitionPart):
    """Keeps a leader's in-sync set."""

    __slots__ = ("_acknowledging", "_log_start", "check_due_ms")

    def __init__(
        self,
        partition: PartitionQueries,
        outbox: StepOutbox,
        acknowledging: Acknowledging,
        log_start: LogStart,
    ) -> None:
        super().__init__(partition, outbox)
        self._acknowledging = acknowledging
        self._log_start = log_start
        self.check_due_ms: int | None = None
        """When followers are looked at next; None: the timer is not armed."""

    # Followers

    def step_follower_fetched(self, fetch: FollowerFetched, now_ms: int) -> None:
        """A follower asks for an offset: everything below is durable there."""
        partition = self._partition
        leader = partition.leader_state
        if leader is None:
            return
        if (
            fetch.leader_epoch > ANY_LEADER_EPOCH
            and fetch.leader_epoch != partition.leader_epoch
            and partition.check_other_epoch(fetch.leader_epoch) is not None
        ):
            return
        follower = leader.followers.get(fetch.replica_id)
        log_end = partition.log.end_offset
        if follower is None or fetch.fetch_offset > log_end:
            return
        if leader.is_of_former_incarnation(fetch.replica_id, fetch.broker_epoch):
            return
        has_moved = follower.offset != fetch.fetch_offset
        follower.fetched(fetch, log_end, now_ms)
        expansion = leader.propose_expansion(
            fetch.replica_id, partition.high_watermark, log_end, partition.config, now_ms
        )
        if expansion is not None:
            self._send_alter_partition(expansion, now_ms)
        if has_moved:
            self._acknowledging.maybe_advance(now_ms)
        if fetch.fetch_offset < log_end:
            self.maybe_watch(now_ms)
        self._log_start.release(leader)

    def step_follower_seen(self, seen: FollowerSeen, now_ms: int) -> None:
        """A follower's fetch waited at the log's end until then."""
        leader = self._partition.leader_state
        follower = leader.followers.get(seen.replica_id) if leader is not None else None
        if follower is not None and follower.broker_epoch == seen.broker_epoch:
            follower.seen(seen.at_ms)

    def maybe_watch(self, now_ms: int) -> None:
        """Look after followers at half the time they may lag, while one that counts has not all.

        A follower at the end is in sync for as long as the log does not grow, so partitions without
        producers cost nothing; an append watches again.
        """
        partition = self._partition
        leader = partition.leader_state
        if leader is not None and self.check_due_ms is None:
            lag_max_ms = partition.config.replica_lag_time_max_ms
            if leader.is_behind(partition.log.end_offset, lag_max_ms, now_ms):
                self.watch(now_ms)

    def watch(self, now_ms: int) -> None:
        """Arm the timer: followers that fetch nothing fall behind from now on."""
        interval_ms = max(self._partition.config.replica_lag_time_max_ms // 2, 1)
        self.check_due_ms = now_ms + interval_ms
        self._outbox.set_timer(ISR_TIMER, self.check_due_ms)

    def forget_time(self) -> None:
        """Followers are looked at in a moment, if at all, for a search that leaves time out."""
        if self.check_due_ms is not None:
            self.check_due_ms = 1

    def step_check_due(self, now_ms: int) -> None:
        """The timer fired: drop the followers that fell behind."""
        due_ms, self.check_due_ms = self.check_due_ms, None
        partition = self._partition
        leader = partition.leader_state
        if leader is None:
            return
        # A process that was stopped, or too busy to look, could not be asked either: what its
        # followers have sent meanwhile is still to be read.
        leader.forgive(max(0, now_ms - (now_ms if due_ms is None else due_ms)))
        shrink = leader.propose_shrink(partition.log.end_offset, partition.config, now_ms)
        if shrink is not None:
            self._send_alter_partition(shrink, now_ms)
        # A replica that fell behind before it was added does not hold the high watermark any more.
        self._acknowledging.maybe_advance(now_ms)
        self.maybe_watch(now_ms)

    # The controller

    def _send_alter_partition(self, proposal: AlterPartition, now_ms: int) -> None:
        self._outbox.emit(Send(CONTROLLER, proposal))
        retry_ms = now_ms + self._partition.config.alter_partition_retry_ms
        self._outbox.set_timer(ALTER_PARTITION_TIMER, retry_ms)

    def step_retry_due(self, now_ms: int) -> None:
        """The timer fired: the controller has not answered."""
        leader = self._partition.leader_state
        if leader is not None and leader.pending is not None:
            self._send_alter_partition(leader.pending, now_ms)

    def step_answered(self, answer: AlterPartitionAnswered, now_ms: int) -> None:
        """The controller has answered an AlterPartition."""
        partition = self._partition
        leader = partition.leader_state
        if leader is None or leader.pending is None:
            return
        if answer.asked is not None and answer.asked != leader.pending:
            return
        if answer.error_code == ErrorCode.NONE:
            # Another epoch's answer says nothing about this one; metadata will.
            if answer.leader_epoch != partition.leader_epoch or (
                answer.partition_epoch < leader.partition_epoch
            ):
                return
            before = leader.isr
            leader.commit(answer.isr, answer.partition_epoch)
            partition.isr_changes.note(before, leader.isr)
            self._outbox.set_timer(ALTER_PARTITION_TIMER, None)
            self.changed(leader, now_ms)
            return
        partition.isr_changes.failures += 1
        if partition.rules.is_undone(answer.error_code):
            leader.pending = None
            self._outbox.set_timer(ALTER_PARTITION_TIMER, None)
            self._acknowledging.maybe_advance(now_ms)
        elif answer.error_code in _WAIT_FOR_METADATA:
            self._outbox.set_timer(ALTER_PARTITION_TIMER, None)
        # Anything else passes: the timer asks again.

    def changed(self, leader: LeaderState, now_ms: int) -> None:
        """The in-sync set, or how large it must be, is another one."""
        if leader.is_under_min_isr(self._partition.config):
            self._acknowledging.for_all.refuse_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._acknowledging.maybe_advance(now_ms)
        self.maybe_watch(now_ms)

    def stop(self) -> None:
        """This replica leads no longer, and has nothing to ask the controller for."""
        self._outbox.set_timer(ALTER_PARTITION_TIMER, None)

    def step_brokers_changed(self, change: BrokersChanged, now_ms: int) -> None:
        """Other brokers are registered and unfenced now."""
        leader = self._partition.leader_state
        if leader is not None:
            leader.brokers_changed(change.eligible)
            if self._partition.rules.advances_by_metadata():
                self._acknowledging.maybe_advance(now_ms)
            self._log_start.release(leader)

    def step_config_changed(self, change: ConfigChanged, now_ms: int) -> None:
        """The topic's configuration has changed."""
        self._partition.config = change.config
        if self._partition.leader_state is not None:
            self.changed(self._partition.leader_state, now_ms)

    def follow(self, leader: LeaderState, metadata: BecomeLeader, now_ms: int) -> None:
        """Metadata of the leader epoch in which this replica leads already."""
        before = leader.isr
        if not leader.follow(metadata, now_ms):
            return
        self._partition.isr_changes.note(before, leader.isr)
        if leader.pending is None:
            self._outbox.set_timer(ALTER_PARTITION_TIMER, None)
        if self._partition.rules.advances_by_metadata():
            self.changed(leader, now_ms)
        self._log_start.release(leader)
