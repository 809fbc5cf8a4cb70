"""One seed from its beginning to its end: warm-up, trouble, healing, and what must then be true.

Warm-up: all is well, and a leader is found. Safety: the faults that the seed has drawn strike;
nothing but the checks is asked for. Heal: every fault stops, every node that is down is started.
Liveness: a leader is found within two election timeouts of the last that a node can spend on the
trouble it knows of, requests are answered in time, and all nodes come to hold the same log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.machines import probes
from fencepost.sim.brokers.cleaners import Cleaners
from fencepost.sim.faults import Fault, fault_classes
from fencepost.sim.node import SimNode
from fencepost.sim.options import Options, draw_options
from fencepost.sim.oracle import Violation
from fencepost.sim.product_log import unforeseen_errors_fail
from fencepost.sim.rules import Rules
from fencepost.sim.tape import Tape
from fencepost.sim.world import World
from fencepost.views.simulation import ReplayedSeed


@dataclass(slots=True)
class Outcome:
    """What a run came to. `violation` None means that everything held."""

    seed: int
    fingerprint: str
    events: int
    simulated_us: int
    violation: Violation | None = None
    faults: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    committed: int = 0
    elections: int = 0
    acked: int = 0
    refused: int = 0
    options: Options | None = None
    tape: dict[str, list[int]] | None = None
    cpu_seconds: float = 0.0

    def view(self) -> ReplayedSeed:
        """It as it is shown."""
        return ReplayedSeed(
            seed=self.seed,
            violation=None if self.violation is None else str(self.violation),
            events=self.events,
            simulated_seconds=self.simulated_us / 1_000_000,
            fingerprint=self.fingerprint,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run a seed: by which rules, with what given by hand instead of drawn.

    `ablation` is the name of the rules that are not the product's.
    """

    base: Options = field(default_factory=Options)
    rules: Rules = field(default_factory=Rules)
    draws_options: bool = True
    keeps_tape: bool = False
    ablation: str | None = None


def draw_faults(tape: Tape, options: Options) -> tuple[str, ...]:
    """The faults that are on: a random subset, so that no two hide each other for good.

    Each is asked for in a lane of its own: a fault that is new disturbs only the worlds it is in.
    """
    if options.faults is None:
        drawn = [name for name in fault_classes() if tape.lane(f"has.{name}").pick(2)]
    else:
        drawn = [name for name in fault_classes() if name in options.faults]
    return tuple(name for name in drawn if name not in options.faults_off)


class Run:
    """One world and its phases."""

    def __init__(self, tape: Tape, plan: Plan, tell: Callable[[str], None] | None = None) -> None:
        options = draw_options(tape, plan.base) if plan.draws_options else plan.base
        options = replace(options, faults=draw_faults(tape, options))
        self.world = World(tape, options, rules=plan.rules, tell=tell)
        self.faults = self._make_faults()

    def _make_faults(self) -> list[Fault]:
        """The faults of this world, but for those that it cannot have."""
        named = self.world.options.faults or ()
        faults = [kind(self.world) for name, kind in fault_classes().items() if name in named]
        return [fault for fault in faults if fault.fits()]

    def go(self) -> None:
        """All phases. Raises Violation."""
        world, options = self.world, self.world.options
        for node in world.nodes.values():
            node.start()
        world.workload.begin()
        world.administrator.begin()
        world.clients.begin()
        if options.compacts:
            Cleaners(world).begin()
        world.run_until(options.warm_up_ms * 1_000)
        if not world.observer.oracle.committed:
            raise Violation("liveness-start", "no leader was found although nothing was wrong")
        world.tell(lambda: f"faults: {', '.join(fault.name for fault in self.faults) or 'none'}")
        for fault in self.faults:
            fault.begin()
        world.run_until(world.now_us + options.safety_ms * 1_000)
        self._heal()
        self._liveness()
        world.observer.at_end()

    def _heal(self) -> None:
        world = self.world
        world.tell(lambda: "all is well again")
        for fault in self.faults:
            fault.end()
        world.network.heal()
        for node in world.nodes.values():
            node.resume()
            if node.is_up and node.gave_up is not None:
                node.kill()
            if not node.is_up:
                node.start()

    def _liveness(self) -> None:
        world, options = self.world, self.world.options
        if options.over_budget and world.has_lost_a_quorum():
            world.run_until(world.now_us + options.liveness_ms * 1_000)
            return  # without a quorum all that is required is that nodes do not disagree
        # A node may just have sent a request, and just heard from a leader that is none any more.
        knows_of_us = 1_000 * (options.request_timeout_ms + options.fetch_timeout_ms * 3 // 2)
        elects_us = 2 * 2 * 1_000 * options.election_timeout_ms
        limit_us = world.now_us + knows_of_us + elects_us
        if not world.run_while(lambda: not self._has_leader(), limit_us):
            raise Violation("liveness-leader", f"no leader is found: {world.describe()}")
        limit_us = world.now_us + options.liveness_ms * 1_000
        if not world.run_while(lambda: not self._has_converged(), limit_us):
            raise Violation("liveness-logs", f"nodes do not come together: {world.describe()}")
        overdue = [asked for asked in world.workload.waiting if self._is_overdue(asked.at_us)]
        if overdue:
            what = f"{overdue[0].name} has no answer: {world.describe()}"
            raise Violation("liveness-answers", what)
        leader = world.leader()
        assert leader is not None, "nodes that have come together have a leader"
        world.workload.check_promises(leader.metadata.image)
        world.administrator.check_promises(leader.metadata.image)
        self._brokers_are_well()

    def _brokers_are_well(self) -> None:
        """Brokers are unfenced, partitions led and in sync, and clients are done."""
        world = self.world
        if not world.brokers:
            return
        world.clients.close()
        limit_us = world.now_us + world.options.liveness_ms * 1_000
        if not world.run_while(lambda: world.clients.trouble() is not None, limit_us):
            raise Violation("liveness-brokers", f"{world.clients.trouble()}: {world.describe()}")
        world.clients.check_promises()

    def _is_overdue(self, at_us: int) -> bool:
        return self.world.now_us - at_us > 30_000_000

    def _has_leader(self) -> bool:
        leader = self.world.leader()
        return leader is not None and leader.machine.is_active_leader

    def _has_converged(self) -> bool:
        """Every node follows one leader and holds everything for committed that it has."""
        leader = self.world.leader()
        if leader is None or not leader.machine.is_active_leader:
            return False
        end_offset = leader.machine.high_watermark
        return all(
            node.is_up
            and node.machine.leader_id == leader.id
            and node.machine.high_watermark == end_offset
            and node.metadata.image.offset == end_offset - 1
            for node in self.world.nodes.values()
            if not self._is_beyond_help(node)
        )

    def _is_beyond_help(self, node: SimNode) -> bool:
        """Whether a disk is so damaged that its node will not start on it."""
        is_down = not node.is_up or node.gave_up is not None
        return is_down and self.world.observer.oracle.disks[node.id].is_damaged


def run_tape(tape: Tape, plan: Plan, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run what is on a tape; a violation is part of the outcome.

    So is what the simulator itself, or a fault, raises: a run of many seeds reports which seed it
    was.
    """
    probes.reset()
    began = time.process_time()
    run = Run(tape, plan, tell)
    violation = None
    try:
        with unforeseen_errors_fail(), plan.rules.in_force():
            run.go()
    except Violation as found:
        violation = found
    except Exception as error:  # noqa: BLE001 - the seed fails with it
        violation = Violation("simulator", f"{type(error).__name__}: {error}")
        violation.__cause__ = error
    world = run.world
    if violation is not None:
        told = f"VIOLATION {violation}"
        world.tell(lambda: told)
        world.trace.note(str(violation))
    return Outcome(
        seed=tape.seed,
        fingerprint=world.trace.fingerprint(),
        events=world.trace.events,
        simulated_us=world.now_us,
        violation=violation,
        faults=dict(world.fault_counts),
        probes=probes.counts(),
        committed=len(world.observer.oracle.committed),
        elections=max((view.epoch for view in world.observer.oracle.views.values()), default=0),
        acked=world.workload.acked,
        refused=world.workload.refused,
        options=world.options,
        tape=tape.values() if plan.keeps_tape else None,
        cpu_seconds=time.process_time() - began,
    )


def run_seed(seed: int, plan: Plan, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed."""
    return run_tape(Tape(seed), plan, tell)


def replay(
    seed: int,
    recorded: Mapping[str, Sequence[int]],
    plan: Plan,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """Run a recorded tape."""
    return run_tape(Tape(seed, recorded), plan, tell)
