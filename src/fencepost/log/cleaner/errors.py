"""How a cleaning ends that nobody wants any more."""

from __future__ import annotations

from fencepost.log.errors import LogError


class CleaningAbortedError(LogError):
    """The log's owner has called the cleaning off; nothing is wrong."""
