"""How a cleaning ends when the log's owner aborts it."""

from __future__ import annotations

from fencepost.log.errors import LogError


class CleaningAbortedError(LogError):
    """The log's owner has aborted the cleaning; nothing is wrong."""
