"""Whatever a run may complain of, there is a bug that makes it: no check is there for show.

Invariants are told a history that is wrong; what a run insists on by itself is tried with the
product broken in the way that it is there for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker.controller_host import ControllerHost
from fencepost.broker.metadata import MetadataHost
from fencepost.log import quorum_state
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.quorum import QuorumMachine, QuorumState
from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.checks import Check, load_checks
from fencepost.sim.faults import fault_classes
from fencepost.sim.options import Options
from fencepost.sim.rules import Rules
from fencepost.sim.run import Plan, run_seed
from fencepost.sim.tape import Tape
from fencepost.sim.truth import Truth, Violation
from fencepost.sim.world import World

from .histories import entry, leader, truth_of, view

LOG = [entry(0), entry(1), entry(2)]
Wrong = Callable[[Check, Truth], object]


def committed(truth: Truth) -> Truth:
    truth.committed = LOG[:2]
    return truth


def two_images(check: Check, truth: Truth) -> None:
    from .test_checks import Image

    check.image_moved(truth, 1, Image(4, "a"))
    check.image_moved(truth, 2, Image(4, "b"))


def a_falling_watermark(check: Check, truth: Truth) -> None:
    truth.views[1] = view(1, high_watermark=2)
    check.stepped(truth, view(1, high_watermark=1))


def two_leaders(check: Check, truth: Truth) -> None:
    check.stepped(truth, leader(1))
    check.stepped(truth, leader(2))


def two_voters_more(check: Check, truth: Truth) -> None:
    truth.views[1] = leader(1, is_active=True)
    check.stepped(truth, leader(1, voters=view(1).voters[:1]))


def a_leader_that_loads(check: Check, truth: Truth) -> None:
    truth.views[1] = leader(1)
    check.snapshot_loaded(truth, 1, 9)


WRONG: dict[str, Wrong] = {
    "I03": lambda check, truth: check.at_end(
        truth_of(LOG, [LOG[0], entry(1, epoch=1, crc=7), LOG[2]])
    ),
    "I06": a_falling_watermark,
    "I07": lambda check, truth: check.cutting(committed(truth), 1, 1),
    "I13": lambda check, truth: check.promised(committed(truth), 2, LOG[2].crc),
    "I21": two_leaders,
    "I22": lambda check, truth: check.vote_told(truth, 1, 1, 1),
    "I23": lambda check, truth: [
        check.state_written(truth, 1, QuorumState(epoch)) for epoch in (2, 1)
    ],
    "I24": lambda check, truth: check.stepped(
        committed(truth_of([LOG[0], entry(1, epoch=9)])), view(1, high_watermark=2, end_offset=2)
    ),
    "I25": lambda check, truth: check.stepped(committed(truth_of(LOG[:1])), leader(1, epoch=6)),
    "I26": lambda check, truth: check.stepped(
        truth_of(LOG, [], []), leader(1, high_watermark=3, end_offset=3)
    ),
    "I27": lambda check, truth: check.log_starts(truth, 1, 2, SnapshotId(1, 1)),
    "I28": a_leader_that_loads,
    "I29": two_voters_more,
    "I30": two_images,
    "I31": lambda check, truth: check.stepped(truth, view(1, role="leader", leader_id=2)),
    "I51": lambda check, truth: check.recovered(truth, 1, LOG[:1], 0),
}
"""For each invariant a history that breaks it."""


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert set(WRONG) == {check.kind for check in load_checks()}


@pytest.mark.parametrize("check", load_checks(), ids=lambda check: check.kind)
def test_an_invariant_turns_red(check: Check) -> None:
    with pytest.raises(Violation) as caught:
        WRONG[check.kind](check, truth_of(LOG))
    assert caught.value.kind == check.kind


class Breathless(QuorumMachine):
    """Never votes in a second epoch."""

    def _may_vote_for(self, *asked: Any) -> bool:
        return self.epoch < 2 and super()._may_vote_for(*asked)


class Asserts(QuorumMachine):
    """Finds itself to be wrong."""

    def _step_election_timeout(self) -> None:
        raise AssertionError("this cannot be")


class Stumbles(QuorumMachine):
    """Meets what nobody has foreseen."""

    def _step_election_timeout(self) -> None:
        raise KeyError("this neither")


class GivesUp(QuorumMachine):
    """Takes its disk for failed."""

    def _step_election_timeout(self) -> None:
        self.become_failed("the disk looks strange")


def _twice(submit: Any) -> Any:
    def twice(self: Any, decide: Any, answered: Any) -> None:
        def both(error: Any, reply: Any) -> None:
            answered(error, reply)
            answered(error, reply)

        submit(self, decide, both)

    return twice


def _never(submit: Any) -> Any:
    def never(self: Any, decide: Any, answered: Any) -> None:
        submit(self, decide, lambda error, reply: None)

    return never


def _rules(target: Any, name: str, replacement: Any) -> Rules:
    return Rules(patches=((target, name, replacement),))


BROKEN: dict[str, tuple[Rules, Options]] = {
    "liveness-start": (Rules(), Options(faults=(), warm_up_ms=500)),
    "liveness-leader": (Rules(machine=Breathless), Options(faults=("kill",))),
    "liveness-logs": (
        _rules(MetadataHost, "catch_up", lambda self: None),
        Options(faults=(), write_every_ms=0, has_controller=False),
    ),
    "liveness-answers": (
        _rules(ControllerHost, "submit", _never(ControllerHost.submit)),
        Options(faults=()),
    ),
    "standstill": (
        _rules(ControllerHost, "submit", lambda self, decide, answered: None),
        Options(faults=()),
    ),
    "answered-twice": (
        _rules(ControllerHost, "submit", _twice(ControllerHost.submit)),
        Options(faults=()),
    ),
    "assertion": (Rules(machine=Asserts), Options(faults=())),
    "unhandled": (Rules(machine=Stumbles), Options(faults=())),
    "gave-up": (Rules(machine=GivesUp), Options(faults=())),
}
"""For each thing that a run insists on by itself, a product or a world that does not have it."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_run_complains(kind: str) -> None:
    rules, options = BROKEN[kind]
    seen = set()
    for seed in range(1, 9):
        outcome = run_seed(seed, Plan(base=options, rules=rules, draws_options=False))
        if outcome.violation is not None:
            seen.add(outcome.violation.kind)
            if kind in seen:
                return
    raise AssertionError(f"{kind} was not among {seen}")


def test_a_topic_that_was_promised_is_missed_and_one_that_was_deleted_is_seen() -> None:
    world = World(Tape(recorded={}), Options(faults=()))
    workload = world.workload
    workload.check_promises(ClusterImage())
    workload.topics["t1"] = True
    with pytest.raises(Violation, match="I13: topic t1 was created, and is gone"):
        workload.check_promises(ClusterImage())
    there = ClusterImage(topics_by_name=PersistentMap({"t1": object()}))  # type: ignore[dict-item]
    workload.check_promises(there)
    workload.topics["t1"] = False
    with pytest.raises(Violation, match="I13: topic t1 was deleted, and is there"):
        workload.check_promises(there)


def test_a_rotten_vote_that_is_believed_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_state, "crc32c", lambda data: 0)
    seen: list[str] = []
    for seed in range(1, 30):
        world = World(Tape(seed), Options(faults=()))
        for node in world.nodes.values():
            node.start()
        world.run_until(3_000_000)
        try:
            fault_classes()["state-rot"](world).act()
        except Violation as violation:
            seen.append(violation.kind)
            break
    assert seen == ["damage"]


def test_every_ablation_is_noticed_somewhere() -> None:
    for name in ablation_names():
        ablation = load_ablation(name)
        assert ablation.scenarios or ablation.is_found_by_search, name
