"""The roles and how a node gets from one to another: every `become_`, and who waits for what.

A role is left by entering another; `_leave_role` cleans up after it. Within an epoch, roles change
without touching the vote or the leader on record, so a node can neither vote twice nor forget whom
it followed.
"""

from __future__ import annotations

from fencepost.batch.control import build_leader_change
from fencepost.machines.effects import Fail
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.core import QuorumCore
from fencepost.machines.quorum.roles import (
    Failed,
    Follower,
    Leader,
    Nominee,
    Progress,
    Resigned,
    Role,
    Unattached,
)
from fencepost.machines.quorum.state import NOBODY, QuorumState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

_ELECTION_ROLES = (Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.RESIGNED)


class Transitions(QuorumCore):
    """Every way from role to role."""

    def become_unattached(self, epoch: int) -> None:
        """No leader is known: of a higher epoch that was heard of, or of this one still.

        The election timer goes on if it runs already. Otherwise a node that hears of one epoch
        after another would never get to stand itself.
        """
        keeps_timer = self.role in _ELECTION_ROLES and inputs.ELECTION in self._deadlines
        if epoch > self._state.epoch:
            self._remember(QuorumState(epoch))
        self._leave_role()
        self._body = Unattached()
        self._set_timer(inputs.FETCH, None)
        if not self.is_voter:
            self._set_timer(inputs.ELECTION, None)
        elif not keeps_timer:
            self._set_timer(inputs.ELECTION, self._random_election_deadline())

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """`leader_id` leads `epoch`: fetch from it until the fetch timeout finds it silent."""
        assert leader_id != self._node_id, "nobody follows itself"
        if epoch > self._state.epoch:
            self._remember(QuorumState(epoch, leader_id))
        else:
            vote = self._state
            self._remember(QuorumState(epoch, leader_id, vote.voted_id, vote.voted_directory_id))
        self._leave_role()
        self._body = Follower(leader_id)
        self._set_timer(inputs.ELECTION, None)
        self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms)

    def become_prospective(self) -> None:
        """Ask the voters whether an election would be won, without a new epoch (KIP-996)."""
        assert self.is_voter, "an observer does not stand for election"
        self._leave_role()
        self._body = Nominee(Role.PROSPECTIVE, granted={self._node_id})
        self._set_timer(inputs.FETCH, None)
        self._set_timer(inputs.ELECTION, self._random_election_deadline())
        self._maybe_win()

    def become_candidate(self) -> None:
        """Begin a new epoch and ask for votes in it, the own vote being given."""
        self._leave_role()
        self._remember(
            QuorumState(
                self._state.epoch + 1,
                NOBODY,
                voted_id=self._node_id,
                voted_directory_id=self._config.directory_id,
            )
        )
        self._body = Nominee(Role.CANDIDATE, granted={self._node_id})
        self._set_timer(inputs.ELECTION, self._random_election_deadline())
        self._maybe_win()

    def become_leader(self) -> None:
        """Lead the epoch: write its first record, make it known, keep watch over the majority."""
        nominee = self._body
        assert isinstance(nominee, Nominee) and nominee.role is Role.CANDIDATE
        self._leave_role()
        vote = self._state
        self._remember(
            QuorumState(vote.epoch, self._node_id, vote.voted_id, vote.voted_directory_id)
        )
        self._body = Leader(
            epoch_start_offset=self._end_offset,
            since_ms=self._now_ms,
            followers={voter: Progress() for voter in self._others},
            unacknowledged=set(self._others),
        )
        self._set_timer(inputs.ELECTION, None)
        batch = build_leader_change(
            leader_id=self._node_id,
            voters=self._voters,
            granting_voters=sorted(nominee.granted),
            base_offset=self._end_offset,
            leader_epoch=self._state.epoch,
            timestamp_ms=self._now_ms,
        )
        self._append([batch], count=1, epoch=self._state.epoch, as_leader=True)
        if self._others:
            deadline = self._now_ms + self._config.check_quorum_timeout_ms
            self._set_timer(inputs.CHECK_QUORUM, deadline)
            deadline = self._now_ms + self._config.begin_quorum_interval_ms
            self._set_timer(inputs.BEGIN_QUORUM, deadline)

    def become_resigned(self) -> None:
        """Stop leading, and tell the voters, those with the longest log to stand first."""
        leader = self._body
        assert isinstance(leader, Leader)
        followers = leader.followers
        self._leave_role()
        candidates = sorted(followers, key=lambda id_: (-followers[id_].end_offset, id_))
        self._body = Resigned(tuple(candidates), set(candidates))
        self._set_timer(inputs.ELECTION, self._random_election_deadline())

    def become_failed(self, reason: str) -> None:
        """Stop for good."""
        self._state_unwritten = False  # what was decided on the hope that the disk holds is void
        self._leave_role(ErrorCode.KAFKA_STORAGE_ERROR)
        self._body = Failed(reason)
        for name in sorted(self._deadlines):
            self._set_timer(name, None)
        self._emit(Fail(reason))

    def _leave_role(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Whoever waits for this role is told; its requests and its own timers are forgotten."""
        self._forget_requests()
        leader = self._body
        if not isinstance(leader, Leader):
            return
        # Not before the new state is remembered: the answers name the epoch as it is now.
        self._body = Unattached()
        for append in leader.pending:
            self._reply(append.token, inputs.AppendOutcome(error))
        for fetch in leader.parked:
            self._reply(fetch.token, self._refusal(error))
        for name in (inputs.CHECK_QUORUM, inputs.BEGIN_QUORUM, inputs.FETCH_WAIT):
            self._set_timer(name, None)

    def _refusal(self, error: ErrorCode) -> inputs.FetchBounds:
        return inputs.FetchBounds(error, self.leader_id, self._state.epoch)

    # -- winning and losing --------------------------------------------------------------------

    def _maybe_win(self) -> None:
        """With a majority behind it, a nominee goes one step further."""
        nominee = self._body
        assert isinstance(nominee, Nominee)
        if len(nominee.granted) < self._majority:
            return
        if nominee.role is Role.PROSPECTIVE:
            self.become_candidate()
        else:
            self.become_leader()

    def _is_lost(self, nominee: Nominee) -> bool:
        """Whether so many voters said no that the rest is no majority."""
        return len(self._voters) - len(nominee.rejected) < self._majority

    def _give_up_asking(self) -> None:
        """A prospective did not find a majority: back to the leader it knew, or to waiting."""
        known = self._state.leader_id
        if known not in (NOBODY, self._node_id):
            self.become_follower(self._state.epoch, known)
        else:
            self._set_timer(inputs.ELECTION, None)
            self.become_unattached(self._state.epoch)

    # -- hearing of epochs and leaders ---------------------------------------------------------

    def _observe(self, epoch: int, leader_id: int, from_leader: bool = False) -> bool:
        """Take note that `leader_id` (or NOBODY) leads `epoch`; whether that ends the matter.

        `from_leader` says that it speaks for itself. Hearsay of a leader that a prospective knows
        does not make it follow again: it asks around because that leader is silent.

        When a voter answers that an epoch has two leaders, or that we lead one that we have never
        seen, somebody has lost its quorum-state. Then this node stops, before it adds to the harm.
        """
        if self.role is Role.FAILED:
            return True  # nothing brings it back
        if epoch < self._state.epoch:
            return False
        if epoch > self._state.epoch:
            if leader_id == self._node_id:
                self.become_failed(f"this node is said to lead epoch {epoch}, which it never saw")
            elif leader_id == NOBODY:
                self.become_unattached(epoch)
            else:
                self.become_follower(epoch, leader_id)
            return True
        known = self._state.leader_id
        if leader_id in (NOBODY, self._node_id):
            return False
        if known not in (NOBODY, leader_id):
            self.become_failed(f"epoch {epoch} is led by {known} and by {leader_id}")
            return True
        if self.role is Role.FOLLOWER:
            return False
        if self.role is Role.PROSPECTIVE and known == leader_id and not from_leader:
            return False
        self.become_follower(epoch, leader_id)
        return True

    # -- who is meant --------------------------------------------------------------------------

    def _is_our_cluster(self, cluster_id: str | None) -> bool:
        ours = self._config.cluster_id
        return cluster_id is None or ours is None or cluster_id == ours

    def _is_me(self, voter_id: int, directory_id: Uuid) -> bool:
        """Whether a request that names its receiver means this node and this disk."""
        if voter_id == NOBODY:
            return True
        mine = self._config.directory_id
        return voter_id == self._node_id and directory_id in (Uuid.ZERO, mine)
