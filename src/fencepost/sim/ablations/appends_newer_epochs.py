"""A follower appends all batches of an answer, whatever their epochs (KAFKA-18723)."""

from __future__ import annotations

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition import following
from fencepost.machines.partition.inputs import Fetched
from fencepost.machines.partition.queries import LogView
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def appendable(log: LogView, answer: Fetched) -> list[RecordBatch]:
    """Whatever begins where the log ends."""
    return list(answer.batches) if answer.fetch_offset == log.end_offset else []


ABLATION = Ablation(
    "a follower has batches of an epoch whose start it has not agreed on",
    Rules(patches=((following, "appendable", appendable),)),
    scenarios=("S31",),
    is_found_by_search=False,
    in_brokers=True,
)
