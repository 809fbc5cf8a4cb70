"""Leading: append, commit, and notice when the majority is gone. Fetches are `serving.py`.

The high watermark is the largest offset up to which a majority of voters hold the log on disk: the
leader by `Persisted`, unless it is being removed from the voters, followers by the offsets they
fetch from. The voters are those of the latest set in the log, committed or not (KIP-853). It moves
only past a record of the leader's own epoch (KIP-595; Raft's figure 8). Records of earlier epochs
are committed with it: a majority may hold them and a leader of a later epoch still cut them off, as
long as none of ours stands on top of them.

A leader that has not been fetched from by a majority for 1.5 fetch timeouts resigns: it may be cut
off, and others may have a leader already. A lone voter is a majority and never resigns.
"""

from __future__ import annotations

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.config import MAX_PENDING_APPENDS
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.roles import (
    Leader,
    PendingAppend,
    Progress,
    Resigned,
    Role,
)
from fencepost.machines.quorum.serving import Serving
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api import describe_quorum as describe
from fencepost.wire.errors import ErrorCode


class Leading(Serving):
    """Handlers of what is asked of a leader."""

    # -- appends -------------------------------------------------------------------------------

    def _step_append(self, input_: inputs.AppendRecords) -> None:
        leader = self._body
        error = ErrorCode.NONE
        if not isinstance(leader, Leader) or input_.epoch != self._state.epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.role is Role.FAILED:
                error = ErrorCode.KAFKA_STORAGE_ERROR
        elif len(leader.pending) >= MAX_PENDING_APPENDS:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif input_.base_offset >= 0 and input_.base_offset != self._end_offset:
            error = ErrorCode.INVALID_UPDATE_VERSION
        if error is not ErrorCode.NONE:
            self._reply(input_.token, inputs.AppendOutcome(error))
            return
        assert isinstance(leader, Leader) and input_.batches, "there is something to append"
        base_offset = self._end_offset
        batches = [RecordBatch.parse(batch) for batch in input_.batches]
        self._append(batches, self._state.epoch, as_leader=True)
        leader.pending.append(PendingAppend(base_offset, self._end_offset, input_.token))

    # -- committing ----------------------------------------------------------------------------

    def _maybe_commit(self, leader: Leader) -> None:
        """Move the high watermark to what a majority holds, if the epoch has come that far."""
        held = [progress.end_offset for progress in leader.followers.values()]
        if self._rules.counts_itself(self.is_voter):
            mine = self._durable_end_offset, self._end_offset
            held.append(self._rules.counts_as_durable(*mine))
        held.sort(reverse=True)
        offset = held[self._majority - 1]
        if self._rules.may_commit(offset, leader.epoch_start_offset):
            self._advance_high_watermark(min(offset, self._end_offset))

    def _answer_committed(self, leader: Leader) -> None:
        while leader.pending and leader.pending[0].end_offset <= self._high_watermark:
            append = leader.pending.popleft()
            self._reply(append.token, inputs.AppendOutcome(ErrorCode.NONE, append.base_offset))

    # -- keeping the majority ------------------------------------------------------------------

    def _step_check_quorum(self) -> None:
        """Resign if a majority has been silent for too long; otherwise look again in time."""
        leader = self._body
        if not isinstance(leader, Leader) or not self._rules.needs_others(self._others):
            return
        heard = [max(p.heard_ms, leader.since_ms) for p in leader.followers.values()]
        heard.sort(reverse=True)
        # If this node is one of the majority, one less of the others must have been heard.
        needed = self._majority - 1 if self.is_voter else self._majority
        heard_ms = heard[needed - 1] if needed else self._now_ms
        deadline = self._rules.majority_deadline_ms(
            heard_ms, self._config.check_quorum_timeout_ms, self._now_ms
        )
        if deadline <= self._now_ms:
            self.become_resigned()
        else:
            self._set_timer(inputs.CHECK_QUORUM, deadline)

    def _step_begin_quorum(self) -> None:
        """Remind the voters that do not fetch that there is a leader."""
        leader = self._body
        if not isinstance(leader, Leader):
            return
        silent_since = self._now_ms - self._config.begin_quorum_interval_ms
        for voter, progress in leader.followers.items():
            if progress.heard_ms <= silent_since:
                leader.unacknowledged.add(voter)
        self._set_timer(inputs.BEGIN_QUORUM, self._now_ms + self._config.begin_quorum_interval_ms)

    def _step_begin_answer(self, input_: inputs.BeginQuorumEpochAnswered) -> None:
        said = messages.begin_response_of(input_.response)
        flawed = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._is_invalid_leader_claim(said.leader_epoch, said.leader_id)
        )
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=flawed)
        if said is None:
            return
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._observe(said.leader_epoch, said.leader_id, endpoints, source=input_.source):
            return
        if isinstance(self._body, Leader) and is_awaited and not flawed:
            self._body.unacknowledged.discard(input_.source)

    def _step_end_answer(self, input_: inputs.EndQuorumEpochAnswered) -> None:
        said = messages.end_response_of(input_.response)
        flawed = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._is_invalid_leader_claim(said.leader_epoch, said.leader_id)
        )
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=flawed)
        if said is None:
            return
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._observe(said.leader_epoch, said.leader_id, endpoints, source=input_.source):
            return
        if isinstance(self._body, Resigned) and is_awaited and not flawed:
            self._body.unacknowledged.discard(input_.source)

    def _step_resign(self, input_: inputs.Resign) -> None:
        if self.role is Role.LEADER:
            self.become_resigned()

    # -- describing ----------------------------------------------------------------------------

    def _step_describe(self, input_: inputs.DescribeQuorumReceived) -> None:
        leader = self._body
        nodes: tuple[Voter, ...] = ()
        if messages.describe_request_of(input_.request) is None:
            answer = describe.PartitionDataResponse(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, leader_id=-1, high_watermark=-1
            )
        elif not isinstance(leader, Leader):
            answer = describe.PartitionDataResponse(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                leader_id=self.leader_id,
                leader_epoch=self._state.epoch,
                high_watermark=-1,
            )
        else:
            answer, nodes = self._description(leader), self.voter_set.voters
        self._reply(input_.token, messages.describe_response(answer, nodes))

    def _description(self, leader: Leader) -> describe.PartitionDataResponse:
        """The quorum as its leader sees it; a leader that is being removed observes."""
        self._drop_silent_observers(leader)
        mine = Progress(self.key, self._end_offset, self._now_ms, self._now_ms)
        voters, observers = {**leader.followers}, {**leader.observers}
        if self.is_voter:
            voters[self._node_id] = mine
        else:
            observers[self.key] = mine
        return describe.PartitionDataResponse(
            leader_id=self._node_id,
            leader_epoch=self._state.epoch,
            high_watermark=self._high_watermark if self.is_active_leader else -1,
            current_voters=[self._described(v.key, voters[v.id]) for v in self.voter_set.voters],
            observers=[self._described(key, p) for key, p in sorted(observers.items())],
        )

    def _described(self, key: ReplicaKey, progress: Progress) -> describe.ReplicaState:
        return describe.ReplicaState(
            replica_id=key.id,
            replica_directory_id=key.directory_id,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=self._wall_of(progress.last_fetch_ms),
            last_caught_up_timestamp=self._wall_of(progress.last_caught_up_ms),
        )
