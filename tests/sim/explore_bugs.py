"""Bugs for the explorer to find, each with the smallest space that has room for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.machines.quorum import QuorumMachine, RequestFailed
from fencepost.machines.quorum.roles import Nominee
from fencepost.machines.quorum.state import QuorumState
from fencepost.machines.quorum.voters import VoterSet
from fencepost.sim.ablations import load_ablation
from fencepost.sim.explore import Bounds


class ForgetsVotes(QuorumMachine):
    """Gives its vote without writing it down."""

    def _give_vote(self, candidate_id: int, directory_id: Any) -> None:
        unwritten = self._state_unwritten
        super()._give_vote(candidate_id, directory_id)
        self._state_unwritten = unwritten


class CountsFromCommitment(QuorumMachine):
    """Goes by the latest voter set that it knows to be committed."""

    @property
    def voter_set(self) -> VoterSet:
        return self._history.at(self._high_watermark - 1)


class ChangesAndChanges(QuorumMachine):
    """Changes the voters whenever it is asked, whatever has become of the change before."""

    def _another_change_waits(self) -> bool:
        return False

    def _has_committed_in_epoch(self) -> bool:
        return True

    def _voters_are_committed(self) -> bool:
        return True


class ForgetsAtStart(QuorumMachine):
    """Forgets its vote and its leader when it starts, and keeps the epoch."""

    def _take_up_role(self) -> None:
        self._remember(QuorumState(self._state.epoch))
        super()._take_up_role()

    def _remember(self, state: QuorumState) -> None:
        if state != self._state:
            self._state, self._state_unwritten = state, True


class TakesRefusalForConsent(QuorumMachine):
    """Counts the vote of a voter that refuses the connection."""

    def _step_request_failed(self, input_: RequestFailed) -> None:
        nominee = self._body
        if input_.is_refused and isinstance(nominee, Nominee):
            self._count_vote(nominee, input_.source, granted=True)
        else:
            super()._step_request_failed(input_)


def _ablated(name: str) -> type[QuorumMachine]:
    return load_ablation(name).rules.machine


@dataclass(frozen=True)
class Bug:
    """A machine with a bug, where to look for it, and which laws may be what it breaks."""

    machine: type[QuorumMachine]
    bounds: Bounds
    breaks: tuple[str, ...]
    unwatched: frozenset[str] = frozenset()


BUGS = {
    # That memory is not what is on disk is seen at once; two votes are what comes of it.
    "votes are not on disk": Bug(ForgetsVotes, Bounds(epochs=1, timeouts=2), ("I23",)),
    "votes are not on disk, and nobody looks": Bug(
        ForgetsVotes,
        Bounds(epochs=1, timeouts=3, crashes=1),
        ("I22", "I21"),
        frozenset(("I23",)),
    ),
    "votes are told before they are on disk": Bug(
        _ablated("tells-before-it-writes"), Bounds(epochs=1, timeouts=3, crashes=1), ("I22",)
    ),
    "two votes in an epoch": Bug(
        _ablated("grants-two-votes"), Bounds(epochs=1, timeouts=3), ("I22", "I21", "machine")
    ),
    "the vote is forgotten at a restart": Bug(
        ForgetsAtStart, Bounds(epochs=1, timeouts=3, crashes=1), ("I22", "I21")
    ),
    "a leader leads again after a restart": Bug(
        _ablated("leads-again-after-restart"),
        Bounds(epochs=1, timeouts=2, crashes=1, appends=1, first=1),
        ("I03", "I24", "I25", "I26", "I06", "machine"),
    ),
    "logs are not compared": Bug(
        _ablated("ignores-logs"), Bounds(epochs=2, timeouts=2, first=1), ("I25", "I24", "I07")
    ),
    # Figure 8 of the Raft paper, from its third picture on: 1 and 2 have led and reached nobody.
    "an epoch's predecessors are committed without it": Bug(
        _ablated("commits-at-epoch-start"),
        Bounds(epochs=4, timeouts=2, first=1, one_batch=True, logs=((1,), (2,), ())),
        ("I25", "I24"),
    ),
    "whoever refuses a connection has consented": Bug(
        TakesRefusalForConsent,
        Bounds(epochs=1, timeouts=2, refusals=2),
        ("I21", "machine"),
    ),
    "what is not flushed counts": Bug(
        _ablated("commits-without-disk"), Bounds(epochs=1, timeouts=1), ("I26",)
    ),
    "changes of voters overlap": Bug(
        ChangesAndChanges,
        Bounds(epochs=2, timeouts=2, changes=2, first=1),
        ("I25", "I24", "I21"),
        frozenset(("I29",)),
    ),
    "voters change before a commit": Bug(
        _ablated("changes-voters-at-once"),
        Bounds(epochs=1, timeouts=1, changes=1, first=1),
        ("I29",),
    ),
    "a voter set counts from commitment": Bug(
        CountsFromCommitment,
        Bounds(epochs=1, timeouts=1, changes=1, first=1),
        ("I26", "machine"),
    ),
}
