"""A follower cuts its log to its own high watermark when it begins to follow (before KIP-101)."""

from __future__ import annotations

from fencepost.machines.partition import BecomeFollower
from fencepost.machines.partition.following import Following
from fencepost.machines.partition.roles import ReplicaRoles
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_become_follower = ReplicaRoles.step_become_follower


def become_follower(self: ReplicaRoles, order: BecomeFollower, now_ms: int) -> None:
    """As the product does it, and then the cut."""
    is_new = order.leader_epoch > self._partition.leader_epoch
    _become_follower(self, order, now_ms)
    if is_new:
        following = Following(self._partition, self._outbox)
        following.truncate(self._partition.high_watermark, start_over=False)


ABLATION = Ablation(
    "a follower forgets what was acknowledged, and is elected",
    Rules(patches=((ReplicaRoles, "step_become_follower", become_follower),)),
    scenarios=("S01",),
    in_brokers=True,
)
