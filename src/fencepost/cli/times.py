"""Moments on the command line."""

from __future__ import annotations

import time

from fencepost.cli.failures import UsageError


def parse_time_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 from a number of them or an ISO 8601 time, UTC if it does not say."""
    from fencepost.client.offset_targets import iso_time_ms

    if text.isdecimal():
        return int(text)
    try:
        return iso_time_ms(text)
    except ValueError:
        raise UsageError(f"{option} {text!r}: must be milliseconds or ISO 8601") from None


def now_ms() -> int:
    """Milliseconds since 1970, which coordinators and records have, too."""
    return time.time_ns() // 1_000_000
