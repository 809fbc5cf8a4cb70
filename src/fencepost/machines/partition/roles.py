"""How a replica becomes leader or follower, and how it ends.

Metadata of an older leader epoch change nothing. A leader that leads no longer answers every
request that waits with NOT_LEADER_OR_FOLLOWER; a replica that has ended answers with the reason.
"""

from __future__ import annotations

from fencepost.machines.effects import DiskFailed, Fail, Reply
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.machines.partition.appending import Appending
from fencepost.machines.partition.in_sync import InSync
from fencepost.machines.partition.inputs import BecomeFollower, BecomeLeader, StopReplica
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.log_start import LogStart
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import PartitionQueries
from fencepost.wire.errors import ErrorCode


class ReplicaRoles(PartitionPart):
    """Changes the role of the replica."""

    __slots__ = ("_acknowledging", "_appending", "_in_sync", "_log_start")

    def __init__(
        self,
        partition: PartitionQueries,
        outbox: StepOutbox,
        acknowledging: Acknowledging,
        log_start: LogStart,
        in_sync: InSync,
        appending: Appending,
    ) -> None:
        super().__init__(partition, outbox)
        self._acknowledging = acknowledging
        self._log_start = log_start
        self._in_sync = in_sync
        self._appending = appending

    def step_become_leader(self, metadata: BecomeLeader, now_ms: int) -> None:
        """The metadata name this replica the leader."""
        partition = self._partition
        if metadata.leader_epoch < partition.leader_epoch:
            return
        assert partition.local_id in metadata.replicas, (partition.local_id, metadata.replicas)
        leader = partition.leader_state
        if leader is not None:
            if metadata.leader_epoch == partition.leader_epoch:
                self._in_sync.follow(leader, metadata, now_ms)
                return
            self._stop_leading()
        epoch_start_offset = partition.log.end_offset
        partition.log.epochs.assign(metadata.leader_epoch, epoch_start_offset)
        partition.leader_epoch = metadata.leader_epoch
        partition.leader_id = partition.local_id
        leader = partition.leader_state = LeaderState(
            partition.local_id, metadata, epoch_start_offset, now_ms, partition.rules
        )
        self._in_sync.changed(leader, now_ms)

    def step_become_follower(self, metadata: BecomeFollower, now_ms: int) -> None:
        """The metadata name another broker the leader, or none."""
        partition = self._partition
        if metadata.leader_epoch < partition.leader_epoch:
            return
        assert metadata.leader_id != partition.local_id
        if partition.leader_state is not None:
            # The controller changes the leader with the epoch, never within one.
            assert metadata.leader_epoch > partition.leader_epoch or metadata.leader_id < 0, (
                metadata
            )
            self._stop_leading()
        partition.leader_epoch = metadata.leader_epoch
        partition.leader_id = metadata.leader_id

    def _stop_leading(self) -> None:
        self._partition.leader_state = None
        self._appending.transactions.forget()
        self._refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._in_sync.stop()

    def step_stop(self, stop: StopReplica, now_ms: int) -> None:
        """This broker holds the partition no longer."""
        self._close(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if stop.is_deleted
            else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def step_disk_failed(self, failure: DiskFailed, now_ms: int) -> None:
        """The log's disk has refused."""
        self._outbox.drop()
        for dropped in failure.dropped:
            if type(dropped) is Reply:  # acks=0, a coordinator's batch, or a start that was to move
                error = type(dropped.value)(ErrorCode.KAFKA_STORAGE_ERROR)
                self._outbox.reply(dropped.token, error)
        self._close(ErrorCode.KAFKA_STORAGE_ERROR)
        self._outbox.emit(Fail(failure.reason))

    def _close(self, error: ErrorCode) -> None:
        self._partition.closed = error
        self._partition.leader_state = None
        self._refuse_waiting(error)

    def _refuse_waiting(self, error: ErrorCode) -> None:
        self._acknowledging.refuse_all(error)
        self._log_start.waiting.refuse_all(error)
