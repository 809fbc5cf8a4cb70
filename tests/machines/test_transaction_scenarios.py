"""Failures of history, by their numbers in the catalogue of scenarios, and what each rule prevents.

A scenario plays with a coordinator, its log, and leaders that remember how each transaction ended
in their partition. With the product's rules it holds; with one rule taken away
(`machines.transaction.rules`) it must not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.machines.transaction.epochs import (
    EPOCH_MAX,
    EXHAUSTED,
    NEEDS_PRODUCER_ID,
    Claim,
    Identity,
    NeedsProducerId,
    ended,
    fenced,
)
from fencepost.machines.transaction.model import Transaction, TransactionState
from fencepost.machines.transaction.rules import RULE_NAMES, RULES, TransactionRules
from fencepost.machines.transaction.shard import TIMEOUT_TIMER
from fencepost.wire.errors import ErrorCode
from tests.machines.transaction_world import ID, P0, P1, TIMEOUT_MS, TransactionWorld

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
S = TransactionState


class Leaders:
    """Two partitions: who has written into them, and how it ended there."""

    def __init__(self, world: TransactionWorld) -> None:
        self.world = world
        self.open: dict[object, int] = {}
        """The epoch of the open transaction, by partition."""
        self.outcomes: dict[tuple[object, int], bool] = {}
        """Whether it was committed, by partition and epoch of the records."""

    def write(self, producer: tuple[int, int], *partitions: object) -> None:
        """The producer writes."""
        for one in partitions:
            self.open[one] = producer[1]

    def take(self, sent: Transaction, *partitions: object) -> None:
        """The markers arrive there."""
        for one in partitions:
            if one in self.open:
                key = one, self.open.pop(one)
                assert self.outcomes.setdefault(key, sent.is_committed) is sent.is_committed
        self.world.mark(sent, partitions)  # type: ignore[arg-type]

    def check(self, epoch: int, *partitions: object) -> None:
        """The transaction of that epoch has ended everywhere, in one way."""
        assert not self.open, "a marker has ended every partition's transaction"
        assert len({self.outcomes.get((one, epoch)) for one in partitions}) == 1


def begun(rules: TransactionRules, level: int = 2) -> tuple[TransactionWorld, tuple[int, int]]:
    world = TransactionWorld(rules=rules, level=level)
    return world, world.begun(level)


def s58(rules: TransactionRules) -> None:
    """A delayed EndTxn arrives in the middle of the next transaction."""
    world, first = begun(rules)
    answer = world.end(first, committed=False, version=2)
    world.write_markers()
    second = (answer.producer_id, answer.epoch)
    assert world.add(second, P1, version=2) is NONE
    assert world.end(first, committed=False, version=2).error is FENCED
    assert world.present.state is S.ONGOING and world.present.partitions == {P1}


def s60(rules: TransactionRules) -> None:
    """A delayed AddPartitionsToTxn does not become part of the next transaction."""
    world, first = begun(rules)
    answer = world.end(first, committed=True, version=2)
    world.write_markers()
    assert world.add(first, P1, version=2) is FENCED
    assert world.add((answer.producer_id, answer.epoch), P0, version=2) is NONE
    assert world.add(first, P1, version=2) is FENCED
    assert world.present.partitions == {P0}


def s61(rules: TransactionRules) -> None:
    """The coordinator fails between two markers; the next one has the rest written."""
    world, producer = begun(rules)
    leaders = Leaders(world)
    world.add(producer, P1, version=2)
    leaders.write(producer, P0, P1)
    answer = world.end(producer, committed=True, version=2)
    leaders.take(world.sent.pop(), P1)
    assert world.present.state is S.PREPARE_COMMIT
    world.restart()
    assert len(world.sent) == 1, "the loaded coordinator sends the markers again"
    sent = world.sent.pop()
    leaders.take(sent, P1)  # once more: the leader takes it, and it changes nothing
    leaders.take(sent, P0)
    leaders.check(producer[1], P0, P1)
    assert world.add((answer.producer_id, answer.epoch), P0, version=2) is NONE


def s63(rules: TransactionRules) -> None:
    """The epochs are used up while a transaction is open; a late EndTxn finds its epoch over."""
    for level in (0, 2):
        world = TransactionWorld(rules=rules, level=level)
        world.put(
            Transaction(
                ID, Identity(7, EXHAUSTED, 3, 7), TIMEOUT_MS, S.ONGOING, frozenset({P0}), 5, 6
            )
        )
        assert world.init().error is BUSY
        assert world.sent[0].identity.epoch == EPOCH_MAX
        assert world.end((7, EXHAUSTED), committed=False, version=level).error in (BUSY, FENCED)
        world.write_markers()
        granted = world.init()
        assert granted.error is NONE and granted.producer_id > 1_000
    for level in (0, 2):
        world, producer = begun(rules, level)
        world.init()
        world.write_markers()
        assert world.present.identity.epoch == producer[1] + 1


def s64(rules: TransactionRules) -> None:
    """Two producers of one id: the older one is fenced wherever it turns up."""
    world, zombie = begun(rules)
    world.init()
    world.write_markers()
    granted = world.init()
    producer = (granted.producer_id, granted.epoch)
    for version in (0, 2):
        assert world.add(zombie, P0, version=version) is FENCED
        assert world.end(zombie, committed=True, version=version).error is FENCED
    assert world.verify(zombie, P0) == {P0: FENCED}
    assert world.init(expected=zombie).error is FENCED
    before = (producer[0], producer[1] - 1)
    assert world.add(producer, P0) is NONE
    assert world.end(producer, committed=False).error is NONE
    world.write_markers()
    for committed in (False, True):  # not taken for a repetition, which would hear the epoch
        assert world.end(before, committed=committed, version=2).error is FENCED
    assert world.add(producer, P0) is NONE
    assert world.end(producer, committed=True).error is NONE


def s71(rules: TransactionRules) -> None:
    """Markers cannot be written for long: the decision stays, and no next transaction begins."""
    world, producer = begun(rules)
    leaders = Leaders(world)
    leaders.write(producer, P0)
    answer = world.end(producer, committed=True, version=2)
    after = (answer.producer_id, answer.epoch)
    (sent,) = world.sent
    for _ in range(3):
        assert world.add(after, P0, version=2) is BUSY
        assert world.init().error is BUSY
        assert world.end(after, committed=False, version=2).error is BUSY
        world.restart()
        assert world.present.state is S.PREPARE_COMMIT
    leaders.take(world.sent.pop() if world.sent else sent, P0)
    leaders.check(producer[1], P0)
    assert leaders.outcomes[P0, producer[1]]
    assert world.add(after, P0, version=2) is NONE


def s72(rules: TransactionRules) -> None:
    """The transaction's time is up while its commit is under way: one outcome everywhere."""
    for version, comes_first in ((0, "commit"), (2, "commit"), (0, "timeout"), (2, "timeout")):
        world, producer = begun(rules, version)
        leaders = Leaders(world)
        world.add(producer, P1, version=version)
        leaders.write(producer, P0, P1)
        world.wall_ms += TIMEOUT_MS + 1
        world.carry_out(world.coordinator.decide_timer(TIMEOUT_TIMER, world.wall_ms))
        if comes_first == "commit":
            assert world.end(producer, committed=True, version=version).error is NONE
            leaders.take(world.sent[0], P0)
            assert world.end(producer, committed=False, version=version).error is BUSY
            world.abort_late()
        else:
            world.abort_late()
            leaders.take(world.sent[0], P0)
            assert world.end(producer, committed=True, version=version).error in (BUSY, FENCED)
        assert len(world.sent) == 1
        leaders.take(world.sent.pop(), P1)
        leaders.check(producer[1], P0, P1)
        is_committed = leaders.outcomes[P0, producer[1]]
        answer = world.end(producer, committed=True, version=version)
        assert (answer.error is NONE) is is_committed, "the producer hears what it came to"


SCENARIOS: dict[str, Callable[[TransactionRules], None]] = {
    "S58": s58, "S60": s60, "S61": s61, "S63": s63, "S64": s64, "S71": s71, "S72": s72,
}  # fmt: skip


@pytest.mark.parametrize("number", SCENARIOS)
def test_a_scenario_holds(number: str) -> None:
    SCENARIOS[number](RULES)


class AddsForFormerEpochs(TransactionRules):
    def may_add(self, claim: Claim) -> bool:
        return claim in (Claim.CURRENT, Claim.RETRY)


class EndsForFormerEpochs(TransactionRules):
    def may_end(self, claim: Claim) -> bool:
        return claim in (Claim.CURRENT, Claim.RETRY)


class AgreesWithAnyEnd(TransactionRules):
    def has_ended_so(self, was_committed: bool, committed: bool) -> bool:
        return True


class AbortsWhatIsDecided(TransactionRules):
    def may_time_out(self, transaction: Transaction) -> bool:
        return transaction.is_ending or transaction.state is S.ONGOING


class DoesNotWait(TransactionRules):
    def must_wait(self, transaction: Transaction) -> bool:
        return False


class BumpsTwice(TransactionRules):
    """KAFKA-19367."""

    def fence(
        self, identity: Identity, server_version: int, fresh: int | None
    ) -> Identity | NeedsProducerId:
        if identity.is_exhausted and fresh is None and server_version >= 2:
            return NEEDS_PRODUCER_ID
        return ended(fenced(identity), fresh if fresh is not None else 1)


class IsOverAtTheFirstMarker(TransactionRules):
    def is_over(self, transaction: Transaction) -> bool:
        return True


class SendsNothingAgain(TransactionRules):
    def is_resent(self, transaction: Transaction) -> bool:
        return False


ABLATIONS = [
    ("may_add", AddsForFormerEpochs(), ("S60",)),
    ("may_end", EndsForFormerEpochs(), ("S58",)),
    ("has_ended_so", AgreesWithAnyEnd(), ("S72",)),
    ("may_time_out", AbortsWhatIsDecided(), ("S72",)),
    ("must_wait", DoesNotWait(), ("S71", "S72")),
    ("fence", BumpsTwice(), ("S63",)),
    ("is_over", IsOverAtTheFirstMarker(), ("S61", "S72")),
    ("is_resent", SendsNothingAgain(), ("S61",)),
]


@pytest.mark.parametrize(
    ("rules", "number"),
    [
        pytest.param(rules, number, id=f"{name}-{number}")
        for name, rules, numbers in ABLATIONS
        for number in numbers
    ],
)
def test_without_a_rule_a_scenario_fails(rules: TransactionRules, number: str) -> None:
    with pytest.raises(AssertionError):
        SCENARIOS[number](rules)


def test_every_rule_is_taken_away_once() -> None:
    assert set(RULE_NAMES) == {name for name, *_ in ABLATIONS}
