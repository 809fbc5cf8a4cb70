"""S53: a leader sends what its disk gives it, without a look at the checksums."""

from __future__ import annotations

from fencepost.batch.header import BatchHeader
from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ServesWithoutCrcChecks(MetadataRules):
    """Believes its disk."""

    def is_intact(self, view: memoryview, position: int, header: BatchHeader) -> bool:
        return True


ABLATION = Ablation(
    "followers refuse a corrupt batch for ever, and their leader never learns why",
    Rules(metadata=ServesWithoutCrcChecks()),
    scenarios=("S53",),
    is_found_by_search=False,
)
