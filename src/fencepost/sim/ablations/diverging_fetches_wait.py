"""S51: a fetch that must hear of a divergence or a snapshot waits for records (KAFKA-15100)."""

from __future__ import annotations

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class DivergingFetchesWait(QuorumRules):
    """Has every fetch wait that it has no records for."""

    def must_answer_at_once(
        self, diverging: tuple[int, int] | None, snapshot_id: SnapshotId | None
    ) -> bool:
        return False


ABLATION = Ablation(
    "followers that must cut their log, or load a snapshot, lose half a second with each step",
    Rules(quorum=DivergingFetchesWait()),
    scenarios=("S51",),
    is_found_by_search=False,
)
