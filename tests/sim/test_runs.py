"""Whole runs: they are what their seed says, they find bugs, and they shrink them."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.faults import fault_classes
from fencepost.sim.ledger import Ledger
from fencepost.sim.options import Options, draw_options
from fencepost.sim.pool import run_seeds
from fencepost.sim.recording import read_recording, replay_recording
from fencepost.sim.run import Outcome, Plan, replay, run_seed
from fencepost.sim.search import search
from fencepost.sim.shrink import Shrinker
from fencepost.sim.tape import Tape

QUICK_SEEDS = (1, 2, 5, 10, 12, 13, 14, 16, 17, 18, 19, 20)
"""Of the first twenty those that take the least; every fault strikes in one of them."""
SLOWER_SEEDS = sorted(set(range(1, 21)) - set(QUICK_SEEDS))
MANY_SEEDS = range(10_000, 10_075)
MANY_AT_ONCE = 5
SEARCH_WITHIN = 60
OF_BROKERS = {"lost-disk"}
"""Faults that need brokers with several replicas."""

FINGERPRINTS = """
from fencepost.sim.run import Plan, run_seed
print(*(run_seed(seed, Plan()).fingerprint for seed in (2, 16, 96)))
"""


def check(outcome: Outcome) -> None:
    assert outcome.violation is None, (
        f"seed {outcome.seed}: {outcome.violation}; see it with"
        f" `fencepost sim replay {outcome.seed} --words`"
    )


@pytest.mark.slow
def test_nothing_goes_wrong() -> None:
    ledger = Ledger()
    for outcome in run_seeds(QUICK_SEEDS, Plan()):
        ledger.add(outcome)
        check(outcome)
    assert set(ledger.faults) == set(fault_classes()), "every fault has struck"
    assert ledger.epochs > 3 * ledger.seeds, "leaders have fallen"
    assert ledger.acked > 50 * ledger.seeds, "and writes were done all the same"
    assert ledger.on_wire and ledger.dynamic


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds",
    [SLOWER_SEEDS, *(range(one, one + MANY_AT_ONCE) for one in MANY_SEEDS[::MANY_AT_ONCE])],
    ids=lambda seeds: str(seeds[0]),
)
def test_nothing_goes_wrong_in_many_seeds(seeds: Sequence[int]) -> None:
    for outcome in run_seeds(seeds, Plan()):
        check(outcome)


@pytest.mark.slow
def test_a_seed_is_one_world_whatever_the_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4711")
    }
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 3, "and other seeds are other worlds"


@pytest.mark.parametrize("seed", [12, 97], ids=["controllers", "brokers"])
def test_nothing_but_the_tape_is_asked(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Neither chance nor the time of this world, anywhere in the product that runs in the other.

    In worlds in which no error is logged: a line of a log has the time of this world.
    """

    here = threading.get_ident()

    def asked_by_others_only(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            assert threading.get_ident() != here, "this is not on the tape"
            return original(*arguments)

        return ask

    for module, names in {
        random: ("random", "randrange", "randint", "choice", "shuffle", "getrandbits", "uniform"),
        os: ("urandom",),
        uuid: ("uuid1", "uuid4"),
        time: ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, asked_by_others_only(getattr(module, name)))
    outcome = run_seed(seed, Plan())
    monkeypatch.undo()
    check(outcome)
    assert run_seed(seed, Plan()).fingerprint == outcome.fingerprint


def test_a_recorded_tape_replays_to_the_same_world() -> None:
    outcome = run_seed(96, Plan(keeps_tape=True))
    assert outcome.tape is not None
    assert replay(96, outcome.tape, Plan()).fingerprint == outcome.fingerprint


def test_reading_along_changes_nothing() -> None:
    lines: list[str] = []
    assert run_seed(5, Plan(), lines.append).fingerprint == run_seed(5, Plan()).fingerprint
    assert len(lines) > 100


def test_a_tape_of_zeros_is_a_world_without_trouble() -> None:
    outcome = replay(0, {}, Plan())
    check(outcome)
    assert outcome.faults == {}
    assert outcome.elections <= 2


@pytest.mark.slow
def test_several_processes_run_the_same_worlds() -> None:
    plan = Plan(base=Options(faults=("kill",), warm_up_ms=3_000))
    seeds = (2, 96, 16)  # short ones: controllers alone, with brokers, and all on the wire
    alone = {o.seed: o.fingerprint for o in run_seeds(seeds, plan)}
    together = {o.seed: o.fingerprint for o in run_seeds(seeds, plan, jobs=2)}
    assert together == alone


def test_options_are_drawn_and_sizes_differ() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(200)]
    assert {options.voters for options in drawn} == {1, 2, 3, 4, 5}
    assert {options.observers for options in drawn} == {0, 1, 2}
    on_wire = sum(options.on_wire for options in drawn)
    assert 8 < on_wire < 40, "about one in ten"


def test_a_new_fault_disturbs_only_the_seeds_that_draw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(base=Options(warm_up_ms=3_000, safety_ms=2_000))
    seeds = range(16, 21)
    before = {seed: run_seed(seed, plan) for seed in seeds}
    classes = {"gremlins": fault_classes()["kill"], **fault_classes()}
    monkeypatch.setattr("fencepost.sim.run.fault_classes", lambda: classes)
    draw_it = {seed for seed in seeds if Tape(seed).lane("has.gremlins").pick(2)}
    assert 0 < len(draw_it) < len(seeds)
    for seed in set(seeds) - draw_it:
        assert run_seed(seed, plan).fingerprint == before[seed].fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(fault_classes()))
def test_each_fault_alone_strikes_and_is_survived(name: str) -> None:
    struck = 0
    for seed in range(1, 21):
        if struck:
            break  # those that are rare take more seeds
        base = Options(
            faults=(name,),
            is_dynamic=True,
            observers=1,
            safety_ms=40_000,
            brokers=3 if name in OF_BROKERS else 0,
            replicas=3 if name in OF_BROKERS else 1,
        )
        outcome = run_seed(seed, Plan(base=base, draws_options=False))
        check(outcome)
        struck += outcome.faults.get(name, 0)
    assert struck


def test_a_few_seeds_in_a_second_or_so() -> None:
    plan = Plan(base=Options(safety_ms=5_000, warm_up_ms=4_000), draws_options=False)
    struck = 0
    for seed in range(1, 9):
        outcome = run_seed(seed, plan)
        check(outcome)
        struck += sum(outcome.faults.values())
    assert struck > 20


# -- finding bugs ----------------------------------------------------------------------------------


SEARCHED = [name for name in ablation_names() if load_ablation(name).is_found_by_search]


@pytest.mark.long
@pytest.mark.parametrize("name", SEARCHED)
def test_old_bugs_are_found_by_search_alone(name: str) -> None:
    """Where the canary, a voter that votes twice, goes unnoticed, the simulator is broken."""
    found = search(load_ablation(name), SEARCH_WITHIN)
    assert found.seeds is not None, found.says


def test_ablations_say_what_they_are() -> None:
    for name in ablation_names():
        ablation = load_ablation(name)
        assert ablation.says
        assert not ablation.says.endswith(".")
        assert ablation.is_found_by_search or ablation.scenarios


# -- shrinking -------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_planted_bug_shrinks_to_few_events() -> None:
    base = Options(faults=("kill", "one-way-cut", "pause"), safety_ms=20_000, warm_up_ms=4_000)
    rules = load_ablation("grants-two-votes").rules
    plan = Plan(base=base, rules=rules, draws_options=False, ablation="grants-two-votes")
    seed = next(s for s in range(1, SEARCH_WITHIN) if run_seed(s, plan).violation is not None)
    said: list[str] = []
    shrunk = Shrinker(seed, plan, said.append, most=200).shrink()
    assert shrunk.kind == "I22"
    assert said, "it tells how it gets on"
    assert shrunk.events < shrunk.events_before
    assert shrunk.choices <= 20, "the rest of the world's luck did not matter"
    recording = read_recording(json.dumps(shrunk.recording.as_json()))
    again = replay_recording(recording)
    assert recording.is_outcome(again)
    assert again.events == shrunk.events


def test_a_seed_that_does_not_fail_cannot_be_shrunk() -> None:
    plan = Plan(base=Options(faults=()))
    with pytest.raises(ValueError, match="seed 17 does not fail"):
        Shrinker(17, plan)


def test_a_run_leaves_the_logging_as_it_was() -> None:
    logger = logging.getLogger("fencepost")
    level = logger.level
    run_seed(1, Plan())
    assert logger.level == level
