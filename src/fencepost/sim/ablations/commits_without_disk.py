"""A leader counts its own log before it is flushed."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.roles import Leader
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CommitsWithoutDisk(QuorumMachine):
    """Takes the page cache for the disk."""

    def _maybe_commit(self, leader: Leader) -> None:
        self._durable_end_offset = self._end_offset
        super()._maybe_commit(leader)


ABLATION = Ablation(
    "what the leader has only in memory counts towards a majority",
    Rules(machine=CommitsWithoutDisk),
)
