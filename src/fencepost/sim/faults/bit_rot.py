"""A bit of a batch rots on a disk (S53): it must be noticed, and nothing of it may spread."""

from __future__ import annotations

from fencepost.sim.damage import flip_batch
from fencepost.sim.faults import Fault


class BitRot(Fault):
    """A batch of a node's log that all other disks hold, too; a majority of disks stays sound.

    What rots is old: the recovery point behind it is written down, so that a node that restarts on
    a damaged log refuses to, and stays down. (One that restarts before takes a rotten batch for a
    torn end, cuts it off with all behind it, and may vote without it.)
    """

    name = "bit-rot"
    is_rare = True

    def act(self) -> None:
        world, truth = self.world, self.world.watch.truth
        node = self.a_node([one for one in world.alive() if world.can_spare(one)])
        if node is None or node.gave_up is not None:
            return
        held = min(disk.durable_offset for disk in truth.disks.values())
        entries = [e for e in truth.disks[node.id].entries if e.next_offset <= held]
        if not entries:
            return
        offset = entries[self.lane.pick(len(entries))].base_offset
        bit = self.lane.pick(64)
        node.is_excused = True
        try:
            world.guard(node.log_dir.checkpoint_recovery_points, node)
            if not node.is_up:  # its power failed meanwhile
                return
            flip_batch(node, offset, bit)
        except (LookupError, OSError):  # it went with its segment; or the disk refuses
            return
        world.did(self.name, lambda: f"offset {offset} rots on the disk of {node.id}")
        self.later(10_000, lambda: None if node.is_up else node.start())


FAULT = BitRot
