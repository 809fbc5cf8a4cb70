"""The timers and the work of streams groups, by name. Every name begins with type and group id."""

from __future__ import annotations

from typing import Final

from fencepost.machines.coordinator import TimerName, WorkName

STREAMS: Final = "streams"
"""The type's name, as ListGroups gives it."""

SESSION: Final = "session"
REBALANCE: Final = "rebalance"
INITIAL_DELAY: Final = "initial-delay"


def session_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has sent no heartbeat for its session timeout."""
    return (STREAMS, group_id, SESSION, member_id)


def rebalance_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not given up tasks for its rebalance timeout."""
    return (STREAMS, group_id, REBALANCE, member_id)


def initial_delay_timer(group_id: str) -> TimerName:
    """Fires when a group that was empty has waited for further members."""
    return (STREAMS, group_id, INITIAL_DELAY)


def assign_work(group_id: str) -> WorkName:
    """The computation of a large target assignment."""
    return (STREAMS, group_id, "assign")
