"""Why a controller does not let a broker in that lacks a finalized feature, and what lets it in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fencepost.machines.image import FeatureRange


def levels_to_lower(
    finalized: Mapping[str, int], offered: Iterable[FeatureRange]
) -> dict[str, tuple[int, int]]:
    """The features whose finalized level the broker does not run: (that level, its highest)."""
    highest = {one.name: (one.min_level, one.max_level) for one in offered}
    return {
        name: (level, highest.get(name, (0, 0))[1])
        for name, level in sorted(finalized.items())
        if level > highest.get(name, (0, 0))[1]
    }


def advice(finalized: Mapping[str, int], offered: Iterable[FeatureRange]) -> str:
    """For the operator; empty if every finalized feature is offered at its level."""
    lower = levels_to_lower(finalized, offered)
    if not lower:
        return ""
    found = ", ".join(f"{name} {level}" for name, (level, _) in lower.items())
    down = " ".join(f"{name}={most}" for name, (_, most) in lower.items())
    return (
        f"the cluster has finalized {found}, which this broker does not run; "
        f"`fencepost features downgrade {down}` lets it in"
    )
