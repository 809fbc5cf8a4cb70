"""The timers of classic groups, by name. Every name begins with the type and the group's id."""

from __future__ import annotations

from typing import Final

from fencepost.machines.coordinator import TimerName

CLASSIC: Final = "classic"
"""The type's name, in lower case, as ListGroups gives it: programs compare it."""

SESSION: Final = "session"
JOIN: Final = "join"
SYNC: Final = "sync"


def session_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not been heard of for its session timeout."""
    return (CLASSIC, group_id, SESSION, member_id)


def join_timer(group_id: str) -> TimerName:
    """Fires when a rebalance has waited long enough for members to join."""
    return (CLASSIC, group_id, JOIN)


def sync_timer(group_id: str) -> TimerName:
    """Fires when a generation has waited long enough for its members' SyncGroup."""
    return (CLASSIC, group_id, SYNC)
