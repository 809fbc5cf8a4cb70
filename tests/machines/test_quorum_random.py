"""Quorums under random trouble: whatever order things happen in, the invariants hold.

Each run is a function of its seed. It has two phases: everything may go wrong (messages late, lost
or twice, one-way partitions, crashes that lose what was not flushed), then nothing does, and the
quorum must elect a leader, commit, and agree. `World` checks after every step.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.machines.quorum.roles import Leader

from .quorum_checks import Violation
from .quorum_world import World

SEEDS_PER_SIZE = 100
EVENTS = 600


def world_of(rng: random.Random, voters: int, machine_class: type[QuorumMachine]) -> World:
    jitters = {id_: [rng.getrandbits(20) for _ in range(16)] for id_ in range(1, 12)}
    observers = rng.randrange(2)
    drafts: dict[int, int] = {}
    takes_snapshots = rng.random() < 0.6
    if not takes_snapshots:  # who speaks the draft cannot load one
        drafts = {i: rng.randrange(2) for i in range(1, voters + observers) if rng.random() < 0.3}
    return World(
        voters,
        observers=observers,
        machine_class=machine_class,
        jitter=lambda node_id: jitters[node_id],
        encoded=rng.random() < 0.1,
        snapshot_max_bytes=rng.choice([64, 500, 1 << 20]),
        retention_bytes=rng.choice([0, 600, 3_000]) if takes_snapshots else 1 << 30,
        drafts=drafts,
        refuses=rng.random() < 0.5,
    )


class Trouble:
    """Draws what happens next, with weights that differ from run to run."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self._rng = rng
        self._world = world
        self._count = 0
        self._actions = [
            (60.0, self.deliver),
            (12.0, self.flush),
            (rng.choice([3.0, 10.0, 25.0]), self.time_passes),
            (10.0, self.append),
            (rng.choice([0.0, 3.0, 9.0]), self.drop),
            (rng.choice([0.0, 3.0]), self.duplicate),
            (rng.choice([0.0, 1.0, 2.5]), self.crash),
            (3.0, self.restart),
            (rng.choice([0.0, 0.5]), self.cut_or_mend),
            (20.0, self.install),
        ]
        if world.retention_bytes < 1 << 30:
            self._actions += [
                (rng.choice([0.5, 2.0, 6.0]), self.snapshot),
                (rng.choice([0.0, 0.3]), self.rot),
                (rng.choice([0.0, 0.1]), self.rot_snapshot),
            ]

    def step(self) -> None:
        weights = [weight for weight, _ in self._actions]
        self._rng.choices([action for _, action in self._actions], weights)[0]()

    def deliver(self) -> None:
        if self._world.flights:
            # Mostly in order, as connections are; sometimes a message overtakes all others.
            late = self._rng.random() < 0.2
            flight = self._rng.choice(self._world.flights) if late else self._world.flights[0]
            self._world.deliver(flight)

    def drop(self) -> None:
        if self._world.flights:
            self._world.drop(self._rng.choice(self._world.flights), self._rng.random() < 0.7)

    def duplicate(self) -> None:
        if self._world.flights:
            self._world.hand_over(self._rng.choice(self._world.flights))

    def flush(self) -> None:
        waiting = [i for i in self._world.alive() if self._world.nodes[i].wants_flush]
        if waiting:
            self._world.flush(self._rng.choice(waiting))

    def time_passes(self) -> None:
        timers = [
            (deadline, id_, name)
            for id_ in self._world.alive()
            for name, deadline in self._world.nodes[id_].timers.items()
        ]
        if timers:
            _, id_, name = min(timers)
            self._world.fire(id_, name)

    def append(self) -> None:
        leaders = [i for i in self._world.alive() if self._world.machine(i).role is Role.LEADER]
        if leaders:
            self._count += 1
            self._world.append(self._rng.choice(leaders), f"record {self._count};")

    def install(self) -> None:
        waiting = [i for i in self._world.alive() if self._world.nodes[i].wants_install]
        if waiting and self._rng.random() < 0.1:
            self._world.crash_installing(self._rng.choice(waiting))
        elif waiting:
            self._world.install(self._rng.choice(waiting))

    def snapshot(self) -> None:
        alive = [i for i in self._world.alive() if self._world.machine(i).role is not Role.FAILED]
        wanting = [i for i in alive if self._world.can_heal(i)]
        if alive:
            self._world.take_snapshot(self._rng.choice(wanting or alive))

    def rot(self) -> None:
        """A batch of one log rots. A log that is damaged, or short of what it had promised, is as
        good as a voter that is gone for good: there is one at a time, and none of two."""
        world = self._world
        if len(world.voters) == 2 or any(node.log.rotten for node in world.nodes.values()):
            return
        if any(is_short(machine) for machine in machines(world)):
            return
        for id_ in self._rng.sample(world.alive(), len(world.alive())):
            end = world.machine(id_).high_watermark if len(world.voters) == 1 else 1 << 60
            batches = [e.base_offset for e in world.nodes[id_].log.entries if e.base_offset < end]
            if batches and world.nodes[id_].wants_install is None:
                world.rot(id_, self._rng.choice(batches))
                if len(world.voters) == 1:  # it must be quick: nobody else has the batch
                    world.scrub(id_)
                    if world.can_heal(id_):
                        world.take_snapshot(id_)
                elif self._rng.random() < 0.5:
                    world.scrub(id_)
                return

    def rot_snapshot(self) -> None:
        having = [i for i, node in self._world.nodes.items() if node.log.snapshots.files]
        loaded = any(node.log.snapshots.partial for node in self._world.nodes.values())
        if having and loaded:
            self._world.rot_snapshot(self._rng.choice(having))

    def crash(self) -> None:
        alive = [i for i in self._world.alive() if not is_short(self._world.machine(i))]
        if alive:
            victim = self._rng.choice(alive)
            unflushed = sum(
                entry.next_offset > self._world.nodes[victim].log.durable_offset
                for entry in self._world.nodes[victim].log.entries
            )
            self._world.crash(victim, keep=self._rng.randint(0, unflushed))

    def restart(self) -> None:
        down = [i for i in self._world.nodes if i not in self._world.alive()]
        if down:
            self._world.start(self._rng.choice(down))

    def cut_or_mend(self) -> None:
        if self._world.blocked and self._rng.random() < 0.5:
            self._world.blocked.clear()
        else:
            a, b = self._rng.choice([*self._world.nodes]), self._rng.choice([*self._world.nodes])
            self._world.blocked.add((a, b))


def is_short(machine: QuorumMachine) -> bool:
    """Whether it has cut off what it had told others it holds, and not got it back yet."""
    return machine.state.promised > machine._log_end


def run(seed: int, voters: int, machine_class: type[QuorumMachine] = QuorumMachine) -> World:
    """One run: trouble, then peace. Raises Violation."""
    rng = random.Random(seed * 10 + voters)
    world = world_of(rng, voters, machine_class)
    for id_ in world.nodes:
        world.start(id_)
    trouble = Trouble(rng, world)
    for _ in range(EVENTS):
        trouble.step()
    world.blocked.clear()
    for id_ in world.nodes:
        if id_ not in world.alive():
            world.start(id_)
    world.run(lambda: world.leader() is not None)
    world.run(world.has_converged)
    leader = world.leader()
    assert leader is not None
    world.append(leader, "the end;")
    world.run(lambda: "the end;" in world.outcomes and world.has_converged())
    failures = {i: n.failed for i, n in world.nodes.items() if n.failed}
    if failures:
        raise Violation(f"nodes gave up: {failures}")
    world.check_logs()
    world.check_promises()
    return world


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_invariants_hold_and_quorums_recover(voters: int) -> None:
    for seed in range(SEEDS_PER_SIZE):
        try:
            run(seed, voters)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {voters} voters: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("voters", [2, 3, 4, 5])
def test_invariants_hold_over_many_seeds(voters: int) -> None:
    for seed in range(1_000, 1_250):
        try:
            run(seed, voters)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {voters} voters: {error}") from error


def test_runs_are_not_idle() -> None:
    """The runs do what they are for: they elect, commit, and lose unflushed batches."""
    worlds = [run(seed, 3) for seed in range(20)]
    assert sum(len(world.committed) for world in worlds) > 200
    assert max(max(m.epoch for m in machines(world)) for world in worlds) > 5
    assert any(outcome.error for world in worlds for outcome in world.outcomes.values())


def machines(world: World) -> list[QuorumMachine]:
    return [world.machine(id_) for id_ in world.alive()]


def test_one_seed_is_one_world() -> None:
    first, second = run(7, 3), run(7, 3)
    assert first.committed == second.committed
    assert first.describe() == second.describe()
    assert first.now_ms == second.now_ms


class CommitsWithoutDisk(QuorumMachine):
    """A leader that counts its own log before it is flushed."""

    def _maybe_commit(self, leader: Leader) -> None:
        self._durable_end_offset = self._end_offset
        super()._maybe_commit(leader)


class VotesTwice(QuorumMachine):
    """A voter that forgets whom it has voted for."""

    def _may_vote_for(self, candidate_id: int, directory_id: Any, log_is_enough: bool) -> bool:
        return self._state.leader_id < 0 and self.role is not Role.LEADER and log_is_enough


class IgnoresLogs(QuorumMachine):
    """A voter that votes for candidates whose logs are behind its own."""

    @property
    def _vote_floor(self) -> tuple[int, int]:
        return (0, 0)


@pytest.mark.parametrize("broken", [CommitsWithoutDisk, VotesTwice, IgnoresLogs])
def test_the_tester_notices_a_broken_quorum(broken: type[QuorumMachine]) -> None:
    """Canaries: the net is fine enough to catch these within two hundred seeds."""
    for seed in range(200):
        try:
            run(seed, 3, broken)
        except AssertionError:
            return
    pytest.fail(f"{broken.__name__} went unnoticed")
