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

What followers ask for by themselves: see `voter_requests.py`.
"""

from __future__ import annotations

from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, membership
from fencepost.machines.quorum.membership import DYNAMIC
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.pending_change import PendingChange
from fencepost.machines.quorum.replication import Replication
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Leader, PendingAppend, Role
from fencepost.machines.quorum.voters import VOTERS_MAX, Voter, VoterSet, on_listener
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.control import ControlType
from fencepost.wire.types import Uuid

CHANGE_WAIT_MAX_MS = 60_000
"""The longest that an AddRaftVoter may wait: no other change is possible meanwhile."""


class Reconfiguration(Part):
    """Handlers of what changes the voters; the change under way is in `pending_change.py`."""

    def __init__(self, node: QuorumNode, roles: RoleChanges, replication: Replication) -> None:
        super().__init__(node)
        self._roles = roles
        self._replication = replication

    # -- adding --------------------------------------------------------------------------------

    def step_add_voter(self, input_: inputs.AddVoterReceived) -> None:
        request = input_.request
        voter = membership.added_voter(request)
        error, full = self._check_change(request.cluster_id), None
        if error is ErrorCode.NONE and not self._is_described(voter):
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error = self._check_moment()
        if error is ErrorCode.NONE and voter is not None and self._log.voter_set.get(voter.id):
            error = ErrorCode.DUPLICATE_VOTER
        if error is ErrorCode.NONE and len(self._log.voter_set.ids) >= VOTERS_MAX:
            error, full = ErrorCode.INVALID_REQUEST, f"There are {VOTERS_MAX} voters already."
        leader = self._node.role_state
        if error is not ErrorCode.NONE or voter is None or not isinstance(leader, Leader):
            message = full or self._refusal_message(request, error)
            answer = AddRaftVoterResponse(error_code=error, error_message=message)
            self._outbox.reply(input_.token, answer)
            return
        wait_ms = self._config.request_timeout_ms
        if request.timeout_ms > 0:
            wait_ms = min(request.timeout_ms, CHANGE_WAIT_MAX_MS)
        deadline_ms = self._timers.now_ms + wait_ms
        leader.changes.begin(
            PendingChange(input_.token, deadline_ms, voter, request.ack_when_committed)
        )
        self._timers.set(inputs.VOTER_CHANGE, deadline_ms)

    def step_versions_answer(self, input_: inputs.ApiVersionsAnswered) -> None:
        """The new voter has said what it can run: it is added, or it is not."""
        is_awaited = self._requests.settle(input_.source, input_.request, retry_later=False)
        leader = self._node.role_state
        if not is_awaited or not isinstance(leader, Leader):
            return
        change = leader.changes.pending
        asked = None if change is None else change.asks_voter
        if change is None or asked is None:
            return
        low, high = membership.versions_in(input_.response)
        voter = Voter(asked.key, asked.endpoints, low, high)
        if input_.response.error_code:
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer")
        elif not voter.can_run(self._log.kraft_version):
            self._end_change(
                leader,
                ErrorCode.INVALID_REQUEST,
                f"the new voter can run kraft.version {low} to {high}, "
                f"and {self._log.kraft_version} is in force",
            )
        elif not leader.tracker.has_caught_up(voter.key, self._replication.oldest_session_ms):
            # It could bring the high watermark to a halt: the majority may need it.
            probe("quorum.add.refused.behind")
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter is behind")
        else:
            change.record_offset = self._append_voters(self._log.voter_set.with_voter(voter))
            if not change.answers_when_committed:
                self._roles.answer_change(change, ErrorCode.NONE)

    # -- removing ------------------------------------------------------------------------------

    def step_remove_voter(self, input_: inputs.RemoveVoterReceived) -> None:
        request = input_.request
        key = membership.removed_key(request)
        error = self._check_change(request.cluster_id)
        if error is ErrorCode.NONE and key is None:
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            error = self._check_moment()
        if error is ErrorCode.NONE and (
            key not in self._log.voter_set.keys or len(self._log.voter_set.voters) == 1
        ):
            error = ErrorCode.VOTER_NOT_FOUND
        leader = self._node.role_state
        if error is not ErrorCode.NONE or key is None or not isinstance(leader, Leader):
            message = self._refusal_message(request, error)
            answer = RemoveRaftVoterResponse(error_code=error, error_message=message)
            self._outbox.reply(input_.token, answer)
            return
        deadline_ms = self._timers.now_ms + self._config.request_timeout_ms
        change = leader.changes.begin(PendingChange(input_.token, deadline_ms))
        change.record_offset = self._append_voters(self._log.voter_set.without(key))
        self._timers.set(inputs.VOTER_CHANGE, deadline_ms)

    # -- updating ------------------------------------------------------------------------------

    def step_update_voter(self, input_: inputs.UpdateVoterReceived) -> None:
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
            error, self._node.leader_id, self._outbox.state.epoch, self._node.leader_endpoint
        )
        self._outbox.reply(input_.token, response)

    def _update_voter(self, voter: Voter) -> ErrorCode:
        """Take note of what a voter says of itself; its answer does not wait for the commit."""
        leader, old = self._node.role_state, self._log.voter_set.get(voter.id)
        assert isinstance(leader, Leader), "only a leader gets past the checks"
        if not voter.can_run(self._log.kraft_version):
            return ErrorCode.INVALID_REQUEST
        if old is None or not self._rules.is_replica(old, voter.key):
            return ErrorCode.VOTER_NOT_FOUND
        if self._log.kraft_version < DYNAMIC:
            leader.changes.described[voter.id] = voter
        else:
            self._append_voters(self._log.voter_set.updated(voter))
        return ErrorCode.NONE

    # -- what every change must pass -----------------------------------------------------------

    def _check_change(self, cluster_id: str | None, epoch: int | None = None) -> ErrorCode:
        """The error for a request that is not for this node to handle, or NONE."""
        if not self._node.is_our_cluster(cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._node.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch is not None and epoch < self._outbox.state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch is not None and epoch > self._outbox.state.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self._node.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _refusal_message(
        self, request: AddRaftVoterRequest | RemoveRaftVoterRequest, error: ErrorCode
    ) -> str | None:
        return membership.refusal_message(
            request, error, self._config.cluster_id, self._log.kraft_version
        )

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
        if not self._may_change_voters():
            probe("quorum.voters.change.refused")
            return ErrorCode.REQUEST_TIMED_OUT
        if self._log.kraft_version < DYNAMIC and not is_update:
            return ErrorCode.UNSUPPORTED_VERSION
        if not self._node.voters_are_committed():
            probe("quorum.voters.uncommitted.refused")
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE

    def _may_change_voters(self) -> bool:
        """Whether neither this leader's epoch nor a change before is in the way."""
        leader = self._node.role_state
        is_pending = isinstance(leader, Leader) and leader.changes.pending is not None
        return self._rules.may_change_voters(self._node.is_active_leader, is_pending)

    def _append_voters(self, voters: VoterSet) -> int:
        """Write a voter set, which counts from now on; where it stands."""
        return self._roles.append_control([(ControlType.KRAFT_VOTERS, voters.to_record())])

    # -- how a change ends ---------------------------------------------------------------------

    def settle(self, leader: Leader) -> None:
        """Answer a change that is committed; a leader that is no voter any more resigns."""
        change = leader.changes.pending
        if change is not None and change.is_committed(self._log.high_watermark):
            self._end_change(leader, ErrorCode.NONE)
        if self._rules.must_step_down(self._node.is_voter, self._node.voters_are_committed()):
            probe("quorum.leader.removed")
            self._roles.become_resigned()

    def _end_change(self, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
        change = leader.changes.end()
        self._timers.set(inputs.VOTER_CHANGE, None)
        if change.asks_voter is not None:
            # What it was asked is of no interest any more: the next may be another, elsewhere.
            self._requests.forget(change.asks_voter.id)
        self._roles.answer_change(change, error, message)

    def step_change_timeout(self) -> None:
        """The client of a change has waited long enough; what is written stays."""
        leader = self._node.role_state
        if isinstance(leader, Leader) and leader.changes.pending is not None:
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "there was no commit in time")

    def versions_unanswered(self, source: int) -> None:
        """The new voter cannot be reached."""
        leader = self._node.role_state
        if isinstance(leader, Leader) and leader.changes.asks == source:
            self._end_change(leader, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer")

    # -- kraft.version -------------------------------------------------------------------------

    def step_upgrade(self, input_: inputs.UpgradeKRaftVersion) -> None:
        leader = self._node.role_state
        error = ErrorCode.NONE
        if not isinstance(leader, Leader) or input_.epoch != self._outbox.state.epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif input_.level != self._log.kraft_version:
            error = self._check_upgrade(leader, input_.level)
        if (
            error is not ErrorCode.NONE
            or input_.level == self._log.kraft_version
            or input_.is_dry_run
        ):
            self._outbox.reply(input_.token, inputs.AppendOutcome(error))
            return
        assert isinstance(leader, Leader)
        records = membership.voter_records(input_.level, self._described_voters(leader))
        base_offset = self._log.end_offset
        self._roles.append_control(records)
        leader.appends.append(PendingAppend(base_offset, self._log.end_offset, input_.token))

    def _check_upgrade(self, leader: Leader, level: int) -> ErrorCode:
        if level < self._log.kraft_version:
            return ErrorCode.INVALID_UPDATE_VERSION
        if not (self._may_change_voters() and self._node.voters_are_committed()):
            return ErrorCode.REQUEST_TIMED_OUT
        for voter in self._described_voters(leader).voters:
            if not voter.can_run(level) or voter.key.directory_id == Uuid.ZERO:
                return ErrorCode.INVALID_UPDATE_VERSION
        return ErrorCode.NONE

    def _described_voters(self, leader: Leader) -> VoterSet:
        """The voters, with what they have told this leader of themselves."""
        voters = self._log.voter_set
        if self._log.kraft_version >= DYNAMIC:
            return voters
        return leader.changes.described_in(voters, (self._node.local_voter,))
