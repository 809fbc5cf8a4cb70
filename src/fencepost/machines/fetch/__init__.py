"""Fetch sessions (KIP-227) and fetches that wait for data, as machines."""

from fencepost.machines.fetch.sessions import (
    FetchContext,
    FetchOutcome,
    FetchSessions,
    FetchWanted,
    Finished,
)
from fencepost.machines.fetch.waiting import PendingFetch, PendingFetches

__all__ = [
    "FetchContext",
    "FetchOutcome",
    "FetchSessions",
    "FetchWanted",
    "Finished",
    "PendingFetch",
    "PendingFetches",
]
