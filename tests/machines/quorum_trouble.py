"""What random runs of quorums have in common: trouble drawn from a seed, then peace.

A run that breaks an invariant raises Violation, and `over_seeds` says of which seed it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from fencepost.machines.quorum import QuorumMachine, Role

from .quorum_checks import Violation
from .quorum_world import World


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


def machines(world: World) -> list[QuorumMachine]:
    """The machines of the nodes that are up."""
    return [world.machine(id_) for id_ in world.alive()]


def start_all(world: World) -> None:
    """Start whoever is down."""
    for id_ in world.nodes:
        if id_ not in world.alive():
            world.start(id_)


def make_peace(world: World, most: int = 5_000) -> None:
    """Repair all that is broken: within `most` events a leader commits, and nothing was lost."""
    world.blocked.clear()
    start_all(world)
    world.run(lambda: world.leader() is not None, most)
    world.run(world.has_converged, most)
    leader = world.leader()
    assert leader is not None
    world.append(leader, "the end;")
    world.run(lambda: "the end;" in world.outcomes and world.has_converged(), most)
    failures = {i: n.failed for i, n in world.nodes.items() if n.failed}
    if failures:
        raise Violation(f"nodes gave up: {failures}")
    world.check_logs()
    world.check_promises()


def over_seeds(run: Callable[[int], object], seeds: Iterable[int]) -> None:
    """A run of each seed."""
    for seed in seeds:
        try:
            run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
