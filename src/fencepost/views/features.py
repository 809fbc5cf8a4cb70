"""Features of a cluster (KIP-584)."""

from __future__ import annotations

from fencepost.client.features import FeatureLevel
from fencepost.views.view import View


class FeatureView(View, frozen=True):
    """A feature, its level in the cluster (0: off), and the levels that a node can run."""

    name: str
    level: int
    min_level: int
    max_level: int

    @classmethod
    def of(cls, one: FeatureLevel) -> FeatureView:
        return cls(one.name, one.level, one.min_level, one.max_level)


class ChangedFeatures(View, frozen=True):
    """The levels that were set, or could be; `changed` names those that were different."""

    levels: dict[str, int]
    changed: list[str]
    done: str
