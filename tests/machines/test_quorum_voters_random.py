"""Voters that come, go and lose their disks while everything else goes wrong, too.

As `test_quorum_random`, in a world whose voters change: whatever set is in force where, there is
one leader per epoch, and what is committed stays. In the end everything works again, and the voters
that are left can commit.
"""

from __future__ import annotations

import random

import pytest

from fencepost.machines.quorum import Role
from fencepost.machines.quorum.rules import RULES, QuorumRules

from .quorum_trouble import Trouble, make_peace, over_seeds, start_all
from .voters_world import VotersWorld

SEEDS = 40
EVENTS = 700
EVENTS_OF_PEACE = 20_000


def world_of(rng: random.Random, rules: QuorumRules) -> VotersWorld:
    jitters = {id_: [rng.getrandbits(20) for _ in range(16)] for id_ in range(1, 12)}
    return VotersWorld(
        rng.choice([1, 2, 3, 3, 4]),
        others=rng.choice([1, 2]),
        joins=rng.random() < 0.3,
        rules=rules,
        jitter=lambda node_id: jitters[node_id],
        encoded=rng.random() < 0.1,
        refuses=rng.random() < 0.5,
    )


class VotersTrouble(Trouble):
    """Trouble with voters on top of all other trouble."""

    def __init__(self, rng: random.Random, world: VotersWorld) -> None:
        super().__init__(rng, world)
        self._voters_world = world
        self.reach_for_disks = rng.random() < 0.5
        self._actions += [
            (rng.choice([1.0, 4.0]), self.add),
            (rng.choice([0.5, 3.0]), self.remove),
            (rng.choice([0.0, 0.5]), self.lose_disk),
        ]

    def _leader(self) -> int | None:
        leading = [i for i in self._world.alive() if self._world.machine(i).role is Role.LEADER]
        return self._rng.choice(leading) if leading else None

    def add(self) -> None:
        leader = self._leader()
        if leader is None:
            return
        voters = self._world.machine(leader).voter_set
        others = [i for i in self._world.nodes if voters.get(i) is None]
        if others:
            self._voters_world.add_voter(leader, self._rng.choice(others))

    def remove(self) -> None:
        leader = self._leader()
        if leader is None:
            return
        voters = self._world.machine(leader).voter_set
        lost = [v.key for v in voters.voters if v.id in self._voters_world.lost_disks(voters)]
        if len(voters.voters) > 1:
            key = self._rng.choice(lost or voters.keys)
            self._voters_world.remove_voter(leader, key)

    def lose_disk(self) -> None:
        """A node loses its disk, if each set that is in force anywhere can bear it."""
        world = self._voters_world
        sets = [world.history(node).latest for node in world.nodes.values()]
        known = [s for s in sets if s.voters]
        if any(len(s.voters) < 3 or world.lost_disks(s) for s in known):
            return
        victim = self._rng.choice([*world.nodes])
        if world.nodes[victim].driver is not None:
            world.crash(victim)
        world.wipe(victim)


def run(seed: int, rules: QuorumRules = RULES) -> VotersWorld:
    """One run: trouble, then peace. Raises Violation."""
    rng = random.Random(seed)
    world = world_of(rng, rules)
    start_all(world)
    trouble = VotersTrouble(rng, world)
    for _ in range(EVENTS):
        trouble.step()
    make_peace(world, EVENTS_OF_PEACE)
    return world


def test_invariants_hold_while_voters_come_and_go() -> None:
    over_seeds(run, range(SEEDS))


@pytest.mark.slow
def test_invariants_hold_over_more_seeds() -> None:
    over_seeds(run, range(10_000, 10_100))


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_100, 11_000, 100))
def test_invariants_hold_over_many_seeds(first: int) -> None:
    over_seeds(run, range(first, first + 100))
