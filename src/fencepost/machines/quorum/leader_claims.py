"""What messages say of epochs and leaders, and how much of it is believed.

Every message of the quorum names an epoch and perhaps its leader, and any client can send one.
"""

from __future__ import annotations

from fencepost.machines.probes import probe
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Role
from fencepost.machines.quorum.state import NO_NODE, QuorumState
from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.errors import ErrorCode


class LeaderClaims(Part):
    """Judges who is said to lead; see the module docstring."""

    def __init__(self, node: QuorumNode, roles: RoleChanges) -> None:
        super().__init__(node)
        self._roles = roles

    def epoch_out_of_range(self, epoch: int) -> bool:
        """Whether no election can have come to `epoch`; see `epochs.py`."""
        known, now_ms = self._outbox.state.epoch, self._timers.now_ms
        return self._node.epochs.is_out_of_range(epoch, known, now_ms, self._rules)

    def is_invalid(self, epoch: int, leader_id: int) -> bool:
        """Whether no working node says so; what it says must not get into quorum-state."""
        return leader_id < NO_NODE or self.epoch_out_of_range(epoch)

    def check(self, leader_id: int, epoch: int) -> ErrorCode:
        """The error for a request that a leader sends, or NONE.

        A leader that claims an epoch we know another leader of, or one that no election can have
        come to, is refused and otherwise ignored: it cannot have been elected. That it is no voter
        by our log says nothing, for our log may be behind (KIP-853).
        """
        state = self._outbox.state
        if self._node.role is Role.FAILED:
            return ErrorCode.BROKER_NOT_AVAILABLE
        if epoch < state.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_id < 0 or leader_id == self._node.id or self.epoch_out_of_range(epoch):
            return ErrorCode.INVALID_REQUEST
        if epoch == state.epoch and state.leader_id not in (NO_NODE, leader_id):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def observe(
        self,
        epoch: int,
        leader_id: int,
        endpoints: tuple[Endpoint, ...] = (),
        from_leader: bool = False,
        source: int = NO_NODE,
    ) -> bool:
        """Take note that `leader_id` (or NO_NODE) leads `epoch`; whether that ends the matter.

        `endpoints` are where it is reached, if that was said; `from_leader` says that it comes and
        speaks for itself, `source` who says so in answer to us. That others name the leader which a
        prospective knows does not make it follow again: it asks around because that leader is
        silent.
        """
        role, state = self._node.role, self._outbox.state
        if role is Role.FAILED:
            return True  # nothing brings it back
        if epoch < state.epoch:
            return False
        if self.is_invalid(epoch, leader_id):
            probe("quorum.epoch.out_of_range")
            return True
        self._node.note_leader(leader_id, endpoints)
        if epoch > state.epoch:
            if leader_id == self._node.id:
                self._refuse_claimed_leadership(epoch)
            elif leader_id == NO_NODE:
                self._roles.become_unattached(epoch)
            else:
                self._roles.become_follower(epoch, leader_id)
            return True
        known = state.leader_id
        if leader_id in (NO_NODE, self._node.id):
            return False
        if known not in (NO_NODE, leader_id):
            return self._resolve_conflicting_leader(leader_id, source)
        if role is Role.FOLLOWER:
            return False
        if role is Role.PROSPECTIVE and known == leader_id and not from_leader:
            return False
        self._roles.become_follower(epoch, leader_id)
        return True

    def _resolve_conflicting_leader(self, claimed: int, source: int) -> bool:
        """`source` answers that `claimed` leads our epoch; we know another leader; as `observe`.

        One of the two is none, or a voter has lost its quorum-state and voted twice. The node that
        named the first may have lied, and so may this one: any client can send a voter a message.
        So what counts is what the two say of themselves, where we have asked them:

        | who says it           | we led, or hold records of the epoch | we have nothing of it   |
        |-----------------------|--------------------------------------|-------------------------|
        | the claimed leader    | we stop, before we add to the harm   | the claim is believed   |
        | the leader we knew    | (the same)                           | (the same)              |
        | another               | ignored                              | ignored, by voters      |

        A leader has asked all voters, so that two that were elected hear of each other first hand.
        """
        state = self._outbox.state
        known = state.leader_id
        is_ours = known == self._node.id
        if source != claimed and (is_ours or (source != known and self._node.is_voter)):
            probe("quorum.leader.conflict.ignored")
            return False
        if is_ours or self._log.last_epoch == state.epoch:
            self._roles.become_failed(f"epoch {state.epoch} is led by {known} and by {claimed}")
            return True
        probe("quorum.leader.conflict.believed")
        self._outbox.forget_leader()
        self._roles.become_follower(state.epoch, claimed)
        return True

    def _refuse_claimed_leadership(self, epoch: int) -> None:
        """We are said to lead an epoch that we have never seen.

        Either that is a lie, which any client can tell another node in one message, or we have led
        it and forgotten. Both are met by the same memory: our vote of that epoch is our own, as it
        was if we led, so no other voter gets it; and a voter that starts with a vote and no
        leadership on record does not lead. We add nothing to that epoch, and stand in the next.
        """
        probe("quorum.epoch.leadership_refused")
        self._roles.note_epoch(epoch)
        self._outbox.remember(QuorumState(epoch, NO_NODE, *self._node.key))
        self._roles.become_unattached(epoch)
