"""A producer is forgotten a day after its last batch, whenever its last marker was written."""

from __future__ import annotations

from typing import Any

from fencepost.log.producers import ProducerStates
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

own = ProducerStates.complete_transaction


def keeps_the_time(self: ProducerStates, header: Any, coordinator_epoch: int) -> int:
    """The marker is noted, and the time of the last batch stays."""
    state = self.get(header.producer_id)
    before_ms = -1 if state is None else state.last_timestamp_ms
    first_offset = own(self, header, coordinator_epoch)
    if state is not None:
        state.last_timestamp_ms = before_ms
    return first_offset


ABLATION = Ablation(
    "a marker that comes late is taken from a producer that is further (KAFKA-9144)",
    Rules(patches=((ProducerStates, "complete_transaction", keeps_the_time),)),
    scenarios=("S62",),
    is_found_by_search=False,
    in_transactions=True,
)
