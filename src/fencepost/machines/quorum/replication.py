"""Replication: append, note how far the replicas have come, commit what a majority holds.

The high watermark is the largest offset up to which a majority of voters hold the log on disk: the
leader by `Persisted`, unless it is being removed from the voters, followers by the offsets they
fetch from. The voters are those of the latest set in the log, committed or not (KIP-853). It moves
only past a record of the leader's own epoch (KIP-595; Raft's figure 8). Records of earlier epochs
are committed with it: a majority may hold them and a leader of a later epoch still cut them off, as
long as none of ours stands on top of them.

A leader that has not been fetched from by a majority for 1.5 fetch timeouts resigns: it may be cut
off, and others may have a leader already. A lone voter is a majority and never resigns.

How far each replica has come is in `tracker.py`.
"""

from __future__ import annotations

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.config import MAX_OBSERVERS, MAX_PENDING_APPENDS
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Leader, PendingAppend, Role
from fencepost.machines.quorum.tracker import Progress
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.errors import ErrorCode


class Replication(Part):
    """What a leader does with appends and with the progress of replicas."""

    def __init__(self, node: QuorumNode, roles: RoleChanges) -> None:
        super().__init__(node)
        self._roles = roles

    # -- appends -------------------------------------------------------------------------------

    def step_append(self, input_: inputs.AppendRecords) -> None:
        """Take batches to the end of the log; answered when they are committed."""
        leader = self._node.role_state
        epoch = self._outbox.state.epoch
        error = ErrorCode.NONE
        if not isinstance(leader, Leader) or input_.epoch != epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self._node.role is Role.FAILED:
                error = ErrorCode.KAFKA_STORAGE_ERROR
        elif len(leader.appends) >= MAX_PENDING_APPENDS:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif input_.base_offset >= 0 and input_.base_offset != self._log.end_offset:
            error = ErrorCode.INVALID_UPDATE_VERSION
        if error is not ErrorCode.NONE:
            self._outbox.reply(input_.token, inputs.AppendOutcome(error))
            return
        assert isinstance(leader, Leader) and input_.batches, "there is something to append"
        base_offset = self._log.end_offset
        batches = [RecordBatch.parse(batch) for batch in input_.batches]
        self._roles.append(batches, epoch, as_leader=True)
        leader.appends.append(PendingAppend(base_offset, self._log.end_offset, input_.token))

    def answer_committed(self, leader: Leader) -> None:
        """Answer the appends that are committed."""
        appends, high_watermark = leader.appends, self._log.high_watermark
        while appends and appends[0].end_offset <= high_watermark:
            append = appends.popleft()
            self._outbox.reply(
                append.token, inputs.AppendOutcome(ErrorCode.NONE, append.base_offset)
            )

    # -- committing ----------------------------------------------------------------------------

    def note_fetch(self, leader: Leader, key: ReplicaKey, offset: int) -> None:
        """A replica holds everything below `offset`, durably: more may be committed by that."""
        progress = self._progress_of(leader, key)
        if progress is not None:
            progress.fetched(key, offset, self._log.end_offset, self._timers.now_ms)
        self.maybe_commit(leader)

    def _progress_of(self, leader: Leader, key: ReplicaKey) -> Progress | None:
        """Where to keep what is known of this replica; None for something that is no replica."""
        if key.id < 0:
            return None
        tracker = leader.tracker
        progress = tracker.voter(self._log.voter_set, key, self._rules.is_replica)
        if progress is None:
            return tracker.observer(key, MAX_OBSERVERS, self.oldest_session_ms)
        tracker.unacknowledged.discard(key.id)  # it knows its leader, or it would not fetch
        return progress

    def note_snapshot_fetch(self, leader: Leader, key: ReplicaKey) -> None:
        """A voter that loads a snapshot is alive, though it does not fetch meanwhile."""
        progress = leader.tracker.voter(self._log.voter_set, key, self._rules.is_replica)
        if progress is not None:
            leader.tracker.unacknowledged.discard(key.id)
            progress.last_snapshot_ms = self._timers.now_ms

    @property
    def oldest_session_ms(self) -> int:
        """Observers that have not fetched since are gone."""
        return self._timers.now_ms - self._config.observer_session_ms

    def maybe_commit(self, leader: Leader) -> None:
        """Move the high watermark to what a majority holds, if the epoch has come that far."""
        log, rules = self._log, self._rules
        mine = rules.own_share(self._node.is_voter, log.durable_end_offset, log.end_offset)
        offset = leader.tracker.held_by_majority(log.voter_set.majority, mine)
        if rules.may_commit(offset, leader.epoch_start_offset):
            log.advance_high_watermark(min(offset, log.end_offset))

    # -- keeping the majority ------------------------------------------------------------------

    def step_check_quorum(self) -> None:
        """Resign if a majority has been silent for too long; otherwise look again in time."""
        leader = self._node.role_state
        if not isinstance(leader, Leader) or not self._rules.needs_others(self._node.others):
            return
        # If this node is one of the majority, one less of the others must have been heard.
        majority = self._log.voter_set.majority
        needed = majority - 1 if self._node.is_voter else majority
        now_ms = self._timers.now_ms
        heard_ms = leader.tracker.majority_heard_ms(needed, leader.since_ms, now_ms)
        timeout_ms = self._config.check_quorum_timeout_ms
        deadline = self._rules.majority_deadline_ms(heard_ms, timeout_ms, now_ms)
        if deadline <= now_ms:
            self._roles.become_resigned()
        else:
            self._timers.set(inputs.CHECK_QUORUM, deadline)

    def step_begin_quorum(self) -> None:
        """Remind the voters that do not fetch that there is a leader."""
        leader = self._node.role_state
        if not isinstance(leader, Leader):
            return
        now_ms, interval_ms = self._timers.now_ms, self._config.begin_quorum_interval_ms
        leader.tracker.remind_silent(now_ms - interval_ms)
        self._timers.set(inputs.BEGIN_QUORUM, now_ms + interval_ms)
