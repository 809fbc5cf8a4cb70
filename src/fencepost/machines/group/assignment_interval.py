"""How often the target assignment of a group is computed: `*.assignment.interval.ms` (KIP-1263)."""

from __future__ import annotations


def may_assign(timestamp_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether a target may be computed now, the last one being of `timestamp_ms` (0: of never).

    A wall clock that was set back does not hold up the group for longer than the interval.
    """
    return (
        timestamp_ms == 0
        or interval_ms == 0
        or not timestamp_ms <= wall_ms < timestamp_ms + interval_ms
    )
