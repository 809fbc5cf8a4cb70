"""What a leader says to the other voters and hears from them, and what it says of the quorum.

BeginQuorumEpoch makes a leader known, EndQuorumEpoch says that it has resigned; both go to every
voter until it has acknowledged them, or has fetched.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.replication import Replication
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Leader, Resigned, Role
from fencepost.machines.quorum.tracker import Progress
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api import describe_quorum as describe
from fencepost.wire.errors import ErrorCode


class Leading(Part):
    """Handlers of what voters answer a leader, and of requests about the quorum."""

    def __init__(
        self,
        node: QuorumNode,
        roles: RoleChanges,
        claims: LeaderClaims,
        replication: Replication,
    ) -> None:
        super().__init__(node)
        self._roles = roles
        self._claims = claims
        self._replication = replication

    def step_begin_answer(self, input_: inputs.BeginQuorumEpochAnswered) -> None:
        """A voter has heard that we lead, or knows better."""
        is_acknowledged = self._is_acknowledged(input_, messages.begin_response_of(input_.response))
        leader = self._node.role_state
        if isinstance(leader, Leader) and is_acknowledged:
            leader.tracker.unacknowledged.discard(input_.source)

    def step_end_answer(self, input_: inputs.EndQuorumEpochAnswered) -> None:
        """A voter has heard that we lead no more, or knows better."""
        is_acknowledged = self._is_acknowledged(input_, messages.end_response_of(input_.response))
        resigned = self._node.role_state
        if isinstance(resigned, Resigned) and is_acknowledged:
            resigned.unacknowledged.discard(input_.source)

    def _is_acknowledged(self, input_: Any, said: Any) -> bool:
        """Whether this is the answer that was waited for, and says nothing else than yes."""
        is_refused = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._claims.is_invalid(said.leader_epoch, said.leader_id)
        )
        is_awaited = self._requests.settle(input_.source, input_.request, retry_later=is_refused)
        if said is None:
            return False
        endpoints = leader_in(input_.response, said.leader_id, self._config.listener)
        if self._claims.observe(said.leader_epoch, said.leader_id, endpoints, source=input_.source):
            return False
        return is_awaited and not is_refused

    def step_resign(self, input_: inputs.Resign) -> None:
        """The node is about to stop."""
        if self._node.role is Role.LEADER:
            self._roles.become_resigned()

    # -- describing ----------------------------------------------------------------------------

    def step_describe(self, input_: inputs.DescribeQuorumReceived) -> None:
        """The quorum as its leader sees it; others say who leads."""
        leader = self._node.role_state
        nodes: tuple[Voter, ...] = ()
        if messages.describe_request_of(input_.request) is None:
            answer = describe.PartitionDataResponse(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="This server does not host this topic-partition.",
                leader_id=-1,
                high_watermark=-1,
            )
        elif not isinstance(leader, Leader):
            answer = describe.PartitionDataResponse(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                leader_id=self._node.leader_id,
                leader_epoch=self._outbox.state.epoch,
                high_watermark=-1,
            )
        else:
            answer, nodes = self._description(leader), self._log.voter_set.voters
        self._outbox.reply(input_.token, messages.describe_response(answer, nodes))

    def _description(self, leader: Leader) -> describe.PartitionDataResponse:
        """A leader that is being removed observes."""
        node, log, tracker = self._node, self._log, leader.tracker
        tracker.drop_silent_observers(self._replication.oldest_session_ms)
        now_ms = self._timers.now_ms
        mine = Progress(node.key, log.end_offset, now_ms, now_ms)
        voters, observers = {**tracker.voters}, {**tracker.observers}
        if node.is_voter:
            voters[node.id] = mine
        else:
            observers[node.key] = mine
        return describe.PartitionDataResponse(
            leader_id=node.id,
            leader_epoch=self._outbox.state.epoch,
            high_watermark=log.high_watermark if node.is_active_leader else -1,
            current_voters=[self._described(v.key, voters[v.id]) for v in log.voter_set.voters],
            observers=[self._described(key, p) for key, p in sorted(observers.items())],
        )

    def _described(self, key: ReplicaKey, progress: Progress) -> describe.ReplicaState:
        return describe.ReplicaState(
            replica_id=key.id,
            replica_directory_id=key.directory_id,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=self._timers.wall_of(progress.last_fetch_ms),
            last_caught_up_timestamp=self._timers.wall_of(progress.last_caught_up_ms),
        )
