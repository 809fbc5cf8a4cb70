"""Clients do not reach a node that the others reach; what it still answers, they do not hear."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class ClientsCut(Fault):
    """The leader first, or any node, for up to eight seconds."""

    name = "clients-cut"

    def act(self) -> None:
        world = self.world
        leader = world.leader()
        nodes = list(world.nodes.values()) if leader is None or self.lane.pick(2) else [leader]
        node = self.a_node(nodes)
        assert node is not None, "a world has nodes"
        world.did(self.name, lambda: f"no client reaches {node.id}")
        world.workload.unreachable[node.id] = None
        self.later(8_000, lambda: world.workload.unreachable.pop(node.id, None))

    def heal(self) -> None:
        self.world.workload.unreachable.clear()


FAULT = ClientsCut
