"""S41: a follower goes on with the snapshot it began, whoever leads, and whether it is there."""

from __future__ import annotations

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.roles import FetchingSnapshot, Follower
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules
from fencepost.wire.message import Message


class NeverGivesUpASnapshot(QuorumMachine):
    """Asks for the piece it wants until it gets it."""

    _began: FetchingSnapshot | None = None

    def _begin_snapshot(self, follower: Follower, snapshot_id: SnapshotId) -> None:
        super()._begin_snapshot(follower, snapshot_id)
        self._began = self._began or follower.fetching

    def _follower_request(self, follower: Follower) -> Message:
        if self._end_offset == 0:
            follower.fetching = self._began
        return super()._follower_request(follower)


ABLATION = Ablation(
    "a follower asks for ever for a snapshot that nobody has any more",
    Rules(machine=NeverGivesUpASnapshot),
    scenarios=("S41",),
    is_found_by_search=False,
)
