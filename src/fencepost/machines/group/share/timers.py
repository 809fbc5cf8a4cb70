"""The timers of share groups, by name."""

from __future__ import annotations

from typing import Final

from fencepost.machines.coordinator import TimerName

SHARE: Final = "share"
"""The type's name, as ListGroups gives it."""

SESSION: Final = "session"
INITIALIZING: Final = "initializing"


def session_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not been heard of for the group's session timeout."""
    return (SHARE, group_id, SESSION, member_id)


def initializing_timer(group_id: str) -> TimerName:
    """Fires when share coordinators should have begun the state of partitions long ago."""
    return (SHARE, group_id, INITIALIZING)
