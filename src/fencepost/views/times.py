"""Moments in words."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(time_ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; as they are, beyond what a calendar has."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
