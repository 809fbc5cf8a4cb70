"""Quorums under random trouble: whatever order things happen in, the invariants hold.

Each run is a function of its seed. It has two phases: everything may go wrong (messages late, lost
or twice, one-way partitions, crashes that lose what was not flushed), then nothing does, and the
quorum must elect a leader, commit, and agree. `World` checks after every step.
"""

from __future__ import annotations

import random

import pytest

from fencepost.machines.quorum import Role
from fencepost.machines.quorum.rules import RULES, QuorumRules, VoteFacts

from .quorum_trouble import Trouble, machines, make_peace, over_seeds, start_all
from .quorum_world import World

SEEDS_PER_SIZE = 100
EVENTS = 600


def world_of(rng: random.Random, voters: int, rules: QuorumRules) -> World:
    jitters = {id_: [rng.getrandbits(20) for _ in range(16)] for id_ in range(1, 12)}
    observers = rng.randrange(2)
    drafts: dict[int, int] = {}
    takes_snapshots = rng.random() < 0.6
    if not takes_snapshots:  # who speaks the draft cannot load one
        drafts = {i: rng.randrange(2) for i in range(1, voters + observers) if rng.random() < 0.3}
    return World(
        voters,
        observers=observers,
        rules=rules,
        jitter=lambda node_id: jitters[node_id],
        encoded=rng.random() < 0.1,
        snapshot_max_bytes=rng.choice([64, 500, 1 << 20]),
        retention_bytes=rng.choice([0, 600, 3_000]) if takes_snapshots else 1 << 30,
        drafts=drafts,
        refuses=rng.random() < 0.5,
    )


def run(seed: int, voters: int, rules: QuorumRules = RULES) -> World:
    """One run: trouble, then peace. Raises Violation."""
    rng = random.Random(seed * 10 + voters)
    world = world_of(rng, voters, rules)
    start_all(world)
    trouble = Trouble(rng, world)
    for _ in range(EVENTS):
        trouble.step()
    make_peace(world)
    return world


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_invariants_hold_and_quorums_recover(voters: int) -> None:
    over_seeds(lambda seed: run(seed, voters), range(SEEDS_PER_SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("voters", [2, 3, 4, 5])
def test_invariants_hold_over_more_seeds(voters: int) -> None:
    over_seeds(lambda seed: run(seed, voters), range(1_000, 1_050))


@pytest.mark.long
@pytest.mark.parametrize("voters", [2, 3, 4, 5])
def test_invariants_hold_over_many_seeds(voters: int) -> None:
    over_seeds(lambda seed: run(seed, voters), range(1_050, 1_250))


def test_runs_are_not_idle() -> None:
    """The runs do what they are for: they elect, commit, and lose unflushed batches."""
    worlds = [run(seed, 3) for seed in range(20)]
    assert sum(len(world.committed) for world in worlds) > 200
    assert max(max(m.epoch for m in machines(world)) for world in worlds) > 5
    assert any(outcome.error for world in worlds for outcome in world.outcomes.values())


def test_one_seed_is_one_world() -> None:
    first, second = run(7, 3), run(7, 3)
    assert first.committed == second.committed
    assert first.describe() == second.describe()
    assert first.now_ms == second.now_ms


class CommitsWithoutDisk(QuorumRules):
    """A leader that counts its own log before it is flushed."""

    def counts_as_durable(self, durable_end_offset: int, end_offset: int) -> int:
        return end_offset


class VotesTwice(QuorumRules):
    """A voter that forgets whom it has voted for."""

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        leads = facts.state.leader_id >= 0 or facts.role is Role.LEADER
        return not leads and facts.log_is_long_enough


class IgnoresLogs(QuorumRules):
    """A voter that votes for candidates whose logs are behind its own."""

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        return super().may_grant_vote(facts._replace(log_is_long_enough=True))

    def may_grant_pre_vote(self, facts: VoteFacts) -> bool:
        return super().may_grant_pre_vote(facts._replace(log_is_long_enough=True))


@pytest.mark.parametrize("broken", [CommitsWithoutDisk, VotesTwice, IgnoresLogs])
def test_the_tester_notices_a_broken_quorum(broken: type[QuorumRules]) -> None:
    """Canaries: the net is fine enough to catch these within two hundred seeds."""
    for seed in range(200):
        try:
            run(seed, 3, broken())
        except AssertionError:
            return
    pytest.fail(f"{broken.__name__} went unnoticed")
