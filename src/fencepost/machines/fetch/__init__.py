"""Fetches: when they are answered, how they wait, and their sessions (KIP-227), as machines."""

from fencepost.machines.fetch.answering import (
    NO_WAIT,
    FetchTerms,
    Look,
    ReadBudget,
    bytes_to_wait_with,
    look_at,
    progress_told_by,
)
from fencepost.machines.fetch.sessions import (
    FetchContext,
    FetchOutcome,
    FetchSessions,
    FetchWanted,
    Finished,
)
from fencepost.machines.fetch.waiting import PendingFetch, PendingFetches

__all__ = [
    "NO_WAIT",
    "FetchContext",
    "FetchOutcome",
    "FetchSessions",
    "FetchTerms",
    "FetchWanted",
    "Finished",
    "Look",
    "PendingFetch",
    "PendingFetches",
    "ReadBudget",
    "bytes_to_wait_with",
    "look_at",
    "progress_told_by",
]
