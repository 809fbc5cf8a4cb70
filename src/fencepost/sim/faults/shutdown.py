"""A process is stopped in an orderly way: a leader hands over, all is flushed, a note is left."""

from __future__ import annotations

from fencepost.machines.quorum.inputs import Resign
from fencepost.sim.faults import Fault
from fencepost.sim.node import SimNode


class Shutdown(Fault):
    """Any node, for up to ten seconds; a leader has some time to hand over."""

    name = "shutdown"

    def act(self) -> None:
        node = self.a_node([one for one in self.world.alive() if not one.is_paused])
        if node is None or node.gave_up is not None:
            return
        self.world.did(self.name, lambda: f"stop {node.id}")
        if node.leads and node.machine.voters != (node.id,):
            self.world.guard(lambda: node.feed(Resign()), node)
        incarnation = node.incarnation
        self.later(self.world.options.election_timeout_ms, lambda: self._stop(node, incarnation))

    def _stop(self, node: SimNode, incarnation: int) -> None:
        if node.is_up and node.incarnation == incarnation and not node.is_paused:
            self.world.guard(node.stop, node)
        self.restart_later(node)


FAULT = Shutdown
