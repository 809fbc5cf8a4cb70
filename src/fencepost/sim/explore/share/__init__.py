"""The world of one share partition: its leader, two members, the share coordinator, a crash."""

from fencepost.sim.explore.share.space import Bounds, Space

__all__ = ["Bounds", "Space"]
