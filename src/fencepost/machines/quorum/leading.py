"""Leading: append, serve fetches, commit, and notice when the majority is gone.

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

from fencepost.batch.header import read_header
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.config import (
    MAX_OBSERVERS,
    MAX_PARKED_FETCHES,
    MAX_PENDING_APPENDS,
)
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.roles import (
    Leader,
    ParkedFetch,
    PendingAppend,
    Progress,
    Resigned,
    Role,
)
from fencepost.machines.quorum.transitions import Transitions
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api import describe_quorum as describe, fetch
from fencepost.wire.errors import ErrorCode


class Leading(Transitions):
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
        count = sum(read_header(batch).last_offset_delta + 1 for batch in input_.batches)
        self._append(input_.batches, count, self._state.epoch, as_leader=True)
        leader.pending.append(PendingAppend(base_offset, self._end_offset, input_.token))

    # -- fetches -------------------------------------------------------------------------------

    def _step_fetch(self, input_: inputs.FetchReceived) -> None:
        request = input_.request
        if not self._is_our_cluster(request.cluster_id):
            self._reply(
                input_.token,
                inputs.FetchBounds(
                    ErrorCode.INCONSISTENT_CLUSTER_ID, -1, -1, is_whole_request=True
                ),
            )
            return
        asked = messages.fetch_request_of(request)
        if asked is None:
            self._reply(
                input_.token,
                inputs.FetchBounds(ErrorCode.INVALID_REQUEST, -1, -1, is_whole_request=True),
            )
            return
        replica_id = messages.replica_id_of(request)
        error = self._check_fetch(request, asked, replica_id)
        if error is not ErrorCode.NONE:
            self._reply(input_.token, self._refusal(error))
            return
        leader = self._body
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        diverging = self._divergence(asked)
        if diverging is None:
            key = ReplicaKey(replica_id, asked.replica_directory_id)
            self._note_progress(leader, key, asked.fetch_offset)
            self._maybe_commit(leader)
        bounds = self._bounds(replica_id, asked.fetch_offset, request.max_bytes, diverging)
        if (
            diverging is not None
            or request.max_wait_ms == 0
            or bounds.upper_bound_offset > asked.fetch_offset
            or self._high_watermark > asked.high_watermark
            or len(leader.parked) >= MAX_PARKED_FETCHES
        ):
            self._reply(input_.token, bounds)
            return
        deadline = self._now_ms + request.max_wait_ms
        leader.parked.append(
            ParkedFetch(
                input_.token,
                replica_id,
                asked.fetch_offset,
                request.max_bytes,
                asked.high_watermark,
                deadline,
            )
        )

    def _check_fetch(
        self, request: fetch.FetchRequest, asked: fetch.FetchPartition, replica_id: int
    ) -> ErrorCode:
        """The error for a fetch, in Kafka's order, or NONE."""
        epoch = self._state.epoch
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
            or replica_id == self._node_id
        ):
            return ErrorCode.INVALID_REQUEST
        if self.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if asked.current_leader_epoch < epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.current_leader_epoch > epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if asked.fetch_offset < self._log.start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE  # a snapshot's place, once there are snapshots
        return ErrorCode.NONE

    def _divergence(self, asked: fetch.FetchPartition) -> tuple[int, int] | None:
        """(epoch, end offset) where the reader's log leaves ours, or None if it does not."""
        epochs = self._log.epochs
        epoch, end_offset = epochs.end_offset_for(asked.last_fetched_epoch, self._end_offset)
        if epoch < 0:
            epoch, end_offset = self._log_end
        if epoch != asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return epoch, end_offset
        return None

    def _bounds(
        self, replica_id: int, offset: int, max_bytes: int, diverging: tuple[int, int] | None
    ) -> inputs.FetchBounds:
        """Replicas read up to the end of the log, anybody else up to the high watermark."""
        bound = self._end_offset if replica_id >= 0 else max(offset, self._high_watermark)
        return inputs.FetchBounds(
            error=ErrorCode.NONE,
            leader_id=self._node_id,
            leader_epoch=self._state.epoch,
            offset=offset,
            upper_bound_offset=offset if diverging is not None else bound,
            high_watermark=self._high_watermark,
            log_start_offset=self._log.start_offset,
            max_bytes=min(max_bytes, self._config.fetch_max_bytes),
            diverging=diverging,
            leader_endpoint=self._leader_endpoint,
        )

    def _note_progress(self, leader: Leader, key: ReplicaKey, offset: int) -> None:
        """A replica holds everything below `offset`, also if that is less than it once held."""
        progress = self._progress_of(leader, key)
        if progress is None:
            return
        if key.id in leader.followers and leader.followers[key.id] is progress:
            leader.unacknowledged.discard(key.id)  # it knows its leader, or it would not fetch
        if offset >= self._end_offset:
            progress.last_caught_up_ms = self._now_ms
        elif 0 <= progress.leader_end_offset <= offset:
            # It has now what there was at its fetch before.
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.key = key
        progress.end_offset = offset
        progress.last_fetch_ms = self._now_ms
        progress.leader_end_offset = self._end_offset

    def _progress_of(self, leader: Leader, key: ReplicaKey) -> Progress | None:
        """Where to keep what is known of this replica; None for something that is no replica.

        A voter's id with another directory is an observer: it is not the disk that was counted.
        """
        if key.id < 0:
            return None
        voter = self.voter_set.get(key.id)
        if voter is not None and self._is_replica(voter, key):
            return leader.followers[key.id]
        if key not in leader.observers:
            self._drop_silent_observers(leader)
            if len(leader.observers) >= MAX_OBSERVERS:
                return None
            leader.observers[key] = Progress(key)
        return leader.observers[key]

    def _drop_silent_observers(self, leader: Leader) -> None:
        oldest = self._now_ms - self._config.observer_session_ms
        for key in [key for key, p in leader.observers.items() if p.last_fetch_ms < oldest]:
            del leader.observers[key]

    def _answer_parked(self, leader: Leader) -> None:
        """Answer the parked fetches that have something to hear, or have waited long enough."""
        still: list[ParkedFetch] = []
        for parked in leader.parked:
            bounds = self._bounds(
                parked.replica_id, parked.fetch_offset, parked.max_bytes, diverging=None
            )
            if (
                bounds.upper_bound_offset > parked.fetch_offset
                or self._high_watermark > parked.known_high_watermark
                or self._now_ms >= parked.deadline_ms
            ):
                self._reply(parked.token, bounds)
            else:
                still.append(parked)
        leader.parked = still
        self._set_timer(inputs.FETCH_WAIT, min((p.deadline_ms for p in still), default=None))

    # -- committing ----------------------------------------------------------------------------

    def _maybe_commit(self, leader: Leader) -> None:
        """Move the high watermark to what a majority holds, if the epoch has come that far."""
        held = [progress.end_offset for progress in leader.followers.values()]
        if self._counts_itself():
            held.append(self._durable_end_offset)
        held.sort(reverse=True)
        offset = held[self._majority - 1]
        if self._may_commit(leader, offset):
            self._advance_high_watermark(min(offset, self._end_offset))

    def _counts_itself(self) -> bool:
        """Whether this leader is one of those a majority is made of: not once it is removed."""
        return self.is_voter

    def _may_commit(self, leader: Leader, offset: int) -> bool:
        """Whether a record of this leader's own epoch lies below `offset`."""
        return offset > leader.epoch_start_offset

    def _answer_committed(self, leader: Leader) -> None:
        while leader.pending and leader.pending[0].end_offset <= self._high_watermark:
            append = leader.pending.popleft()
            self._reply(append.token, inputs.AppendOutcome(ErrorCode.NONE, append.base_offset))

    # -- keeping the majority ------------------------------------------------------------------

    def _step_check_quorum(self) -> None:
        """Resign if a majority has been silent for too long; otherwise look again in time."""
        leader = self._body
        if not isinstance(leader, Leader) or not self._others:
            return
        heard = [max(p.last_fetch_ms, leader.since_ms) for p in leader.followers.values()]
        heard.sort(reverse=True)
        # If this node is one of the majority, one less of the others must have been heard.
        needed = self._majority - 1 if self.is_voter else self._majority
        deadline = heard[needed - 1] + self._config.check_quorum_timeout_ms
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
            if progress.last_fetch_ms <= silent_since:
                leader.unacknowledged.add(voter)
        self._set_timer(inputs.BEGIN_QUORUM, self._now_ms + self._config.begin_quorum_interval_ms)

    def _step_begin_answer(self, input_: inputs.BeginQuorumEpochAnswered) -> None:
        said = messages.begin_response_of(input_.response)
        flawed = said is None or said.error_code != ErrorCode.NONE
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=flawed)
        if said is None:
            return
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._observe(said.leader_epoch, said.leader_id, endpoints):
            return
        if isinstance(self._body, Leader) and is_awaited and not flawed:
            self._body.unacknowledged.discard(input_.source)

    def _step_end_answer(self, input_: inputs.EndQuorumEpochAnswered) -> None:
        said = messages.end_response_of(input_.response)
        flawed = said is None or said.error_code != ErrorCode.NONE
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=flawed)
        if said is None:
            return
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._observe(said.leader_epoch, said.leader_id, endpoints):
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
            current_voters=[_described(v.key, voters[v.id]) for v in self.voter_set.voters],
            observers=[_described(key, p) for key, p in sorted(observers.items())],
        )


def _described(key: ReplicaKey, progress: Progress) -> describe.ReplicaState:
    return describe.ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=progress.last_fetch_ms,
        last_caught_up_timestamp=progress.last_caught_up_ms,
    )
