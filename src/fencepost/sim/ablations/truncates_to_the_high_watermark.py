"""A follower cuts its log to its own high watermark when it begins to follow (before KIP-101)."""

from __future__ import annotations

from fencepost.machines.effects import Effect
from fencepost.machines.partition import BecomeFollower, Partition
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_become_follower = Partition._step_become_follower


def become_follower(self: Partition, order: BecomeFollower, now_ms: int) -> list[Effect]:
    """As the product does it, and then the cut."""
    is_new = order.leader_epoch > self.leader_epoch
    effects = _become_follower(self, order, now_ms)
    return effects + (self._truncate(self.high_watermark, start_over=False) if is_new else [])


ABLATION = Ablation(
    "a follower forgets what was acknowledged, and is elected",
    Rules(patches=((Partition, "_step_become_follower", become_follower),)),
    scenarios=("S01",),
    in_brokers=True,
)
