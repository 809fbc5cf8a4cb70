"""Whatever a run may complain of, there is a bug that makes it: no check is there for show.

Invariants are told a history that is wrong; what a run insists on by itself is tried with the
product broken in the way that it is there for.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import fencepost
from fencepost.batch.records import build_batch
from fencepost.log import quorum_state
from fencepost.log.producers import SEQUENCE_MAX
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.controller import Controller
from fencepost.machines.controller.security import SecurityDecisions
from fencepost.machines.effects import Effect, TimerFired
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.quorum import QuorumMachine, QuorumState, inputs
from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.runtime.controller_host import ControllerHost
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.sim import observer as observer
from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.checks import Check, load_checks
from fencepost.sim.clients.population import BrokerClients
from fencepost.sim.faults import fault_classes
from fencepost.sim.node import SimNode
from fencepost.sim.options import Options
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import (
    NO_BROKER,
    Checkpoints,
    PartitionKey,
    PartitionOracle,
    Place,
    passed,
)
from fencepost.sim.rules import Rules
from fencepost.sim.run import Plan, run_seed
from fencepost.sim.tape import Tape
from fencepost.sim.transaction_oracle import ReadCommitted
from fencepost.sim.world import World

from . import partition_histories, permission_histories, transaction_histories
from .histories import entry, leader, truth_of, view
from .partition_histories import come_back, partition, with_elr

LOG = [entry(0), entry(1), entry(2)]
OF_PARTITIONS = [
    *partition_histories.WRONG,
    *transaction_histories.WRONG,
    *permission_histories.WRONG,
]
Wrong = Callable[[Check, Oracle], object]


def committed(oracle: Oracle) -> Oracle:
    oracle.committed = LOG[:2]
    return oracle


def two_images(check: Check, oracle: Oracle) -> None:
    from .test_checks import Image

    check.image_moved(oracle, 1, Image(4, "a"))
    check.image_moved(oracle, 2, Image(4, "b"))


def a_falling_watermark(check: Check, oracle: Oracle) -> None:
    oracle.views[1] = view(1, high_watermark=2)
    check.stepped(oracle, view(1, high_watermark=1))


def two_leaders(check: Check, oracle: Oracle) -> None:
    check.stepped(oracle, leader(1))
    check.stepped(oracle, leader(2))


def two_voters_more(check: Check, oracle: Oracle) -> None:
    oracle.views[1] = leader(1, is_active=True)
    check.stepped(oracle, leader(1, voters=view(1).voters[:1]))


def a_leader_that_loads(check: Check, oracle: Oracle) -> None:
    oracle.views[1] = leader(1)
    check.snapshot_loaded(oracle, 1, 9)


WRONG: dict[str, Wrong] = {
    "I03": lambda check, oracle: check.at_end(
        truth_of(LOG, [LOG[0], entry(1, epoch=1, crc=7), LOG[2]])
    ),
    "I06": a_falling_watermark,
    "I07": lambda check, oracle: check.cutting(committed(oracle), 1, 1),
    "I13": lambda check, oracle: check.told_committed(committed(oracle), 2, LOG[2].crc),
    "I21": two_leaders,
    "I22": lambda check, oracle: check.vote_told(oracle, 1, 1, 1),
    "I23": lambda check, oracle: [
        check.state_written(oracle, 1, QuorumState(epoch)) for epoch in (2, 1)
    ],
    "I24": lambda check, oracle: check.stepped(
        committed(truth_of([LOG[0], entry(1, epoch=9)])), view(1, high_watermark=2, end_offset=2)
    ),
    "I25": lambda check, oracle: check.stepped(committed(truth_of(LOG[:1])), leader(1, epoch=6)),
    "I26": lambda check, oracle: check.stepped(
        truth_of(LOG, [], []), leader(1, high_watermark=3, end_offset=3)
    ),
    "I27": lambda check, oracle: check.log_starts(oracle, 1, 2, SnapshotId(1, 1)),
    "I28": a_leader_that_loads,
    "I29": two_voters_more,
    "I30": two_images,
    "I31": lambda check, oracle: check.stepped(oracle, view(1, role="leader", leader_id=2)),
    "I51": lambda check, oracle: check.recovered(oracle, 1, LOG[:1], 0),
}
"""For each invariant a history that breaks it."""


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    of_partitions = {kind for kind, _, _ in OF_PARTITIONS}
    assert set(WRONG) | of_partitions == {check.kind for check in load_checks()}


def check_of(kind: str) -> Check:
    return next(check for check in load_checks() if check.kind == kind)


@pytest.mark.parametrize("kind", WRONG)
def test_an_invariant_turns_red(kind: str) -> None:
    with pytest.raises(Violation) as caught:
        WRONG[kind](check_of(kind), truth_of(LOG))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [pytest.param(kind, wrong, id=f"{kind}-{what}") for kind, what, wrong in OF_PARTITIONS],
)
def test_an_invariant_of_partitions_turns_red(kind: str, wrong: partition_histories.Wrong) -> None:
    with pytest.raises(Violation) as caught:
        wrong(check_of(kind))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "told", [pytest.param(told, id=what) for what, told in transaction_histories.RISKS_OF_VERSION_1]
)
def test_i32_what_is_late_in_version_1_is_not_held_against_it(
    told: partition_histories.Wrong,
) -> None:
    told(check_of("I32"))


def test_i33_a_reader_stops_before_what_is_undecided() -> None:
    check, oracle = check_of("I33"), Oracle()
    transaction_histories.write(oracle, transaction_histories.begin(oracle), offset=2)
    check.read_committed(oracle, ReadCommitted(1, transaction_histories.KEY, 0, 2, frozenset()))


def test_i17_a_follower_need_not_have_what_it_has_deleted() -> None:
    check = check_of("I17")
    partition_histories.show_all(check, partition_histories.LOG[1:], start_offset=1)


def test_i36_sequences_begin_again_at_0_behind_the_highest_and_in_a_new_epoch() -> None:
    check, first = check_of("I36"), SEQUENCE_MAX - 20
    partition_histories.produce(check, (0, first), (0, 0), (1, 0), (2, None), (2, 0), records=21)


def test_i01_the_first_batch_may_begin_below_the_log_where_records_were_deleted() -> None:
    check, key = check_of("I01"), partition_histories.KEY
    oracle = partition_histories.partitions_of([])
    log = oracle.partitions.log(1, key)
    log.start_offset = 2
    below, above = (partition_histories.batch(base, next_offset=4) for base in (1, 3))
    with pytest.raises(Violation):
        check.replica_appended(oracle, 1, key, below)
    oracle.partitions.cleaned(key).without_records |= {1, 3}
    check.replica_appended(oracle, 1, key, below)
    with pytest.raises(Violation):
        check.replica_appended(oracle, 1, key, above)
    log.entries.append(partition_histories.batch(1))
    with pytest.raises(Violation):
        check.replica_appended(oracle, 1, key, below)


def test_i03_a_damaged_disk_is_not_compared() -> None:
    check = check_of("I03")
    for damaged in (1, 2):
        oracle = truth_of(LOG, [LOG[0], entry(1, crc=7), LOG[2]])
        oracle.disks[damaged].is_damaged = True
        check.at_end(oracle)


class Breathless(QuorumRules):
    """Never votes in a second epoch."""

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        return facts.state.epoch < 2 and super().may_grant_vote(facts)


class Asserts(QuorumMachine):
    """Finds itself to be wrong."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        assert input_ != TimerFired(inputs.ELECTION), "this cannot be"
        return super().step(input_, now_ms, wall_ms)


class Stumbles(QuorumMachine):
    """Raises an error that is not among `FORESEEN`."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        if input_ == TimerFired(inputs.ELECTION):
            raise KeyError("this neither")
        return super().step(input_, now_ms, wall_ms)


class GivesUp(QuorumMachine):
    """Takes its disk for failed."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        if input_ == TimerFired(inputs.ELECTION):
            input_ = inputs.ImageFailed("the disk looks strange")
        return super().step(input_, now_ms, wall_ms)


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


def _stumble(*_: Any) -> None:
    raise KeyError("this neither")


def _in_vain(decide: Any) -> Any:
    """Says that it is done, and writes nothing."""

    def decide_in_vain(self: Any, *asked: Any) -> Any:
        return replace(decide(self, *asked), records=[])

    return decide_in_vain


def _another_was_acknowledged(self: PartitionOracle, key: PartitionKey, base_offset: int) -> None:
    """Remembers a batch that no replica has."""
    batch = self.visible_batch(key, base_offset)
    assert batch is not None
    self.acknowledged.setdefault(key, {})[base_offset] = batch._replace(crc=batch.crc ^ 1)


def _rules(target: Any, name: str, replacement: Any) -> Rules:
    return Rules(patches=((target, name, replacement),))


ONE_BROKER = Options(voters=1, brokers=1, producers=1, consumers=1, faults=(), safety_ms=3_000)
GUEST = dataclasses.replace(ONE_BROKER, guests=1, safety_ms=8_000)
BROKEN: dict[str, tuple[Rules, Options]] = {
    "liveness-start": (Rules(), Options(faults=(), warm_up_ms=500)),
    "liveness-leader": (Rules(quorum=Breathless()), Options(faults=("kill",))),
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
    "swallowed": (_rules(MetadataHost, "catch_up", _stumble), Options(faults=())),
    r"I13: topic \w+ was created, and is gone": (
        _rules(Controller, "decide_create_topics", _in_vain(Controller.decide_create_topics)),
        Options(faults=()),
    ),
    r"I13: topic \w+ was deleted, and is there": (
        _rules(Controller, "decide_delete_topics", _in_vain(Controller.decide_delete_topics)),
        Options(faults=()),
    ),
    r"I13: StandardAcl\(.*\) is gone": (
        _rules(
            SecurityDecisions, "decide_create_acls", _in_vain(SecurityDecisions.decide_create_acls)
        ),
        GUEST,
    ),
    r"I13: guest-\w+ is gone": (
        _rules(
            SecurityDecisions,
            "decide_alter_scram_credentials",
            _in_vain(SecurityDecisions.decide_alter_scram_credentials),
        ),
        GUEST,
    ),
    "I13: partition .* was written to, and is gone": (
        _rules(BrokerClients, "partitions", lambda self: []),
        ONE_BROKER,
    ),
    r"I13: \d+ has not what was acknowledged at": (
        _rules(PartitionOracle, "note_acknowledged", _another_was_acknowledged),
        ONE_BROKER,
    ),
}
"""For each thing that a run insists on by itself, a product or a world that does not have it."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_run_complains(kind: str) -> None:
    rules, options = BROKEN[kind]
    seen = set()
    for seed in range(1, 9):
        outcome = run_seed(seed, Plan(base=options, rules=rules, draws_options=False))
        if outcome.violation is not None:
            seen.add(str(outcome.violation))
            if re.match(rf"{kind}\b", str(outcome.violation)):
                return
    raise AssertionError(f"{kind} was not among {seen}")


class TooLate(Check):
    """Has something to say when all is over."""

    def at_end(self, oracle: Oracle) -> None:
        raise Violation("I99", f"{len(oracle.committed)} batches")


def test_checks_that_look_at_all_logs_are_asked_when_a_run_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observer, "load_checks", lambda: [*load_checks(), TooLate()])
    options = Options(voters=1, faults=(), warm_up_ms=2_000, safety_ms=100)
    outcome = run_seed(1, Plan(base=options, draws_options=False))
    assert outcome.violation is not None and outcome.violation.kind == "I99"


def test_an_error_of_a_fault_fails_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_classes()["kill"], "begin", _stumble)
    options = Options(faults=("kill",), safety_ms=1_000)
    outcome = run_seed(1, Plan(base=options, draws_options=False))
    assert str(outcome.violation) == "simulator: KeyError: 'this neither'"


# -- nothing hides what a check has found ----------------------------------------------------------


class Finds(Check):
    """Is not pleased with any image."""

    def image_moved(self, oracle: Oracle, node_id: int, image: Any) -> None:
        raise Violation("I99", f"image {image.offset} of {node_id}")


def test_what_a_check_finds_inside_a_callback_of_the_product_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 94233776 was reported as "not live": the host took the violation for an error of its
    own, and ended its node, which was excused for its disk."""
    monkeypatch.setattr(observer, "load_checks", lambda: [*load_checks(), Finds()])
    monkeypatch.setattr(SimNode, "_has_an_excuse", True)
    outcome = run_seed(1, Plan(base=Options(faults=(), safety_ms=1_000)))
    assert outcome.violation is not None and outcome.violation.kind == "I99"


def test_no_excuse_covers_an_unforeseen_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimNode, "_has_an_excuse", True)
    swallows = _rules(MetadataHost, "catch_up", _stumble)
    for rules, kind in ((Rules(machine=Stumbles), "unhandled"), (swallows, "swallowed")):
        outcome = run_seed(1, Plan(base=Options(faults=()), rules=rules, draws_options=False))
        assert outcome.violation is not None and outcome.violation.kind == kind


def handlers_of_everything() -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Each place of the product that catches what is no Exception either."""
    package = Path(fencepost.__file__).parent
    for part in ("batch", "broker", "log", "machines", "wire"):
        for path in sorted((package / part).rglob("*.py")):
            text = path.read_text()
            may_have_one = "BaseException" in text or "except:" in text
            for node in ast.walk(ast.parse(text)) if may_have_one else ():
                if not isinstance(node, ast.ExceptHandler):
                    continue
                caught = "BaseException" if node.type is None else ast.unparse(node.type)
                if "BaseException" in caught:
                    yield f"{path.relative_to(package)}:{node.lineno}", node


def test_the_product_lets_pass_what_is_no_exception() -> None:
    assert not issubclass(Violation, Exception)
    handlers = dict(handlers_of_everything())
    assert handlers, "there is one, which releases a lock"
    for place, handler in handlers.items():
        last = handler.body[-1]
        assert isinstance(last, ast.Raise) and last.exc is None, place


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


def test_a_corrupt_vote_that_is_believed_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_state, "crc32c", lambda data: 0)
    seen: list[str] = []
    for seed in range(1, 30):
        world = World(Tape(seed), Options(faults=()))
        for node in world.nodes.values():
            node.start()
        world.run_until(3_000_000)
        try:
            fault_classes()["corrupt-quorum-state"](world).act()
        except Violation as violation:
            seen.append(violation.kind)
            break
    assert seen == ["damage"]


def test_every_ablation_is_noticed_somewhere() -> None:
    for name in ablation_names():
        ablation = load_ablation(name)
        assert ablation.scenarios or ablation.is_found_by_search, name


def test_i54_has_nothing_against_what_may_go() -> None:
    look = partition_histories.record
    check = check_of("I54")
    partition_histories.clean(check, [look(0), look(1), look(2, None)], [look(1)])
    gone = look(1)._replace(value=None, may_go=True)
    partition_histories.clean(check, [look(0), gone], [])
    aborted = {1: False}
    partition_histories.clean(check, [look(0), look(1)], [look(0)], outcomes=aborted)


def test_i52_and_i53_have_nothing_against_what_is_right() -> None:
    log = partition_histories.LOG
    for place, broker_id in ((Place.SERVED, 1), (Place.TAKEN_OVER, 2), (Place.READ, NO_BROKER)):
        partition_histories.pass_by(check_of("I52"), place, broker_id, log[2])
    partition_histories.write_down(check_of("I53"), Checkpoints(2, 2, 3), durable_offset=2)


def test_bytes_that_pass_are_compared_with_their_checksum() -> None:
    data = build_batch([(None, b"v")], timestamp_ms=0)
    key = partition_histories.KEY
    assert [one.is_sound for one in passed(Place.READ, NO_BROKER, key, data * 2)] == [True, True]
    data[-1] ^= 1
    assert [one.is_sound for one in passed(Place.READ, NO_BROKER, key, data)] == [False]


def test_i18_lets_a_broker_count_that_was_closed_in_order() -> None:
    come_back(check_of("I18"), with_elr(partition((2,), 2), (1,)), in_order=True)
    come_back(check_of("I18"), partition((2, 3), 2))
