"""The roles and how a node gets from one to another: every `become_`, and who waits for what.

A role is left by entering another; `_leave_role` cleans up after it. Within an epoch, roles change
without touching the vote or the leader on record, so a node can neither vote twice nor forget whom
it followed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fencepost.batch.control import build_leader_change
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.effects import Fail
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.core import QuorumCore
from fencepost.machines.quorum.membership import change_response, voter_records
from fencepost.machines.quorum.roles import (
    NEVER_MS,
    Failed,
    Follower,
    Leader,
    Nominee,
    Progress,
    Resigned,
    Role,
    Unattached,
    VoterChange,
)
from fencepost.machines.quorum.state import (
    EPOCH_MAX,
    EPOCH_STEP_MAX,
    EPOCHS_KEPT_BACK,
    NOBODY,
    QuorumState,
)
from fencepost.machines.quorum.voter_history import BEFORE_THE_LOG
from fencepost.machines.quorum.voters import Endpoint, Voter
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType
from fencepost.wire.types import Uuid

SUCCESSION_STEP_MS = 50
"""Between two voters that stand because their leader is gone: enough for one to be elected."""

_EPOCHS_FREE = EPOCH_MAX - EPOCHS_KEPT_BACK
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
            self._note_epoch(epoch)
            self._remember(QuorumState(epoch))
        self._leave_role()
        self._body = Unattached()
        self._set_timer(inputs.FETCH, None)
        if not self.is_electable:
            self._set_timer(inputs.ELECTION, None)
        elif not keeps_timer:
            self._set_timer(inputs.ELECTION, self._random_election_deadline())

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """`leader_id` leads `epoch`: fetch from it until the fetch timeout finds it silent."""
        assert leader_id != self._node_id, "nobody follows itself"
        if epoch > self._state.epoch:
            self._note_epoch(epoch)
            self._remember(QuorumState(epoch, leader_id))
        else:
            vote = self._state
            self._remember(QuorumState(epoch, leader_id, vote.voted_id, vote.voted_directory_id))
        self._leave_role()
        self._body = Follower(leader_id)
        self._set_timer(inputs.ELECTION, None)
        self._await_leader(leader_id)

    def _await_leader(self, leader_id: int) -> None:
        """The leader has spoken: it has a fetch timeout to speak again.

        Its followers hear of it in the same moment, and would all stand in the same moment, when it
        is silent: each with its own vote, and none elected. So one after the other stands.
        """
        delay_ms = self._succession_delay_ms(leader_id) if self.is_electable else 0
        self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms + delay_ms)

    def _succession_delay_ms(self, leader_id: int) -> int:
        """How long to leave it to others to stand, when this leader is found to be gone."""
        timeout_ms = self._config.fetch_timeout_ms
        step_ms = min(SUCCESSION_STEP_MS, timeout_ms // 20)
        return min(self._place_behind(leader_id) * step_ms, timeout_ms // 2)

    def _place_behind(self, leader_id: int) -> int:
        """This node's place among the other voters, by ids from the leader's on, in a ring."""
        others = [voter for voter in self.voters if voter != leader_id]
        ring = [v for v in others if v > leader_id] + [v for v in others if v < leader_id]
        return ring.index(self._node_id) if self._node_id in ring else len(ring)

    def become_prospective(self) -> None:
        """Ask the voters whether an election would be won, without a new epoch (KIP-996)."""
        assert self.is_electable, "an observer does not stand for election"
        if not self._rules.asks_for_pre_votes() and self._others:
            self._set_timer(inputs.FETCH, None)
            self.become_candidate()
            return
        self._leave_role()
        self._body = Nominee(Role.PROSPECTIVE, granted=self._own_vote())
        self._set_timer(inputs.FETCH, None)
        self._set_timer(inputs.ELECTION, self._random_election_deadline())
        self._maybe_win()

    def become_candidate(self) -> None:
        """Begin a new epoch and ask for votes in it, the own vote being given."""
        if self._state.epoch >= EPOCH_MAX:
            self.become_failed(f"there is no epoch after {EPOCH_MAX}")
            return
        self._leave_role()
        self._remember(
            QuorumState(
                self._state.epoch + 1,
                NOBODY,
                voted_id=self._node_id,
                voted_directory_id=self._config.directory_id,
            )
        )
        self._body = Nominee(Role.CANDIDATE, granted=self._own_vote())
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
            followers={
                voter.id: Progress(voter.key)
                for voter in self.voter_set.voters
                if voter.id != self._node_id
            },
            unacknowledged=set(self._others),
        )
        self._set_timer(inputs.ELECTION, None)
        more = self._epoch_start_records()
        batch = build_leader_change(
            leader_id=self._node_id,
            voters=self._voters,
            granting_voters=sorted(nominee.granted),
            base_offset=self._end_offset,
            leader_epoch=self._state.epoch,
            timestamp_ms=self._wall_ms,
            followed_by=more,
        )
        self._append([RecordBatch.parse(batch)], self._state.epoch, as_leader=True)
        self._watch_over_others()

    def _epoch_start_records(self) -> list[tuple[ControlType, Message]]:
        """What a leader writes behind its LeaderChange: its level and voters, if it has to.

        A set that came with the bootstrap snapshot stands in no log yet, and one that has another
        address for this node than it has now misleads whoever reads it (KIP-853).
        """
        offset, voters, mine = self._history.latest_offset, self.voter_set, self.local_voter
        if self.kraft_version < 1 or offset is None:
            return []
        is_outdated = self._needs_update(mine)
        if offset != BEFORE_THE_LOG and not is_outdated:
            return []
        if is_outdated:
            voters = voters.updated(mine)
        return voter_records(self.kraft_version, voters)

    def _watch_over_others(self) -> None:
        """Arm what a leader needs where there are other voters."""
        if not self._rules.needs_others(self._others):
            return
        if inputs.CHECK_QUORUM not in self._deadlines:
            deadline = self._now_ms + self._config.check_quorum_timeout_ms
            self._set_timer(inputs.CHECK_QUORUM, deadline)
        if inputs.BEGIN_QUORUM not in self._deadlines:
            deadline = self._now_ms + self._config.begin_quorum_interval_ms
            self._set_timer(inputs.BEGIN_QUORUM, deadline)

    def become_resigned(self) -> None:
        """Stop leading, and tell the voters, those with the longest log to stand first."""
        leader = self._body
        assert isinstance(leader, Leader)
        followers = leader.followers
        self._leave_role()
        ids = sorted(followers, key=lambda id_: (-followers[id_].end_offset, id_))
        keys = {voter.id: voter.key for voter in self.voter_set.voters}
        self._body = Resigned(tuple(keys[id_] for id_ in ids), set(ids))
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
        if leader.change is not None:
            self._answer_change(leader.change, error)
        for fetch in leader.parked:
            self._reply_bounds(fetch.token, self._refusal(error))
        for name in (
            inputs.CHECK_QUORUM,
            inputs.BEGIN_QUORUM,
            inputs.FETCH_WAIT,
            inputs.VOTER_CHANGE,
        ):
            self._set_timer(name, None)

    def _answer_change(
        self, change: VoterChange, error: ErrorCode, message: str | None = None
    ) -> None:
        """Answer whoever asked for a change, unless that was done when it was written."""
        if not change.is_answered:
            change.is_answered = True
            self._reply(change.token, change_response(change, error, message))

    def _refusal(self, error: ErrorCode) -> inputs.FetchBounds:
        return inputs.FetchBounds(
            error,
            self.leader_id,
            self._state.epoch,
            log_start_offset=self._log.start_offset,
            leader_endpoint=self._leader_endpoint,
        )

    def _reply_bounds(self, token: Any, bounds: inputs.FetchBounds) -> None:
        """Answer a fetch, in whichever words it was asked."""
        self._reply(token, bounds)

    # -- the voters change ---------------------------------------------------------------------

    @cached_property
    def local_voter(self) -> Voter:
        """This node as a voter set should have it."""
        config = self._config
        return Voter(self.key, config.endpoints, config.min_kraft_version, config.max_kraft_version)

    def _needs_update(self, voter: Voter) -> bool:
        """Whether the voter set has this voter, and something else than this about it."""
        old = self.voter_set.get(voter.id)
        if not voter.endpoints or old is None or old.key != voter.key:
            return False
        return not old.says_the_same_as(voter)

    def _voters_changed(self) -> None:
        leader = self._body
        if isinstance(leader, Unattached):
            self.become_unattached(self._state.epoch)  # voters wait for an election, others ask
        if not isinstance(leader, Leader):
            return  # the other roles look at the set when they need it
        before = leader.followers
        leader.followers = {}
        for voter in self.voter_set.voters:
            if voter.id != self._node_id:
                leader.followers[voter.id] = self._progress_taken_over(leader, before, voter)
        for progress in before.values():
            if progress.last_fetch_ms != NEVER_MS:
                leader.observers[progress.key] = progress
        leader.unacknowledged &= set(leader.followers)
        for peer in {*self._in_flight, *self._not_before} - set(leader.followers):
            self._forget_peer(peer)
        self._watch_over_others()

    def _progress_taken_over(
        self, leader: Leader, before: dict[int, Progress], voter: Voter
    ) -> Progress:
        """What is known of a voter of the new set, whichever it was in the old one.

        Only what it has fetched under its present key counts: what a disk held that is gone does
        not count towards the majority.
        """
        progress = before.get(voter.id)
        if progress is not None and self._rules.is_replica(voter, progress.key):
            return before.pop(voter.id)
        key = next((key for key in leader.observers if self._rules.is_replica(voter, key)), None)
        if key is not None:
            return leader.observers.pop(key)
        leader.unacknowledged.add(voter.id)
        return Progress(voter.key)

    def _own_vote(self) -> set[int]:
        return {self._node_id} if self.is_voter else set()

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

    def _epoch_out_of_range(self, epoch: int) -> bool:
        """Whether `epoch` uses up the numbers that are left, and cannot come from an election.

        An epoch that was heard of is never forgotten, and the quorum needs a higher one for its
        next leader. So a single message with the highest number there is would end all elections,
        for good. The last million epochs are therefore only believed as fast as elections can come
        to them, one per half election timeout of our own clock, so that a flood of messages needs
        days. What was not used adds up, for a node that has slept through some, to
        `EPOCH_STEP_MAX`. Kafka has no such rule.
        """
        unused = (self._now_ms - self._epochs_used_until_ms) // self._epoch_ms
        known = max(self._state.epoch, _EPOCHS_FREE)
        allowance = min(max(unused, 0), EPOCH_STEP_MAX)
        return self._rules.epoch_out_of_range(epoch, known, allowance)

    @property
    def _epoch_ms(self) -> int:
        """The least time between two elections, as far as `_epoch_out_of_range` goes."""
        return max(1, self._config.election_timeout_ms // 2)

    def _note_epoch(self, epoch: int) -> None:
        """A higher epoch is taken over: of those that are kept back, as many are used."""
        used = epoch - max(self._state.epoch, _EPOCHS_FREE)
        if used > 0:
            least = self._now_ms - EPOCH_STEP_MAX * self._epoch_ms
            since = max(self._epochs_used_until_ms, least)
            self._epochs_used_until_ms = since + used * self._epoch_ms

    def _is_invalid_leader_claim(self, epoch: int, leader_id: int) -> bool:
        """Whether no node of sound mind says so; what it says must not get into quorum-state."""
        return leader_id < NOBODY or self._epoch_out_of_range(epoch)

    def _observe(
        self,
        epoch: int,
        leader_id: int,
        endpoints: tuple[Endpoint, ...] = (),
        from_leader: bool = False,
        source: int = NOBODY,
    ) -> bool:
        """Take note that `leader_id` (or NOBODY) leads `epoch`; whether that ends the matter.

        `endpoints` are where it is reached, if that was said; `from_leader` says that it comes and
        speaks for itself, `source` who says so in answer to us. Hearsay of a leader that a
        prospective knows does not make it follow again: it asks around because that leader is
        silent.
        """
        if self.role is Role.FAILED:
            return True  # nothing brings it back
        if epoch < self._state.epoch:
            return False
        if self._is_invalid_leader_claim(epoch, leader_id):
            probe("quorum.epoch.absurd")
            return True
        self._note_leader(leader_id, endpoints)
        if epoch > self._state.epoch:
            if leader_id == self._node_id:
                self._disclaim(epoch)
            elif leader_id == NOBODY:
                self.become_unattached(epoch)
            else:
                self.become_follower(epoch, leader_id)
            return True
        known = self._state.leader_id
        if leader_id in (NOBODY, self._node_id):
            return False
        if known not in (NOBODY, leader_id):
            return self._weigh_rival(leader_id, source)
        if self.role is Role.FOLLOWER:
            return False
        if self.role is Role.PROSPECTIVE and known == leader_id and not from_leader:
            return False
        self.become_follower(epoch, leader_id)
        return True

    def _weigh_rival(self, rival: int, source: int) -> bool:
        """`source` answers that `rival` leads our epoch, and we know another leader; as `_observe`.

        One of the two is none, or somebody has lost its quorum-state and voted twice. Who told us
        of the first may have lied, and so may this one: anybody can send a voter one message. So
        what counts is what the two say of themselves, where we have asked them:

        | who says it           | we led, or hold records of the epoch | we have nothing of it   |
        |-----------------------|--------------------------------------|-------------------------|
        | the rival, of itself  | we stop, before we add to the harm   | the rival is the leader |
        | whom we took for it   | (the same)                           | (the same)              |
        | another               | it is hearsay, and ignored           | ignored, by voters      |

        A leader has asked all voters, so that two that were elected hear of each other first hand.
        """
        known = self._state.leader_id
        is_ours = known == self._node_id
        if source != rival and (is_ours or (source != known and self.is_voter)):
            probe("quorum.leader.rival.hearsay")
            return False
        if is_ours or self._last_epoch == self._state.epoch:
            self.become_failed(f"epoch {self._state.epoch} is led by {known} and by {rival}")
            return True
        probe("quorum.leader.rival.believed")
        self._forget_leader()
        self.become_follower(self._state.epoch, rival)
        return True

    def _disclaim(self, epoch: int) -> None:
        """We are said to lead an epoch that we have never seen.

        Either that is a lie, which anybody can tell to another node in one message, or we have led
        it and forgotten. Both are met by the same memory: our vote of that epoch is our own, as it
        was if we led, so nobody else gets it; and nobody leads who starts with a vote and no
        leadership on record. We add nothing to that epoch, and stand again in the next.
        """
        probe("quorum.epoch.disclaimed")
        self._note_epoch(epoch)
        self._remember(QuorumState(epoch, NOBODY, self._node_id, self._config.directory_id))
        self.become_unattached(epoch)

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
