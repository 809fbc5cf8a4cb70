"""The rules of the quorum by name: what the simulator can take away, one at a time.

A machine is given one `QuorumRules` and asks it wherever Raft, or Kafka's way of doing Raft, rests
on a decision. Each rule is a function of its parameters and of nothing else, so it can be read, and
tested, by itself. Production uses `RULES`. An ablation of the simulator overrides one or more of
these methods (`fencepost.sim.ablations`); a test holds that every rule has one. What a machine does
in any case, such as writing the durable state before anything leaves, is no rule: an ablation
patches the function that does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.quorum.roles import Role
from fencepost.machines.quorum.state import NO_NODE, QuorumState
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import ReplicaKey, Voter, VoterSet
from fencepost.wire.types import Uuid


class VoteFacts(Struct, frozen=True):
    """What is known when a voter asks for a vote, or a pre-vote, in the epoch that we are in.

    `state` is our durable state. `log_is_long_enough`: the candidate's log is not behind what we
    have acknowledged to hold. `has_heard_leader`: we follow, and our leader has answered a fetch.
    `is_voter` and `candidate_is_voter` go by our own log.
    """

    role: Role
    state: QuorumState
    candidate: ReplicaKey
    log_is_long_enough: bool
    has_heard_leader: bool
    is_voter: bool
    candidate_is_voter: bool


class QuorumRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all machines."""

    __slots__ = ()

    # -- starting ------------------------------------------------------------------------------

    def state_at_start(self, stored: QuorumState, last_epoch: int) -> QuorumState:
        """What a starting node goes by: quorum-state, or the epoch of a log that is newer.

        The vote in a quorum-state that is older than the log is of an epoch long past.
        """
        return QuorumState(last_epoch) if last_epoch > stored.epoch else stored

    def reason_not_to_start(self, log: LogView) -> str | None:
        """What keeps a node from starting on this log and its snapshots; None if nothing does.

        A log that does not begin at 0 needs a snapshot that stands for what is missing
        (KAFKA-14240). The newest snapshot must be one of this log: a crash between putting a
        fetched snapshot in place and emptying the log is the shell's to finish, before the voters
        are read from the log.
        """
        latest = log.snapshots.latest()
        start = log.start_offset
        if latest is None or latest == BOOTSTRAP_ID:
            return f"the log starts at {start}, and there is no snapshot" if start > 0 else None
        if latest.end_offset < start:
            return f"the log starts at {start}, and the newest snapshot ends at {latest.end_offset}"
        if latest.end_offset > log.end_offset:
            return f"the log ends at {log.end_offset}, below its snapshot of {latest.end_offset}"
        if latest.end_offset > start and log.epochs.epoch_at(latest.end_offset - 1) != latest.epoch:
            return f"the log has other records below {latest.end_offset} than its snapshot"
        return None

    # -- the disk before the network -----------------------------------------------------------

    def must_write_state(self, old: QuorumState, new: QuorumState) -> bool:
        """Whether quorum-state has to be written again: whenever anything in it changes (I23)."""
        return new != old

    def flushes_before_fetch(self, is_voter: bool, can_become_voter: bool) -> bool:
        """Whether a fetch is our word that what lies below it is on disk.

        Not only voters must keep it: a leader that makes an observer a voter counts the fetches it
        has seen of it (KAFKA-17332). Brokers never become voters.
        """
        return is_voter or can_become_voter

    # -- epochs and elections ------------------------------------------------------------------

    def epoch_out_of_range(self, epoch: int, highest_known: int, allowance: int) -> bool:
        """Whether `epoch` cannot come from an election; see `epochs.EpochAllowance`."""
        return epoch > highest_known + allowance

    def may_grant_pre_vote(self, facts: VoteFacts) -> bool:
        """The column of pre-votes in the table of `elections.py`.

        That our leader never spoke is asked so that a node that was cut off does not disturb a
        quorum that works.
        """
        if not facts.log_is_long_enough or facts.role is Role.LEADER:
            return False
        return not facts.has_heard_leader

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        """The column of votes in the table of `elections.py` (I22)."""
        if facts.role not in (Role.UNATTACHED, Role.PROSPECTIVE):
            return False
        given = facts.state
        if given.voted_id != NO_NODE:
            # A candidate that asks again gets the same answer, whatever the logs say by now.
            same_directory = given.voted_directory_id in (Uuid.ZERO, facts.candidate.directory_id)
            return given.voted_id == facts.candidate.id and same_directory
        return given.leader_id == NO_NODE and facts.log_is_long_enough

    def may_stand_early(self, has_in_epoch: bool) -> bool:
        """Whether a refused connection to the leader makes its followers stand at once.

        Once per epoch: `has_in_epoch` says that it has happened.
        """
        return not has_in_epoch

    # -- leading -------------------------------------------------------------------------------

    def is_replica(self, voter: Voter, key: ReplicaKey) -> bool:
        """Whether `key` is that of this voter, with its disk (KAFKA-12181, KAFKA-17426)."""
        return voter.is_replica(key)

    def own_share(self, is_voter: bool, durable_end_offset: int, end_offset: int) -> int | None:
        """Up to where a leader's own log counts towards a majority: what is flushed (I26).

        None once the leader is removed from the voters: then it is not one of those that a majority
        is made of (KAFKA-16530).
        """
        return durable_end_offset if is_voter else None

    def may_commit(self, offset: int, epoch_start_offset: int) -> bool:
        """Whether a record of the leader's own epoch lies below `offset` (Raft's figure 8)."""
        return offset > epoch_start_offset

    def is_active(self, high_watermark: int, epoch_start_offset: int) -> bool:
        """Whether a leader's LeaderChange is committed, so that its log shows what is committed."""
        return high_watermark > epoch_start_offset

    def needs_others(self, others: Sequence[int]) -> bool:
        """Whether a leader has a majority to lose: a lone voter is one by itself."""
        return bool(others)

    def majority_deadline_ms(self, heard_ms: int, timeout_ms: int, now_ms: int) -> int:
        """Until when a leader leads that a majority was last heard of at `heard_ms`."""
        return heard_ms + timeout_ms

    def must_step_down(self, is_voter: bool, voters_are_committed: bool) -> bool:
        """Whether a leader resigns because its removal from the voters is committed."""
        return not is_voter and voters_are_committed

    # -- changes of the voters -----------------------------------------------------------------

    def voters_in_force(self, history: VoterHistory, high_watermark: int) -> VoterSet:
        """Who votes and is counted: the latest voter set in the log, committed or not."""
        return history.latest

    def may_change_voters(self, is_active: bool, is_pending: bool) -> bool:
        """Whether a leader may begin a change of the voters.

        A record of its epoch must be committed, or an earlier leader's voter set may yet be
        committed by voters that do not know of ours; and no other change may be pending.
        """
        return is_active and not is_pending

    def voters_are_committed(self, voters_offset: int | None, high_watermark: int) -> bool:
        """Whether the voter set in force is committed, and may have a successor (I29)."""
        return voters_offset is None or voters_offset < high_watermark

    # -- serving fetches -----------------------------------------------------------------------

    def must_answer_at_once(
        self, diverging: tuple[int, int] | None, snapshot_id: SnapshotId | None
    ) -> bool:
        """Whether a reader must cut its log or load a snapshot: no record would ever wake it
        (KAFKA-15100)."""
        return diverging is not None or snapshot_id is not None

    # -- following -----------------------------------------------------------------------------

    def fetch_position(
        self, log_end: tuple[int, int], damaged: tuple[int, int] | None
    ) -> tuple[int, int]:
        """(epoch of the record below, offset) to fetch from: what is damaged comes first.

        That a batch is damaged and still in the log means that it is committed.
        """
        return log_end if damaged is None else damaged

    def asks_around(self, misses: int) -> bool:
        """Whether to ask another node than the leader, which has not answered the last time.

        Voters are told of new leaders, if these know them. Others find out by themselves, and
        sooner than by the fetch timeout if they ask the leader and the others by turns, as Kafka's
        do.
        """
        return misses % 2 == 1

    def is_whole_snapshot(self, position_bytes: int, size_bytes: int) -> bool:
        """Whether nothing is missing of a snapshot. (Whether it is sound is seen when it is
        installed.)"""
        return position_bytes == size_bytes


RULES: Final = QuorumRules()
"""What production machines go by."""

RULE_NAMES: Final = tuple(name for name in vars(QuorumRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
