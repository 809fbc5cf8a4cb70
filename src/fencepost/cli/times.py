"""Moments on the command line."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fencepost.cli.failures import UsageError


def parse_time_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 from a number of them or an ISO 8601 time, UTC if it does not say."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r}: must be milliseconds or ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def now_ms() -> int:
    """Milliseconds since 1970, which coordinators and records have, too."""
    return time.time_ns() // 1_000_000
