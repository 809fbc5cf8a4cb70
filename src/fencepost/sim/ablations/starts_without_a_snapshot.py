"""S43: a log that does not begin at 0 needs no snapshot (KAFKA-14240)."""

from __future__ import annotations

from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotStore
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.view import LogView
from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StartsWithoutASnapshot(QuorumRules):
    """Starts on whatever it finds."""

    def reason_not_to_start(self, log: LogView) -> None:
        return None


class OpensWhateverIsThere(MetadataRules):
    """Does not look through the snapshots before it starts."""

    def open_snapshots(self, partition_log: PartitionLog) -> SnapshotStore:
        return SnapshotStore(partition_log.disk, partition_log.directory)


ABLATION = Ablation(
    "a node runs with an image that lacks what was before its log",
    Rules(
        quorum=StartsWithoutASnapshot(),
        metadata=OpensWhateverIsThere(),
    ),
    scenarios=("S43",),
    is_found_by_search=False,
)
