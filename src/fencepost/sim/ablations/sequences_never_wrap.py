"""Behind the last sequence of a producer comes none: it does not begin again at 0."""

from __future__ import annotations

from fencepost.log import producers
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

ABLATION = Ablation(
    "a producer is refused for ever when its sequences are used up",
    Rules(patches=((producers, "SEQUENCE_MAX", (1 << 32) - 1),)),
    scenarios=("S68",),
    in_brokers=True,
)
