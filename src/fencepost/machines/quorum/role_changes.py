"""The roles and how a node gets from one to another: every `become_`, and who waits for what.

A role is left by entering another; `_leave_role` cleans up after it. Within an epoch, roles change
without touching the vote or the leader on record, so a node can neither vote twice nor forget the
leader that it followed.

The log is appended to and cut through here, too, because its voters count as soon as their record
is in it, and a role may depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.batch.control import build_control_batch, build_leader_change
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.effects import Fail
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.membership import change_response, voter_records
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.pending_change import PendingChange
from fencepost.machines.quorum.roles import (
    Failed,
    Follower,
    Leader,
    Nominee,
    Resigned,
    Role,
    Unattached,
)
from fencepost.machines.quorum.state import EPOCH_MAX, NO_NODE, QuorumState
from fencepost.machines.quorum.tracker import Tracker
from fencepost.machines.quorum.voter_history import BEFORE_THE_LOG
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType

SUCCESSION_STEP_MS = 50
"""Between two voters that stand because their leader is gone: enough for one to be elected."""

_ELECTION_ROLES = (Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.RESIGNED)


class RoleChanges(Part):
    """Every way from role to role."""

    # -- without a leader, or behind one -------------------------------------------------------

    def become_unattached(self, epoch: int) -> None:
        """No leader is known: of a higher epoch that was heard of, or of this one still.

        The election timer goes on if it runs already. Otherwise a node that hears of one epoch
        after another would never get to stand itself.
        """
        node = self._node
        keeps_timer = node.role in _ELECTION_ROLES and self._timers.is_armed(inputs.ELECTION)
        if epoch > self._outbox.state.epoch:
            self.note_epoch(epoch)
            self._outbox.remember(QuorumState(epoch))
        self._leave_role()
        node.role_state = Unattached()
        self._timers.set(inputs.FETCH, None)
        if not node.is_electable:
            self._timers.set(inputs.ELECTION, None)
        elif not keeps_timer:
            node.await_election()

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """`leader_id` leads `epoch`: fetch from it until the fetch timeout finds it silent."""
        assert leader_id != self._node.id, "no node follows itself"
        vote = self._outbox.state
        if epoch > vote.epoch:
            self.note_epoch(epoch)
            self._outbox.remember(QuorumState(epoch, leader_id))
        else:
            self._outbox.remember(
                QuorumState(epoch, leader_id, vote.voted_id, vote.voted_directory_id)
            )
        self._leave_role()
        self._node.role_state = Follower(leader_id)
        self._timers.set(inputs.ELECTION, None)
        self.await_leader(leader_id)

    def await_leader(self, leader_id: int) -> None:
        """The leader has spoken: it has a fetch timeout to speak again.

        Its followers hear of it in the same moment, and would all stand in the same moment, when it
        is silent: each with its own vote, and none elected. So one after the other stands.
        """
        delay_ms = self.succession_delay_ms(leader_id) if self._node.is_electable else 0
        deadline_ms = self._timers.now_ms + self._config.fetch_timeout_ms + delay_ms
        self._timers.set(inputs.FETCH, deadline_ms)

    def succession_delay_ms(self, leader_id: int) -> int:
        """How long to leave it to others to stand, when this leader is found to be gone."""
        timeout_ms = self._config.fetch_timeout_ms
        step_ms = min(SUCCESSION_STEP_MS, timeout_ms // 20)
        place = place_behind(leader_id, self._node.id, self._log.voter_set.ids)
        return min(place * step_ms, timeout_ms // 2)

    def note_epoch(self, epoch: int) -> None:
        """A higher epoch is taken over."""
        self._node.epochs.take(epoch, self._outbox.state.epoch, self._timers.now_ms)

    # -- standing for election -----------------------------------------------------------------

    def become_prospective(self) -> None:
        """Ask the voters whether an election would be won, without a new epoch (KIP-996)."""
        assert self._node.is_electable, "an observer does not stand for election"
        self._leave_role()
        self._node.role_state = Nominee(Role.PROSPECTIVE, granted=self._own_vote())
        self._timers.set(inputs.FETCH, None)
        self._node.await_election()
        self.maybe_win()

    def become_candidate(self) -> None:
        """Begin a new epoch and ask for votes in it, the own vote being given."""
        epoch = self._outbox.state.epoch + 1
        if epoch > EPOCH_MAX:
            self.become_failed(f"there is no epoch after {EPOCH_MAX}")
            return
        self._leave_role()
        self._outbox.remember(QuorumState(epoch, NO_NODE, *self._node.key))
        self._node.role_state = Nominee(Role.CANDIDATE, granted=self._own_vote())
        self._node.await_election()
        self.maybe_win()

    def _own_vote(self) -> set[int]:
        return {self._node.id} if self._node.is_voter else set()

    def maybe_win(self) -> None:
        """With a majority behind it, a nominee goes one step further."""
        nominee = self._node.role_state
        assert isinstance(nominee, Nominee)
        if not nominee.has_won(self._log.voter_set.majority):
            return
        if nominee.role is Role.PROSPECTIVE:
            self.become_candidate()
        else:
            self.become_leader()

    def give_up_asking(self) -> None:
        """A prospective did not find a majority: back to the leader it knew, or to waiting."""
        state = self._outbox.state
        if state.leader_id not in (NO_NODE, self._node.id):
            self.become_follower(state.epoch, state.leader_id)
        else:
            self._timers.set(inputs.ELECTION, None)
            self.become_unattached(state.epoch)

    # -- leading -------------------------------------------------------------------------------

    def become_leader(self) -> None:
        """Lead the epoch: write its first record, make it known, keep watch over the majority."""
        node, log, vote = self._node, self._log, self._outbox.state
        nominee = node.role_state
        assert isinstance(nominee, Nominee) and nominee.role is Role.CANDIDATE
        self._leave_role()
        self._outbox.remember(
            QuorumState(vote.epoch, node.id, vote.voted_id, vote.voted_directory_id)
        )
        node.role_state = Leader(
            epoch_start_offset=log.end_offset,
            since_ms=self._timers.now_ms,
            tracker=Tracker.of(log.voter_set, node.id),
        )
        self._timers.set(inputs.ELECTION, None)
        batch = build_leader_change(
            leader_id=node.id,
            voters=log.voter_set.ids,
            granting_voters=sorted(nominee.granted),
            base_offset=log.end_offset,
            leader_epoch=vote.epoch,
            timestamp_ms=self._timers.wall_ms,
            followed_by=self._epoch_start_records(),
        )
        self.append([RecordBatch.parse(batch)], vote.epoch, as_leader=True)
        self._watch_over_others()

    def _epoch_start_records(self) -> list[tuple[ControlType, Message]]:
        """What a leader writes behind its LeaderChange: its level and voters, if it has to.

        A set that came with the bootstrap snapshot stands in no log yet, and one that has another
        address for this node than it has now misleads its readers (KIP-853).
        """
        history, mine = self._log.history, self._node.local_voter
        voters, offset = history.latest, history.latest_offset
        if history.kraft_version < 1 or offset is None:
            return []
        is_outdated = self._node.needs_update(mine)
        if offset != BEFORE_THE_LOG and not is_outdated:
            return []
        if is_outdated:
            voters = voters.updated(mine)
        return voter_records(history.kraft_version, voters)

    def _watch_over_others(self) -> None:
        """Arm what a leader needs where there are other voters."""
        if not self._rules.needs_others(self._node.others):
            return
        timers, config = self._timers, self._config
        if not timers.is_armed(inputs.CHECK_QUORUM):
            timers.set(inputs.CHECK_QUORUM, timers.now_ms + config.check_quorum_timeout_ms)
        if not timers.is_armed(inputs.BEGIN_QUORUM):
            timers.set(inputs.BEGIN_QUORUM, timers.now_ms + config.begin_quorum_interval_ms)

    # -- stopping ------------------------------------------------------------------------------

    def become_resigned(self) -> None:
        """Stop leading, and tell the voters, those with the longest log to stand first."""
        leader = self._node.role_state
        assert isinstance(leader, Leader)
        ids = leader.tracker.most_advanced()
        self._leave_role()
        keys = {voter.id: voter.key for voter in self._log.voter_set.voters}
        self._node.role_state = Resigned(tuple(keys[id_] for id_ in ids), set(ids))
        self._node.await_election()

    def begin_resigned(self) -> None:
        """Start where this node led when it stopped: it does not lead on (KAFKA-10527).

        It may have lost records that it had not flushed, and would put others in their place. No
        other node is told.
        """
        self._node.role_state = Resigned()
        self._node.await_election()

    def become_failed(self, reason: str) -> None:
        """Stop for good."""
        self._outbox.drop_unwritten_state()
        self._leave_role(ErrorCode.KAFKA_STORAGE_ERROR)
        self._node.role_state = Failed(reason)
        for name in sorted(self._timers.deadlines):
            self._timers.set(name, None)
        self._outbox.emit(Fail(reason))

    def _leave_role(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """What waits for this role is answered; its requests and its own timers are forgotten."""
        self._requests.forget_all()
        leader = self._node.role_state
        if not isinstance(leader, Leader):
            return
        # Not before the new state is remembered: the answers name the epoch as it is now.
        self._node.role_state = Unattached()
        for append in leader.appends:
            self._outbox.reply(append.token, inputs.AppendOutcome(error))
        if leader.changes.pending is not None:
            self.answer_change(leader.changes.pending, error)
        for fetch in leader.fetches.fetches:
            self._outbox.reply(fetch.token, self._node.refused_fetch(error))
        for name in (
            inputs.CHECK_QUORUM,
            inputs.BEGIN_QUORUM,
            inputs.FETCH_WAIT,
            inputs.VOTER_CHANGE,
        ):
            self._timers.set(name, None)

    def answer_change(
        self, change: PendingChange, error: ErrorCode, message: str | None = None
    ) -> None:
        """Answer the client of a change, unless that was done when it was written."""
        if not change.is_answered:
            change.is_answered = True
            self._outbox.reply(change.token, change_response(change, error, message))

    # -- the log, and the voters that are in force with it -------------------------------------

    def append(self, batches: Sequence[RecordBatch], epoch: int, as_leader: bool) -> None:
        """As `QuorumLog.append`; the voters that come with it are in force."""
        if self._log.append(batches, epoch, as_leader):
            self.voters_changed()

    def append_control(self, records: list[tuple[ControlType, Message]]) -> int:
        """Append a batch of control records as the leader; the offset of the last."""
        epoch = self._outbox.state.epoch
        batch = build_control_batch(
            records,
            timestamp_ms=self._timers.wall_ms,
            base_offset=self._log.end_offset,
            leader_epoch=epoch,
        )
        self.append([RecordBatch.parse(batch)], epoch, as_leader=True)
        return self._log.end_offset - 1

    def truncate(self, end_offset: int) -> None:
        """As `QuorumLog.truncate`; the voters of before are in force again."""
        self._log.truncate(end_offset)
        self.voters_changed()

    def voters_changed(self) -> None:
        """The voter set or kraft.version is another than before."""
        node, voters = self._node, self._log.voter_set
        leader = node.role_state
        if isinstance(leader, Unattached):
            # Voters wait for an election, others ask.
            self.become_unattached(self._outbox.state.epoch)
        if not isinstance(leader, Leader):
            return  # the other roles look at the set when they need it
        leader.tracker.voters_changed(voters, node.id, self._rules.is_replica)
        self._requests.forget_all_but(tuple(leader.tracker.voters))
        self._watch_over_others()


def place_behind(leader_id: int, node_id: int, voters: Sequence[int]) -> int:
    """A node's place among the voters but for the leader, by ids from the leader's on, in a ring.

    Behind all of them for a node that is no voter.
    """
    others = [voter for voter in voters if voter != leader_id]
    ring = [v for v in others if v > leader_id] + [v for v in others if v < leader_id]
    return ring.index(node_id) if node_id in ring else len(ring)
