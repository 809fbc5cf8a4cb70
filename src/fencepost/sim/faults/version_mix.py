"""Nodes of two releases: an old one speaks the lowest versions of every API, as do all with it."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class VersionMix(Fault):
    """A node is stopped and started with older software, or newer again, as in a rolling upgrade.

    What is old of it are the versions that it speaks: without pre-vote, with no directory ids where
    the voters are static.
    """

    name = "version-mix"

    def act(self) -> None:
        node = self.a_node(self.world.alive())
        if node is None or node.is_paused:
            return
        node.is_old = not node.is_old
        self.world.did(self.name, lambda: f"{node.id} gets {'old' if node.is_old else 'new'} code")
        self.world.guard(node.stop, node)
        self.restart_later(node, 3_000)


FAULT = VersionMix
