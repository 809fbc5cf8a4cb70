"""Levels of compatibility: which earlier versions a new schema is held against, and which way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.testing.registry.errors import INVALID_COMPATIBILITY, RegistryError
from fencepost.testing.registry.schemas import Schema, unreadable

DEFAULT: Final = "BACKWARD"
LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL",
    "FULL_TRANSITIVE",
)  # fmt: skip


def check_level(level: object) -> str:
    """The level. RegistryError for another."""
    if level not in LEVELS:
        raise RegistryError(
            INVALID_COMPATIBILITY,
            f"Invalid compatibility level {level!r}. Valid values are {', '.join(LEVELS)}",
        )
    return str(level)


def incompatibilities(level: str, new: Schema, earlier: Sequence[tuple[int, Schema]]) -> list[str]:
    """Why `new` may not follow the versions `earlier` (in order), a text for each reason.

    BACKWARD: the new schema reads what the last one wrote; FORWARD: the last reads what the new
    writes; FULL: both; _TRANSITIVE: so it is with every earlier version.
    """
    if level == "NONE":
        return []
    way, _, transitive = level.partition("_")
    reasons = []
    for version, old in reversed(earlier if transitive else earlier[-1:]):
        if way in ("BACKWARD", "FULL"):
            told = unreadable(new, old)
            reasons += [f"{one} (the new schema reads version {version})" for one in told]
        if way in ("FORWARD", "FULL"):
            told = unreadable(old, new)
            reasons += [f"{one} (version {version} reads the new schema)" for one in told]
    return reasons
