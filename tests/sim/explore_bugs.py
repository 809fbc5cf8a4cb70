"""Bugs for the explorer to find, each with the smallest space that has room for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fencepost.machines.effects import Effect
from fencepost.machines.quorum import MachineMaker, QuorumMachine, RequestFailed, answered
from fencepost.machines.quorum.messages import vote_response
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.state import QuorumState
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet
from fencepost.sim.ablations import load_ablation
from fencepost.sim.explore.quorum import Bounds
from fencepost.sim.rules import Rules
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.errors import ErrorCode


class ForgetsVotes(QuorumRules):
    """Gives its vote without writing it down."""

    def must_write_state(self, old: QuorumState, new: QuorumState) -> bool:
        gives_vote = new.epoch == old.epoch and new.voted_id >= 0 > old.voted_id
        return not gives_vote and super().must_write_state(old, new)


class CountsFromCommitment(QuorumRules):
    """Goes by the latest voter set that it knows to be committed."""

    def voters_in_force(self, history: VoterHistory, high_watermark: int) -> VoterSet:
        return history.at(high_watermark - 1)


class ChangesAndChanges(QuorumRules):
    """Changes the voters whenever it is asked, whatever has become of the change before."""

    def may_change_voters(self, is_active: bool, is_pending: bool) -> bool:
        return True

    def voters_are_committed(self, voters_offset: int | None, high_watermark: int) -> bool:
        return True


class ForgetsAtStart(QuorumRules):
    """Forgets its vote and its leader when it starts, and keeps the epoch."""

    def state_at_start(self, stored: QuorumState, last_epoch: int) -> QuorumState:
        return QuorumState(stored.epoch)


class TakesRefusalForConsent(QuorumMachine):
    """Counts the vote of a voter that refuses the connection."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        if isinstance(input_, RequestFailed) and isinstance(input_.request, VoteRequest):
            yes = vote_response(ErrorCode.NONE, -1, self.epoch, granted=True)
            input_ = answered(input_.source, input_.request, yes)
        return super().step(input_, now_ms, wall_ms)


RULES_WITH_BUGS = (
    ForgetsVotes(),
    ChangesAndChanges(),
    ForgetsAtStart(),
    CountsFromCommitment(),
)
"""The rules that bugs here take away by name, as ablations do."""


def _by(rules: QuorumRules) -> MachineMaker:
    return partial(QuorumMachine, rules=rules)


@dataclass(frozen=True)
class Bug:
    """A machine with a bug, where to look for it, and which laws may be what it breaks."""

    machine: MachineMaker
    bounds: Bounds
    breaks: tuple[str, ...]
    unwatched: frozenset[str] = frozenset()
    rules: Rules = field(default_factory=Rules)
    """What has patches that are to be in force meanwhile."""


def _ablated(name: str, bounds: Bounds, breaks: tuple[str, ...]) -> Bug:
    rules = load_ablation(name).rules
    return Bug(rules.make_machine, bounds, breaks, rules=rules)


BUGS = {
    # That memory is not what is on disk is seen at once; two votes are what comes of it.
    "votes are not on disk": Bug(_by(ForgetsVotes()), Bounds(epochs=1, timeouts=2), ("I23",)),
    "votes are not on disk, and I23 is off": Bug(
        _by(ForgetsVotes()),
        Bounds(epochs=1, timeouts=3, crashes=1),
        ("I22", "I21"),
        frozenset(("I23",)),
    ),
    "votes are told before they are on disk": _ablated(
        "answers-before-it-persists", Bounds(epochs=1, timeouts=3, crashes=1), ("I22",)
    ),
    "two votes in an epoch": _ablated(
        "grants-two-votes", Bounds(epochs=1, timeouts=3), ("I22", "I21", "machine")
    ),
    "the vote is forgotten at a restart": Bug(
        _by(ForgetsAtStart()), Bounds(epochs=1, timeouts=3, crashes=1), ("I22", "I21")
    ),
    "a leader leads again after a restart": _ablated(
        "leads-again-after-restart",
        Bounds(epochs=1, timeouts=2, crashes=1, appends=1, first=1),
        ("I03", "I24", "I25", "I26", "I06", "machine"),
    ),
    "logs are not compared": _ablated(
        "ignores-logs", Bounds(epochs=2, timeouts=2, first=1), ("I25", "I24", "I07")
    ),
    # Figure 8 of the Raft paper, from its third picture on: 1 and 2 have led, and no other node got
    # their batches.
    "an epoch's predecessors are committed without it": _ablated(
        "commits-at-epoch-start",
        Bounds(epochs=4, timeouts=2, first=1, one_batch=True, logs=((1,), (2,), ())),
        ("I25", "I24"),
    ),
    "a refused connection counts as consent": Bug(
        TakesRefusalForConsent,
        Bounds(epochs=1, timeouts=2, refusals=2),
        ("I21", "machine"),
    ),
    "what is not flushed counts": _ablated(
        "commits-without-disk", Bounds(epochs=1, timeouts=1), ("I26",)
    ),
    "changes of voters overlap": Bug(
        _by(ChangesAndChanges()),
        Bounds(epochs=2, timeouts=2, changes=2, first=1),
        ("I25", "I24", "I21"),
        frozenset(("I29",)),
    ),
    "voters change before a commit": _ablated(
        "changes-voters-at-once",
        Bounds(epochs=1, timeouts=1, changes=1, first=1),
        ("I29",),
    ),
    "a voter set counts from commitment": Bug(
        _by(CountsFromCommitment()),
        Bounds(epochs=1, timeouts=1, changes=1, first=1),
        ("I26", "machine"),
    ),
}
