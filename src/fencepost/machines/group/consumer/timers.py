"""The timers and the work elsewhere of consumer groups, by name."""

from __future__ import annotations

from typing import Final

from fencepost.machines.coordinator import TimerName, WorkName

CONSUMER: Final = "consumer"
"""The type's name, as ListGroups gives it."""

SESSION: Final = "session"
REBALANCE: Final = "rebalance"
JOIN: Final = "join"
SYNC: Final = "sync"


def session_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not been heard of for the group's session timeout."""
    return (CONSUMER, group_id, SESSION, member_id)


def rebalance_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not given up its partitions within its rebalance timeout."""
    return (CONSUMER, group_id, REBALANCE, member_id)


def join_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a classic member has not joined again within its rebalance timeout."""
    return (CONSUMER, group_id, JOIN, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a classic member that joined has not synced within its rebalance timeout."""
    return (CONSUMER, group_id, SYNC, member_id)


def member_timers(group_id: str, member_id: str) -> tuple[TimerName, ...]:
    """All that may be set for a member."""
    return tuple((CONSUMER, group_id, what, member_id) for what in (SESSION, REBALANCE, JOIN, SYNC))


def assign_work(group_id: str) -> WorkName:
    """Computes a large target assignment."""
    return (CONSUMER, group_id, "assign")


def regex_work(group_id: str) -> WorkName:
    """Finds the topics of the group's regular expressions."""
    return (CONSUMER, group_id, "regex")
