"""The quorum's known accidents as stories: what happened elsewhere must not happen here.

Each transcript in `transcripts/` is a scenario of the project's catalogue (the file's name has its
number) with the output our machines give; `quorum_script` says how to read it. Each guards against
an old bug, its ablation: with the bug put back, the story must come out as that bug would have it.

`FENCEPOST_REWRITE=1` writes the outputs anew. Commit a changed output only if you understand it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fencepost.machines.effects import Effect, Persist, SetTimer, WriteState
from fencepost.machines.quorum import QuorumMachine, Role, inputs
from fencepost.machines.quorum.roles import Follower, Leader, Nominee

from . import voter_ablations
from .quorum_script import play

TRANSCRIPTS = Path(__file__).parent / "transcripts"


class CommitsAtItsEpochsStart(QuorumMachine):
    """Off by one: everything below the own epoch counts as if a record of the epoch did."""

    def _may_commit(self, leader: Leader, offset: int) -> bool:
        return offset >= leader.epoch_start_offset


class LeadsAgainAfterRestart(QuorumMachine):
    """A restarted leader takes its epoch up where it was."""

    def _take_up_role(self) -> None:
        if self._state.leader_id == self._node_id:
            self._body = Nominee(Role.CANDIDATE, granted={self._node_id})
            self.become_leader()
        else:
            super()._take_up_role()


class TellsBeforeItWrites(QuorumMachine):
    """The durable state is written, but at the end of the step, after the answers."""

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        if self._state_unwritten:
            self._state_unwritten = False
            effects.append(Persist(WriteState(self._state)))
        return effects


class LeadsWithoutMajority(QuorumMachine):
    """A leader that nobody fetches from goes on."""

    def _step_check_quorum(self) -> None:
        self._emit(SetTimer(inputs.CHECK_QUORUM, self._now_ms + 3_000))


class LoneVoterLosesItself(QuorumMachine):
    """A lone voter watches over a majority of others that it does not have."""

    def become_leader(self) -> None:
        super().become_leader()
        if not self._others:
            self._set_timer(inputs.CHECK_QUORUM, self._now_ms + 3_000)

    def _step_check_quorum(self) -> None:
        self.become_resigned()


class StandsWithoutAsking(QuorumMachine):
    """Raft without pre-votes: every time-out begins a new epoch."""

    def become_prospective(self) -> None:
        if self._others:
            self._set_timer(inputs.FETCH, None)
            self.become_candidate()
        else:
            super().become_prospective()


class FollowersNeverHope(QuorumMachine):
    """A follower says no to every pre-vote, also if its leader is silent."""

    def _may_hope(self) -> bool:
        return not isinstance(self._body, Follower) and super()._may_hope()


class FollowersAlwaysHope(QuorumMachine):
    """A follower says yes to pre-votes although its leader is alive."""

    def _may_hope(self) -> bool:
        return True


class SeesNoDivergence(QuorumMachine):
    """A leader that takes every reader's log for the beginning of its own."""

    def _divergence(self, asked: Any) -> None:
        return None


# For each transcript: the bug, and what it makes of the story.
ABLATIONS: dict[str, tuple[type[QuorumMachine], str]] = {
    "s35_first_record_of_an_epoch": (
        CommitsAtItsEpochsStart,
        "VIOLATION I25: leader 3 of 4 lacks committed batches",
    ),
    "s36_leader_restarts": (
        LeadsAgainAfterRestart,
        "VIOLATION I26: offset 1 is committed, on [1] only",
    ),
    "s37_vote_before_disk": (
        TellsBeforeItWrites,
        "VIOLATION I22: 3 votes for 1 and 2 in epoch 1",
    ),
    "s38_leader_loses_majority": (
        LeadsWithoutMajority,
        "> fire 1 check-quorum\n  1->2 BeginQuorumEpoch",
    ),
    "s38_lone_voter": (LoneVoterLosesItself, "e15 of 1"),
    "s39_cut_off_node_returns": (StandsWithoutAsking, "1 leader      e17"),
    "s39_leader_is_alive": (FollowersAlwaysHope, "3 leader      e2 of 3"),
    "s39_no_livelock": (
        FollowersNeverHope,
        "2->3 PreVote e1, log e1 to 1\n> settle\n> check\n",
    ),
    "s40_divergence": (
        SeesNoDivergence,
        "VIOLATION I24: 1 has other committed batches than there were",
    ),
    "s45_voter_loses_its_disk": (voter_ablations.CountsByNodeId, "VIOLATION I26"),
    "s46_leader_dies_adding_a_voter": (
        voter_ablations.VotesAmongKnownVoters,
        "3 prospective e1 of 1",
    ),
    "s47_leader_removes_itself": (voter_ablations.CountsItselfForEver, "VIOLATION I26"),
    "s47_removed_leader_goes": (
        voter_ablations.LeadsThoughRemoved,
        "without-1: NOT_LEADER_OR_FOLLOWER",
    ),
    "s48_overlapping_changes": (voter_ablations.ChangesVotersAtOnce, "VIOLATION I25"),
    "s49_observer_flushes": (voter_ablations.ObserversNeedNoDisk, "VIOLATION I26"),
    "s54_absurd_epoch": (voter_ablations.BelievesAnyEpoch, "2 failed      e2147483647"),
    "s56_unroutable_leader": (
        voter_ablations.StaysWithItsLeader,
        "3 leader      e2 of 3   hw 4   [1 2]   of 1 2 3\n> check",
    ),
}


def test_every_transcript_has_its_ablation() -> None:
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == set(ABLATIONS)


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_the_story_goes_as_written(name: str) -> None:
    path = TRANSCRIPTS / f"{name}.txt"
    text = path.read_text()
    played = play(text)
    if os.environ.get("FENCEPOST_REWRITE"):
        path.write_text(played)
        return
    assert played == text
    assert "VIOLATION" not in played


@pytest.mark.parametrize("name", sorted(ABLATIONS))
def test_the_old_bug_spoils_the_story(name: str) -> None:
    text = (TRANSCRIPTS / f"{name}.txt").read_text()
    bug, consequence = ABLATIONS[name]
    assert consequence not in text
    assert consequence in play(text, bug)
