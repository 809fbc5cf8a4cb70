"""What a follower asks of its leader, to be a voter and a well-known one (KIP-853, KIP-1186).

Once per fetch timeout, in place of a fetch: a voter whose entry in the set is not what it should be
updates it (UpdateRaftVoter), and a controller that joins on its own has the voter with its id and
another disk removed (RemoveRaftVoter), and then itself added (AddRaftVoter).
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, membership
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.membership import DYNAMIC
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.roles import Follower
from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class VoterRequests(Part):
    """Asks for what the voter set should say of this node; see the module docstring."""

    def __init__(self, node: QuorumNode, claims: LeaderClaims) -> None:
        super().__init__(node)
        self._claims = claims

    def arm(self) -> None:
        """A follower that has something to ask does so once per fetch timeout."""
        follower = self._node.role_state
        if not isinstance(follower, Follower) or self._wanted() is None:
            self._timers.set(inputs.VOTER_REQUEST, None)
        elif not follower.is_request_due and inputs.VOTER_REQUEST not in self._timers.deadlines:
            self._timers.set(
                inputs.VOTER_REQUEST, self._timers.now_ms + self._config.fetch_timeout_ms
            )

    def step_due(self) -> None:
        if isinstance(self._node.role_state, Follower):
            self._node.role_state.is_request_due = True

    def take_due(self) -> Message | None:
        """What to send to the leader in place of the next fetch, if it is time."""
        follower = self._node.role_state
        if not isinstance(follower, Follower) or not follower.is_request_due:
            return None
        follower.is_request_due = False
        wanted = self._wanted()
        if wanted is UpdateRaftVoterRequest:
            return membership.update_request(
                self._config, self._outbox.state.epoch, self._node.local_voter
            )
        if wanted is RemoveRaftVoterRequest:
            stale = self._log.voter_set.get(self._node.id)
            assert stale is not None, "it is what is to be removed"
            probe("quorum.join.removes.stale")
            return membership.remove_request(self._config, stale.key)
        if wanted is AddRaftVoterRequest:
            return membership.add_request(self._config, self._node.local_voter)
        return None

    def _wanted(self) -> type[Message] | None:
        config, follower = self._config, self._node.role_state
        if not config.endpoints or config.directory_id == Uuid.ZERO:
            return None
        assert isinstance(follower, Follower)
        is_dynamic = self._log.kraft_version >= DYNAMIC
        if self._node.is_voter:
            # A leader of static voters forgets it with its epoch, so each one is told.
            wants = (
                self._node.needs_update(self._node.local_voter)
                if is_dynamic
                else not follower.is_described
            )
            return UpdateRaftVoterRequest if wants else None
        if not (is_dynamic and config.auto_join and config.can_become_voter):
            return None
        is_stale = self._log.voter_set.get(self._node.id) is not None
        return RemoveRaftVoterRequest if is_stale else AddRaftVoterRequest

    def step_change_answer(self, input_: Any) -> None:
        """An answer to AddRaftVoter or RemoveRaftVoter: what it led to will be seen in the log."""
        is_refused = input_.response.error_code != ErrorCode.NONE
        self._requests.settle(input_.source, input_.request, retry_later=is_refused)

    def step_update_answer(self, input_: inputs.UpdateVoterAnswered) -> None:
        response = input_.response
        is_awaited = self._requests.settle(input_.source, input_.request, retry_later=False)
        current = response.current_leader
        where = (Endpoint(self._config.listener, current.host, current.port),)
        endpoints = where if current.host else ()
        if self._claims.observe(
            current.leader_epoch, current.leader_id, endpoints, source=input_.source
        ):
            return
        # Leaders before 4.1 take no updates where the voters are static.
        understood = response.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)
        if isinstance(self._node.role_state, Follower) and is_awaited and understood:
            self._node.role_state.is_described = True
