"""Worlds with transactional producers: they do what they are there for, and are drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fencepost.machines.coordinator import TimerName
from fencepost.machines.partition.inputs import Isolation
from fencepost.machines.transaction import coordinator
from fencepost.machines.transaction.partitions import add_waiting
from fencepost.machines.transaction.shard import Decision, Shard
from fencepost.runtime.transactions import TRANSACTION_VERSION
from fencepost.sim import options as options_of_seeds
from fencepost.sim.options import Options, draw_options
from fencepost.sim.run import Plan, Run
from fencepost.sim.tape import Tape
from fencepost.wire.errors import ErrorCode

from .test_brokers import SMALL


def run_small(seed: int, **options: Any) -> Run:
    """A world with two transactors that has come to a good end."""
    base = replace(SMALL, transactors=2, **options)
    run = Run(Tape(seed), Plan(base=base, draws_options=False))
    run.go()
    return run


def test_transactions_commit_and_abort_records_and_offsets() -> None:
    world = run_small(3, transact_every_ms=60).world
    all_ = world.observer.oracle.transactions.all
    told = Counter((one.bumps, one.told) for one in all_)
    assert all(told[bumps, ended] > 1 for bumps in (True, False) for ended in (True, False)), told
    assert any(one.offsets and one.told for one in all_)
    assert any(len(one.outcomes) > 1 for one in all_)
    outcomes = world.observer.oracle.transactions.outcomes.values()
    assert {outcome for of in outcomes for outcome in of.values()} == {True, False}
    isolations = [consumer.isolation for consumer in world.clients.consumers]
    assert isolations == [Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED]


@pytest.mark.parametrize("level", [0, 1])
def test_older_levels_have_transactions_of_version_1_alone(level: int) -> None:
    world = run_small(3, transaction_version=level, on_wire=level == 1).world
    image = world.observer.committed_image
    assert image.features.get(TRANSACTION_VERSION, 0) == level
    all_ = world.observer.oracle.transactions.all
    assert any(one.told for one in all_) and not any(one.bumps for one in all_)


def test_transactions_survive_what_kills_brokers_and_travel_at_drawn_versions() -> None:
    world = run_small(2, on_wire=True, faults=("kill", "power-loss"), safety_ms=8_000).world
    assert any(one.told for one in world.observer.oracle.transactions.all)


def test_transactors_are_drawn_in_some_worlds_and_leave_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    assert {options.transactors for options in drawn if not options.brokers} == {0}
    having = [options for options in drawn if options.transactors]
    assert 20 < len(having) < 50, "about every third world of those with brokers"
    assert {options.transactors for options in having} == {1, 2, 3}
    assert {options.transaction_version for options in having} == {0, 1, 2}
    monkeypatch.setattr(options_of_seeds, "_draw_transactors", lambda tape, base: base)
    defaults = Options()
    without = replace(
        having[0],
        transactors=0,
        transaction_version=defaults.transaction_version,
        producers=defaults.producers,
    )
    assert draw_options(Tape(drawn.index(having[0]))) == without, "a lane of their own"


def test_the_next_transaction_waits_for_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some begin right behind an end: when it is complete, or after a while, they are answered."""
    answers: set[ErrorCode] = set()

    def seen(shard: Shard, name: TimerName, wall_ms: int) -> Decision:
        decision = add_waiting(shard, name, wall_ms)
        answers.update(error for _, error in decision.replies)
        return decision

    monkeypatch.setattr(coordinator, "add_waiting", seen)
    for seed in range(3, 10):
        run_small(seed, transact_every_ms=10)
        if answers >= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}:
            break
    assert answers >= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
