"""Voters come, change and go while the quorum works (KIP-853, KIP-1186).

The voter set is a record in the log and counts from its append. A leader writes a new one under
four conditions, which together keep the majorities of any two sets in force from missing each
other: one voter more or less at a time; the set before is committed; a record of the leader's own
epoch is committed, so that no set of an earlier leader can come back; and the new set itself
decides when it is committed. Checks, in Kafka's order (A AddRaftVoter, R RemoveRaftVoter,
U UpdateRaftVoter):

| error                        | because                                                | of  |
|------------------------------|--------------------------------------------------------|-----|
| INCONSISTENT_CLUSTER_ID      | meant for another cluster                              | ARU |
| BROKER_NOT_AVAILABLE         | this node has failed                                   | ARU |
| FENCED_LEADER_EPOCH          | the voter is in an older epoch                         | U   |
| UNKNOWN_LEADER_EPOCH         | the voter is in a newer epoch                          | U   |
| NOT_LEADER_OR_FOLLOWER       | this node does not lead                                | ARU |
| INVALID_REQUEST              | no node id, no directory id; U: no range of versions   | ARU |
| INVALID_REQUEST              | no endpoint on the listener of the voters              | A U |
| INVALID_REQUEST              | too many endpoints, or none that a host can have       | A U |
| REQUEST_TIMED_OUT            | another voter is being added or removed                | ARU |
| REQUEST_TIMED_OUT            | nothing of this leader's epoch is committed            | ARU |
| UNSUPPORTED_VERSION          | kraft.version is 0                                     | AR  |
| REQUEST_TIMED_OUT            | the latest voter set is not committed                  | ARU |
| DUPLICATE_VOTER              | the id is a voter's                                    | A   |
| INVALID_REQUEST              | there are `VOTERS_MAX` voters                          | A   |
| VOTER_NOT_FOUND              | there is no voter of that key; R: or no other          |  RU |
| INVALID_REQUEST              | the voter cannot run the level in force                | A U |
| REQUEST_TIMED_OUT            | the new voter does not answer, or has not caught up    | A   |
| REQUEST_TIMED_OUT            | it was not committed in time; it may be yet            | AR  |

REQUEST_TIMED_OUT stands for "try again", and some of it is said at once.

A leader that removes itself goes on without counting itself, until the new set is committed, and
resigns. With static voters (kraft.version 0) an update is only remembered by the leader: it is what
`UpgradeKRaftVersion` makes the first set of dynamic voters of.

Followers have something to ask, too, once per fetch timeout: a voter whose entry in the set is
not what it should be updates it, and a controller that joins on its own has the voter with its id
and another disk removed, and then itself added.
"""

from __future__ import annotations

from typing import Any

from fencepost.batch.control import build_control_batch
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, membership
from fencepost.machines.quorum.membership import DYNAMIC
from fencepost.machines.quorum.roles import Follower, Leader, PendingAppend, Role, VoterChange
from fencepost.machines.quorum.transitions import Transitions
from fencepost.machines.quorum.voters import (
    VOTERS_MAX,
    Endpoint,
    ReplicaKey,
    Voter,
    VoterSet,
    on_listener,
)
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType
from fencepost.wire.types import Uuid

CHANGE_WAIT_MAX_MS = 60_000
"""The longest that whoever adds a voter may wait for it: no other change is possible meanwhile."""


class Reconfiguration(Transitions):
    """Handlers of what changes the voters."""

    # -- adding --------------------------------------------------------------------------------

    def _step_add_voter(self, input_: inputs.AddVoterReceived) -> None:
        request = input_.request
        voter = membership.added_voter(request)
        error = self._check_change(request.cluster_id)
        if error is ErrorCode.NONE and not self._is_described(voter):
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error = self._check_moment()
        if error is ErrorCode.NONE and voter is not None and self.voter_set.get(voter.id):
            error = ErrorCode.DUPLICATE_VOTER
        if error is ErrorCode.NONE and len(self._voters) >= VOTERS_MAX:
            error = ErrorCode.INVALID_REQUEST
        leader = self._body
        if error is not ErrorCode.NONE or voter is None or not isinstance(leader, Leader):
            self._reply(input_.token, AddRaftVoterResponse(error_code=error))
            return
        wait_ms = self._config.request_timeout_ms
        if request.timeout_ms > 0:
            wait_ms = min(request.timeout_ms, CHANGE_WAIT_MAX_MS)
        leader.change = VoterChange(
            input_.token, self._now_ms + wait_ms, voter, request.ack_when_committed
        )
        self._set_timer(inputs.VOTER_CHANGE, leader.change.deadline_ms)

    def _step_versions_answer(self, input_: inputs.ApiVersionsAnswered) -> None:
        """The new voter has said what it can run: it is added, or it is not."""
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=False)
        leader = self._body
        if not is_awaited or not isinstance(leader, Leader):
            return
        change = leader.change
        if change is None or change.added is None or change.record_offset >= 0:
            return
        low, high = membership.versions_in(input_.response)
        voter = Voter(change.added.key, change.added.endpoints, low, high)
        if input_.response.error_code:
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer")
        elif not voter.can_run(self.kraft_version):
            self._end_change(
                leader,
                ErrorCode.INVALID_REQUEST,
                f"the new voter can run kraft.version {low} to {high}, "
                f"and {self.kraft_version} is in force",
            )
        elif not self._has_caught_up(leader, voter.key):
            probe("quorum.add.refused.behind")
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter is behind")
        else:
            change.record_offset = self._append_voters(self.voter_set.with_voter(voter))
            if not change.answers_when_committed:
                self._answer_change(change, ErrorCode.NONE)

    def _has_caught_up(self, leader: Leader, key: ReplicaKey) -> bool:
        """Whether a replica has lately had all that the leader had.

        Otherwise adding it could bring the high watermark to a halt: the majority may need it.
        """
        progress = leader.observers.get(key)
        oldest = self._now_ms - self._config.observer_session_ms
        return progress is not None and progress.last_caught_up_ms >= oldest

    # -- removing ------------------------------------------------------------------------------

    def _step_remove_voter(self, input_: inputs.RemoveVoterReceived) -> None:
        request = input_.request
        key = membership.removed_key(request)
        error = self._check_change(request.cluster_id)
        if error is ErrorCode.NONE and key is None:
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error = self._check_moment()
        if error is ErrorCode.NONE and (
            key not in self.voter_set.keys or len(self.voter_set.voters) == 1
        ):
            error = ErrorCode.VOTER_NOT_FOUND
        leader = self._body
        if error is not ErrorCode.NONE or key is None or not isinstance(leader, Leader):
            self._reply(input_.token, RemoveRaftVoterResponse(error_code=error))
            return
        deadline = self._now_ms + self._config.request_timeout_ms
        leader.change = VoterChange(input_.token, deadline)
        leader.change.record_offset = self._append_voters(self.voter_set.without(key))
        self._set_timer(inputs.VOTER_CHANGE, deadline)

    # -- updating ------------------------------------------------------------------------------

    def _step_update_voter(self, input_: inputs.UpdateVoterReceived) -> None:
        request = input_.request
        voter = membership.updated_voter(request)
        error = self._check_change(request.cluster_id, request.current_leader_epoch)
        if error is ErrorCode.NONE and not self._is_described(voter):
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error = self._check_moment(is_update=True)
        if error is ErrorCode.NONE and voter is not None:
            error = self._update_voter(voter)
        response = membership.update_response(
            error, self.leader_id, self._state.epoch, self._leader_endpoint
        )
        self._reply(input_.token, response)

    def _update_voter(self, voter: Voter) -> ErrorCode:
        """Take note of what a voter says of itself; nobody waits for the commit."""
        leader, old = self._body, self.voter_set.get(voter.id)
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        if not voter.can_run(self.kraft_version):
            return ErrorCode.INVALID_REQUEST
        if old is None or not self._rules.is_replica(old, voter.key):
            return ErrorCode.VOTER_NOT_FOUND
        if self.kraft_version < DYNAMIC:
            leader.described[voter.id] = voter
        else:
            self._append_voters(self.voter_set.updated(voter))
        return ErrorCode.NONE

    # -- what every change must pass -----------------------------------------------------------

    def _check_change(self, cluster_id: str | None, epoch: int | None = None) -> ErrorCode:
        """The error for a request that is not for this node to handle, or NONE."""
        if not self._is_our_cluster(cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch is not None and epoch < self._state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch is not None and epoch > self._state.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _is_described(self, voter: Voter | None) -> bool:
        """Whether it can be reached as voters are, and its entry will not swell every log."""
        if voter is None or on_listener(self._config.listener, voter.endpoints) is None:
            return False
        try:
            voter.check_endpoints()
        except ValueError:
            probe("quorum.voters.endpoints.refused")
            return False
        return True

    def _check_moment(self, is_update: bool = False) -> ErrorCode:
        """The error for a change that cannot be made now, or not in this cluster."""
        if self._another_change_waits() or not self._rules.has_committed_in_epoch(
            self.is_active_leader
        ):
            probe("quorum.voters.change.refused")
            return ErrorCode.REQUEST_TIMED_OUT
        if self.kraft_version < DYNAMIC and not is_update:
            return ErrorCode.UNSUPPORTED_VERSION
        if not self._voters_are_committed():
            probe("quorum.voters.uncommitted.refused")
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE

    def _another_change_waits(self) -> bool:
        """Whether a voter is being added or removed."""
        leader = self._body
        is_pending = isinstance(leader, Leader) and leader.change is not None
        return self._rules.another_change_waits(is_pending)

    def _voters_are_committed(self) -> bool:
        """Whether the voter set in force is committed, and may have a successor."""
        return self._rules.voters_are_committed(self._history.latest_offset, self._high_watermark)

    def _append_voters(self, voters: VoterSet) -> int:
        """Write a voter set, which counts from now on; where it stands."""
        return self._append_control([(ControlType.KRAFT_VOTERS, voters.to_record())])

    def _append_control(self, records: list[tuple[ControlType, Message]]) -> int:
        """Append a batch of control records; the offset of the last."""
        batch = build_control_batch(
            records,
            timestamp_ms=self._wall_ms,
            base_offset=self._end_offset,
            leader_epoch=self._state.epoch,
        )
        self._append([RecordBatch.parse(batch)], self._state.epoch, as_leader=True)
        return self._end_offset - 1

    # -- how a change ends ---------------------------------------------------------------------

    def _settle_change(self, leader: Leader) -> None:
        """Answer a change that is committed; a leader that is no voter any more resigns."""
        change = leader.change
        if change is not None and 0 <= change.record_offset < self._high_watermark:
            self._end_change(leader, ErrorCode.NONE)
        if self._rules.must_step_down(self.is_voter, self._voters_are_committed()):
            probe("quorum.leader.removed")
            self.become_resigned()

    def _end_change(self, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
        change = leader.change
        assert change is not None
        leader.change = None
        self._set_timer(inputs.VOTER_CHANGE, None)
        if change.added is not None and change.record_offset < 0:
            # What it was asked is of no interest any more: the next may be another, elsewhere.
            self._forget_peer(change.added.id)
        self._answer_change(change, error, message)

    def _step_change_timeout(self) -> None:
        """Whoever waits for a change has waited long enough; what is written stays."""
        if isinstance(self._body, Leader) and self._body.change is not None:
            self._end_change(self._body, ErrorCode.REQUEST_TIMED_OUT, "there was no commit in time")

    def _versions_unanswered(self, source: int) -> None:
        """The new voter cannot be reached."""
        leader = self._body
        if not isinstance(leader, Leader) or leader.change is None:
            return
        added = leader.change.added
        if added is not None and added.id == source and leader.change.record_offset < 0:
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer")

    # -- kraft.version -------------------------------------------------------------------------

    def _step_upgrade(self, input_: inputs.UpgradeKRaftVersion) -> None:
        leader = self._body
        error = ErrorCode.NONE
        if not isinstance(leader, Leader) or input_.epoch != self._state.epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif input_.level != self.kraft_version:
            error = self._check_upgrade(leader, input_.level)
        if error is not ErrorCode.NONE or input_.level == self.kraft_version or input_.is_dry_run:
            self._reply(input_.token, inputs.AppendOutcome(error))
            return
        assert isinstance(leader, Leader)
        records = membership.voter_records(input_.level, self._voters_for(leader))
        base_offset = self._end_offset
        self._append_control(records)
        leader.pending.append(PendingAppend(base_offset, self._end_offset, input_.token))

    def _check_upgrade(self, leader: Leader, level: int) -> ErrorCode:
        if level < self.kraft_version:
            return ErrorCode.INVALID_UPDATE_VERSION
        if self._another_change_waits() or not (
            self._rules.has_committed_in_epoch(self.is_active_leader)
            and self._voters_are_committed()
        ):
            return ErrorCode.REQUEST_TIMED_OUT
        for voter in self._voters_for(leader).voters:
            if not voter.can_run(level) or voter.key.directory_id == Uuid.ZERO:
                return ErrorCode.INVALID_UPDATE_VERSION
        return ErrorCode.NONE

    def _voters_for(self, leader: Leader) -> VoterSet:
        """The voters, with what they have told this leader of themselves."""
        if self.kraft_version >= DYNAMIC:
            return self.voter_set
        voters = self.voter_set
        for voter in (*leader.described.values(), self.local_voter):
            if voters.contains(voter.key):
                voters = voters.updated(voter)
        return voters

    # -- what a follower says of itself --------------------------------------------------------

    def _arm_introduction(self) -> None:
        """A follower that has something to ask does so once per fetch timeout."""
        follower = self._body
        if not isinstance(follower, Follower) or self._wanted_introduction() is None:
            self._set_timer(inputs.INTRODUCTION, None)
        elif not follower.is_introduction_due and inputs.INTRODUCTION not in self._deadlines:
            self._set_timer(inputs.INTRODUCTION, self._now_ms + self._config.fetch_timeout_ms)

    def _step_introduction_due(self) -> None:
        if isinstance(self._body, Follower):
            self._body.is_introduction_due = True

    def _due_introduction(self) -> Message | None:
        """What to send to the leader in place of the next fetch, if it is time."""
        follower = self._body
        if not isinstance(follower, Follower) or not follower.is_introduction_due:
            return None
        follower.is_introduction_due = False
        return self._introduction()

    def _introduction(self) -> Message | None:
        """What this follower would ask of its leader to be a voter, and a well-known one."""
        wanted = self._wanted_introduction()
        if wanted is UpdateRaftVoterRequest:
            return membership.update_request(self._config, self._state.epoch, self.local_voter)
        if wanted is RemoveRaftVoterRequest:
            stale = self.voter_set.get(self._node_id)
            assert stale is not None, "it is what is to be removed"
            probe("quorum.join.removes.stale")
            return membership.remove_request(self._config, stale.key)
        if wanted is AddRaftVoterRequest:
            return membership.add_request(self._config, self.local_voter)
        return None

    def _wanted_introduction(self) -> type[Message] | None:
        config, follower = self._config, self._body
        if not config.endpoints or config.directory_id == Uuid.ZERO:
            return None
        assert isinstance(follower, Follower)
        is_dynamic = self.kraft_version >= DYNAMIC
        if self.is_voter:
            # A leader of static voters forgets it with its epoch, so each one is told.
            wants = (
                self._needs_update(self.local_voter) if is_dynamic else not follower.is_introduced
            )
            return UpdateRaftVoterRequest if wants else None
        if not (is_dynamic and config.auto_join and config.can_become_voter):
            return None
        is_stale = self.voter_set.get(self._node_id) is not None
        return RemoveRaftVoterRequest if is_stale else AddRaftVoterRequest

    def _step_introduction_answer(self, input_: Any) -> None:
        """An answer to Add- or RemoveRaftVoter: what it led to will be seen in the log."""
        flawed = input_.response.error_code != ErrorCode.NONE
        self._settle_request(input_.source, input_.request, retry_later=flawed)

    def _step_update_answer(self, input_: inputs.UpdateVoterAnswered) -> None:
        response = input_.response
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=False)
        current = response.current_leader
        where = (Endpoint(self._config.listener, current.host, current.port),)
        endpoints = where if current.host else ()
        if self._observe(current.leader_epoch, current.leader_id, endpoints, source=input_.source):
            return
        # Leaders before 4.1 take no updates where the voters are static.
        understood = response.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(self._body, Follower) and is_awaited and understood:
            self._body.is_introduced = True
