"""What may go wrong, one kind of fault a file; a file that is here takes part.

To add one: a file here with a subclass of `Fault` named `FAULT`. It says its name and how often it
likes to strike; `act` does the harm and says so with `world.did`, `heal` undoes what is left of it.
A seed draws which faults are on in its world, and how much each of them strikes.

What a fault does must be something the system is made to survive, unless it says that it `excuses`
the node: then the node may give up. A fault that takes a disk's content away asks first whether
the quorum can spare it (`world.can_spare`); in a world that is over its budget of damage that is
always so, and all that is asked for is that damage is found out and that no two nodes disagree.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.sim.disk_snapshots import DiskSnapshot
from fencepost.sim.tape import Lane

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode
    from fencepost.sim.world import World

MEAN_MS = (8_000, 3_000, 20_000, 1_000)
"""Mean times between two strikes of one kind; a seed draws one for each kind."""
OLD_DISK_TRIES = 20


class Fault:
    """One kind of fault in one world. All its choices are drawn from `self.lane`."""

    name = ""
    is_rare = False
    """Whether it strikes only a tenth as often as others."""
    needs_peers = False
    """Whether it is about two nodes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lane: Lane = world.tape.lane(f"fault.{self.name}")
        self.mean_ms = MEAN_MS[self.lane.pick(len(MEAN_MS))] * (10 if self.is_rare else 1)
        self._is_over = False

    def fits(self) -> bool:
        """Whether this world can have this fault at all."""
        return not self.needs_peers or len(self.world.nodes) > 1

    def act(self) -> None:
        """Do some harm, or none if no node or link can have this fault now."""

    def heal(self) -> None:
        """Undo whatever is left of it; called once, when the safety phase ends."""

    # -- for subclasses ------------------------------------------------------------------------

    def a_node(self, nodes: list[SimNode]) -> SimNode | None:
        """One of these, or None if there is none."""
        return nodes[self.lane.pick(len(nodes))] if nodes else None

    def later(self, most_ms: int, act: Callable[[], None]) -> None:
        """Do something within that time, unless the world is healed before."""
        delay_us = 1_000 * self.lane.between(1, most_ms)
        self.world.schedule_in(delay_us, "fault", lambda: None if self._is_over else act())

    def restart_later(self, node: SimNode, most_ms: int = 10_000) -> None:
        """Start a node within that time, unless it is up again by then."""
        self.later(most_ms, lambda: None if node.is_up else node.start())

    # -- for the run ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Strike now and then from now on.

        The time to the next strike is drawn; 0 means that there is none.
        """
        delay_ms = self.lane.pick(2 * self.mean_ms)
        if delay_ms:
            self.world.schedule_in(1_000 * delay_ms, "fault", self._strike)

    def _strike(self) -> None:
        if not self._is_over:
            self.act()
            self.begin()

    def end(self) -> None:
        """Strike no more, and heal."""
        self._is_over = True
        self.heal()


class Damage(Fault):
    """A kind of fault that damages what a disk holds, in a way that can be found out.

    It strikes what the quorum can spare, and what is old: the recovery point behind it is written
    down first. (A node that restarts before would take it for the end that a crash has torn.)
    """

    is_rare = True

    def hurt(self, node: SimNode) -> str | None:
        """Damage something of a node that is up; what was done, None if there was nothing to hurt.

        LookupError, OSError: likewise.
        """
        return None

    def act(self) -> None:
        world = self.world
        live = world.live_controllers()
        sound = [one for one in live if one.gave_up is None and world.can_spare(one)]
        node = self.a_node(sound)
        if node is None:
            return
        world.guard(lambda: self._hurt(node), node)
        self.restart_later(node)

    def _hurt(self, node: SimNode) -> None:
        done = None
        with contextlib.suppress(LookupError, OSError):
            node.log_dir.checkpoint_recovery_points()
            done = self.hurt(node)
        if done is not None:
            self.world.did(self.name, lambda: done)

    def an_old_offset(self, node: SimNode) -> int | None:
        """Where a batch of the node begins that all disks hold; None if there is none."""
        held = self.held_by_all()
        disk = self.world.observer.oracle.disks[node.id]
        entries = [entry for entry in disk.entries if entry.next_offset <= held]
        return entries[self.lane.pick(len(entries))].base_offset if entries else None

    def held_by_all(self) -> int:
        """Up to where every disk is durable."""
        return min(disk.durable_offset for disk in self.world.observer.oracle.disks.values())


class OldDisks(Fault):
    """A kind of fault that takes copies of all disks, and puts something of one back later."""

    def ways(self, kept: list[DiskSnapshot]) -> list[Callable[[], None]]:
        """What may be put back now; each way does it."""
        return []

    def act(self) -> None:
        kept = [DiskSnapshot(node) for node in self.world.controllers.values()]
        self.later(6_000, lambda: self._try(kept, OLD_DISK_TRIES))

    def _try(self, kept: list[DiskSnapshot], tries: int) -> None:
        """Put something back now, or look again soon: some disk is behind the others mostly."""
        ways = self.ways(kept)
        if ways:
            ways[self.lane.pick(len(ways))]()
        elif tries:
            self.later(40, lambda: self._try(kept, tries - 1))


def fault_classes() -> dict[str, type[Fault]]:
    """All kinds of faults by name, in the order of their names."""
    found: dict[str, type[Fault]] = {}
    for module in pkgutil.iter_modules(__path__):
        kind: type[Fault] = importlib.import_module(f"{__name__}.{module.name}").FAULT
        found[kind.name] = kind
    return dict(sorted(found.items()))
