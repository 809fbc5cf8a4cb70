"""A leader appends whatever an idempotent producer sends."""

from __future__ import annotations

from fencepost.batch.header import BatchHeader
from fencepost.log.producers import OK, ProducerStates, Verdict
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def check(self: ProducerStates, header: BatchHeader) -> Verdict:
    """Everything is new."""
    return OK


ABLATION = Ablation(
    "a batch that is sent again is there twice",
    Rules(patches=((ProducerStates, "check", check),)),
    scenarios=("S68", "S69"),
    in_brokers=True,
)
