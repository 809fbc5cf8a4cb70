"""A leader of an older epoch tells who knows a newer one where epochs end (before KIP-320)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AnswersNewerEpochs(PartitionRules):
    """See the module docstring."""

    def is_of_newer_epoch(self, asked: int, leader_epoch: int) -> bool:
        return False


ABLATION = Ablation(
    "a follower cuts its log to agree with one that is cut itself later",
    Rules(partition=AnswersNewerEpochs()),
    scenarios=("S08",),
    is_found_by_search=False,
    in_brokers=True,
)
