"""The quorum without one of its rules, as Raft and Kafka's way of doing Raft rest on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from fencepost.log.snapshots import SnapshotId, SnapshotStore
from fencepost.machines.effects import Effect, SetTimer
from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.following import Following
from fencepost.machines.quorum.inputs import FETCH
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import Follower, Nominee, Role
from fencepost.machines.quorum.rules import RULES, VoteFacts
from fencepost.machines.quorum.serving import Serving
from fencepost.machines.quorum.snapshot_fetching import SnapshotFetching
from fencepost.sim.ablations.ablation import (
    Ablation,
    ablation,
    always,
    both,
    changed,
    patched,
)
from fencepost.sim.rules import Rules
from fencepost.wire.message import Message

metadata = partial(changed, "metadata")
quorum = partial(changed, "quorum")


def _vote_for_all(_: object, facts: VoteFacts) -> bool:
    leads = facts.state.leader_id >= 0 or facts.role is Role.LEADER
    return not leads and facts.log_is_long_enough


_become_prospective = RoleChanges.become_prospective


def _stand_at_once(self: RoleChanges) -> None:
    """Begin an epoch without asking whether it would be won, as Raft has it at its simplest."""
    if not self._node.others:
        _become_prospective(self)
        return
    self._timers.set(FETCH, None)
    self.become_candidate()


def _lead_again(self: RoleChanges) -> None:
    """Lead the epoch that quorum-state says this node led."""
    self._node.role_state = Nominee(Role.CANDIDATE, granted={self._node.id})
    self.become_leader()


_begin = SnapshotFetching.begin
_follower_request = Following.follower_request


def _begin_snapshot(self: SnapshotFetching, follower: Follower, snapshot_id: SnapshotId) -> None:
    """As the product does it, and keep the snapshot in mind."""
    _begin(self, follower, snapshot_id)
    self.__dict__["begun"] = follower.fetching


def _ask_for_the_snapshot(self: Following, follower: Follower) -> Message:
    """Ask for the piece that is wanted of the snapshot begun last, until the node has it."""
    if follower.fetching is None:
        follower.fetching = self._snapshots.__dict__.get("begun")
    return _follower_request(self, follower)


_step_fetch_timeout = Following.step_fetch_timeout


def _stay_with_the_leader(self: Following) -> None:
    """As the product does it, but for an observer: it waits for another fetch timeout."""
    if isinstance(self._node.role_state, Follower) and not self._node.is_electable:
        self._timers.set(FETCH, self._timers.now_ms + self._config.fetch_timeout_ms)
    else:
        _step_fetch_timeout(self)


class _ReckonsByTheWallClock(QuorumMachine):
    """Knows the time of day alone; its timers fire in time, and it finds that they have not."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        return [
            replace(effect, deadline_ms=effect.deadline_ms - wall_ms + now_ms)
            if isinstance(effect, SetTimer) and effect.deadline_ms is not None
            else effect
            for effect in super().step(input_, wall_ms, wall_ms)
        ]


def _vote_among_known_voters(_: object, facts: VoteFacts) -> bool:
    known = facts.is_voter and facts.candidate_is_voter
    return known and RULES.may_grant_vote(facts)


TABLE: Final[Mapping[str, Ablation]] = {
    # S54: an epoch is a number like another, however large.
    "accepts-any-epoch": ablation(
        "one message with the largest epoch stops all elections for good",
        quorum(epoch_out_of_range=always(False)),
        "S54",
        searched=False,
    ),
    # S37: votes and epochs are written at the end of a step, after the answers that tell of them.
    "answers-before-it-persists": ablation(
        "a vote is answered before it is on disk",
        patched((Outbox, "emit", lambda self, effect: self._effects.append(effect))),
        "S37",
    ),
    # S48: a leader changes the voters while an earlier change may still be lost.
    "changes-voters-at-once": ablation(
        "two changes of the voters overlap",
        quorum(
            may_change_voters=lambda _, is_active, is_pending: not is_pending,
            voters_are_committed=always(True),
        ),
        "S48",
        searched=False,
    ),
    # S35: everything below a leader's epoch counts as if a record of the epoch stood on top of it.
    # An off-by-one of KAFKA-12619: the high watermark moves to the start of the epoch before
    # anything of the epoch is on a majority, which is figure 8 of the Raft paper.
    "commits-at-epoch-start": ablation(
        "a leader commits what earlier leaders left before anything of its own",
        quorum(may_commit=lambda _, offset, epoch_start_offset: offset >= epoch_start_offset),
        "S35",
        searched=False,
    ),
    # A leader counts its own log before it is flushed.
    "commits-without-disk": ablation(
        "what the leader has only in memory counts towards a majority",
        quorum(own_share=lambda _, is_voter, durable, end_offset: end_offset if is_voter else None),
    ),
    # S45: a voter is a voter, whatever disk it has come back with (KAFKA-12181, KAFKA-17426).
    "counts-by-node-id": ablation(
        "a node that lost its disk counts for what the old disk had acknowledged",
        quorum(is_replica=lambda _, voter, key: voter.id == key.id),
        "S45",
        faults=("kill", "partition", "power-loss", "wipe"),
    ),
    # S47: a leader counts itself towards every majority, voter or not (KAFKA-16530).
    "counts-itself-forever": ablation(
        "a leader that is being removed commits with its own disk",
        quorum(own_share=lambda _, is_voter, durable, end_offset: durable),
        "S47",
        searched=False,
    ),
    # S51: a fetch that must hear of a divergence or a snapshot waits for records (KAFKA-15100).
    "diverging-fetches-wait": ablation(
        "followers that must cut their log, or load a snapshot, lose half a second with each step",
        quorum(must_answer_at_once=always(False)),
        "S51",
        searched=False,
    ),
    # S39: Raft without pre-votes: every time-out begins a new epoch (KIP-996).
    "elections-without-pre-votes": ablation(
        "a node that was cut off comes back with a higher epoch and deposes the leader",
        patched((RoleChanges, "become_prospective", _stand_at_once)),
        "S39",
        searched=False,
    ),
    # S39: a follower says yes to pre-votes although its leader is alive.
    "followers-always-grant-pre-votes": ablation(
        "a node that alone has lost the leader gets itself elected",
        quorum(may_grant_pre_vote=lambda _, facts: facts.log_is_long_enough),
        "S39",
        searched=False,
    ),
    # S39: a follower says no to every pre-vote, also when its leader is silent: a livelock.
    "followers-never-grant-pre-votes": ablation(
        "followers of a silent leader refuse every pre-vote",
        quorum(
            may_grant_pre_vote=lambda _, facts: (
                facts.role is not Role.FOLLOWER and RULES.may_grant_pre_vote(facts)
            )
        ),
        "S39",
        searched=False,
    ),
    # The canary: a voter that forgets whom it has voted for.
    # It must be found at once. If it is not, it is the simulator that is broken.
    "grants-two-votes": ablation(
        "a voter votes twice in one epoch", quorum(may_grant_vote=_vote_for_all)
    ),
    # A voter votes for candidates whose logs are behind its own.
    "ignores-logs": ablation(
        "a candidate without committed records is elected",
        quorum(
            may_grant_vote=lambda _, facts: RULES.may_grant_vote(
                replace(facts, log_is_long_enough=True)
            )
        ),
    ),
    # S41: a follower takes the first piece of a snapshot for all of it.
    "installs-early": ablation(
        "snapshots of more than one piece are never whole",
        quorum(is_whole_snapshot=always(True)),
        "S41",
        searched=False,
    ),
    # S36: a restarted leader takes its epoch up where it was (KAFKA-10527).
    "leads-again-after-restart": ablation(
        "a restarted leader leads on in the same epoch",
        patched((RoleChanges, "begin_resigned", _lead_again)),
        "S36",
    ),
    # S44: a controller is active as soon as its node leads (KAFKA-12958, KAFKA-15345).
    "leads-before-its-first-record": ablation(
        "a controller decides on an image that lacks what earlier leaders committed",
        quorum(is_active=always(True)),
        "S44",
    ),
    # S47: a leader goes on after its removal (KAFKA-17608).
    "leads-though-removed": ablation(
        "a removed leader leads on", quorum(must_step_down=always(False)), "S47", searched=False
    ),
    # S38: a leader that no voter fetches from goes on leading (KAFKA-15489).
    "leads-without-majority": ablation(
        "a leader without a majority does not resign",
        quorum(majority_deadline_ms=lambda _, heard_ms, timeout_ms, now_ms: now_ms + timeout_ms),
        "S38",
        searched=False,
    ),
    # S38: a lone voter watches over a majority of others that it does not have (KAFKA-16144).
    "lone-voter-loses-itself": ablation(
        "a lone voter resigns again and again",
        quorum(
            needs_others=always(True),
            majority_deadline_ms=lambda _, heard_ms, timeout_ms, now_ms: now_ms,
        ),
        "S38",
        searched=False,
    ),
    # S41: a follower goes on with the snapshot it began, under any leader, and whether it is there.
    "never-gives-up-a-snapshot": ablation(
        "a follower asks for ever for a snapshot that no voter has any more",
        patched(
            (SnapshotFetching, "begin", _begin_snapshot),
            (Following, "follower_request", _ask_for_the_snapshot),
        ),
        "S41",
        searched=False,
    ),
    # S53: a follower that cannot read what is committed does not ask for it.
    "never-repairs-its-log": ablation(
        "a follower whose log is damaged holds all of it and never comes to its end",
        quorum(fetch_position=lambda _, log_end, damaged: log_end),
        "S53",
        searched=False,
    ),
    # S49: only voters flush before they fetch (KAFKA-17332).
    "observers-need-no-disk": ablation(
        "an observer that becomes a voter counts for what it has not flushed",
        quorum(flushes_before_fetch=lambda _, is_voter, can_become_voter: is_voter),
        "S49",
        searched=False,
    ),
    # S55: the quorum machine reckons its deadlines by the wall clock.
    "reckons-by-the-wall-clock": ablation(
        "a wall clock that is set back by an hour ends elections for an hour; forward, it deposes"
        " leaders",
        Rules(machine=_ReckonsByTheWallClock),
        "S55",
        faults=("clocks", "kill"),
    ),
    # S40: a leader takes every reader's log for the beginning of its own.
    "sees-no-divergence": ablation(
        "followers keep what they have from a deposed leader",
        patched((Serving, "_divergence", always(None))),
        "S40",
    ),
    # S43: a log that does not begin at 0 needs no snapshot (KAFKA-14240).
    "starts-without-a-snapshot": ablation(
        "a node runs with an image that lacks what was before its log",
        both(
            quorum(reason_not_to_start=always(None)),
            metadata(open_snapshots=lambda _, log: SnapshotStore(log.disk, log.directory)),
        ),
        "S43",
        searched=False,
    ),
    # S56: an observer goes on asking the leader it knows (KAFKA-19354).
    "stays-with-its-leader": ablation(
        "an observer of a leader that is gone never finds another",
        both(
            quorum(asks_around=always(False)),
            patched((Following, "step_fetch_timeout", _stay_with_the_leader)),
        ),
        "S56",
        searched=False,
    ),
    # S46: votes are given by voters, to voters, as far as the own log says who that is (KIP-853).
    "votes-among-known-voters": ablation(
        "a voter that was not told of its own addition refuses the votes that are needed",
        quorum(
            may_grant_pre_vote=lambda _, facts: facts.is_voter and RULES.may_grant_pre_vote(facts),
            may_grant_vote=_vote_among_known_voters,
        ),
        "S46",
        searched=False,
    ),
    # S39: a refused connection to the leader is a lost message like any other.
    "waits-for-a-dead-leader": ablation(
        "no voter leads for a fetch timeout after the leader's process has ended",
        quorum(may_stand_early=always(False)),
        "S39",
        searched=False,
    ),
}
