"""An operator changes the voters while other things go wrong (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sim import membership
from fencepost.sim.faults import Fault
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode


class VoterChanges(Fault):
    """Adds a node that is no voter, or removes one; now and then the wrong one is asked."""

    name = "voter-changes"

    def fits(self) -> bool:
        return self.world.options.is_dynamic

    def act(self) -> None:
        live = self.world.live_controllers()
        nodes = [node for node in live if not node.is_paused and not node.gave_up]
        leading = [node for node in nodes if node.leads]
        asked = self.a_node(nodes if not leading or self.lane.pick(10) == 9 else leading)
        if asked is None:
            return
        if asked.machine.kraft_version == 0:
            self.world.did(self.name, lambda: f"ask {asked.id} to raise kraft.version")
            membership.upgrade(asked, self._told)
        elif self.lane.pick(2):
            self._remove(asked)
        else:
            self._add(asked, nodes)

    def _add(self, asked: SimNode, nodes: list[SimNode]) -> None:
        voters = asked.machine.voter_set
        joining = self.a_node([node for node in nodes if voters.get(node.id) is None])
        if joining is not None:
            self.world.did(self.name, lambda: f"ask {asked.id} to add {joining.id}")
            membership.add_voter(asked, joining, self._told)

    def _remove(self, asked: SimNode) -> None:
        """One whose disk is gone first; else any that the others can do without."""
        voters = asked.machine.voter_set.voters
        lost = [v for v in voters if self.world.nodes[v.id].directory_id != v.key.directory_id]
        spared = lost or [v for v in voters if self.world.can_remove(v.id)]
        if not spared:
            return
        voter = spared[self.lane.pick(len(spared))]
        self.world.did(self.name, lambda: f"ask {asked.id} to remove {voter.id}")
        membership.remove_voter(asked, voter.key, self._told)

    def _told(self, error: ErrorCode) -> None:
        self.world.tell(lambda: f"voters: {error.name}")


FAULT = VoterChanges
