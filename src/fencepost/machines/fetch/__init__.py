"""Fetches: when they are answered, how they wait, and their sessions (KIP-227), as machines."""

from fencepost.machines.fetch.answering import (
    NO_WAIT,
    FetchTerms,
    Look,
    ReadBudget,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
    progress_told_by,
)
from fencepost.machines.fetch.quiet import Asker, QuietPartitions, Stirred
from fencepost.machines.fetch.read_replica import ReadReplica, choose_by_rack
from fencepost.machines.fetch.sessions import (
    FetchContext,
    FetchOutcome,
    FetchSession,
    FetchSessions,
    FetchWanted,
    Finished,
)
from fencepost.machines.fetch.throttle import UNLIMITED, ByteRate, is_throttled
from fencepost.machines.fetch.waiting import PendingFetch, PendingFetches

__all__ = [
    "NO_WAIT",
    "UNLIMITED",
    "Asker",
    "ByteRate",
    "FetchContext",
    "FetchOutcome",
    "FetchSession",
    "FetchSessions",
    "FetchTerms",
    "FetchWanted",
    "Finished",
    "Look",
    "PendingFetch",
    "PendingFetches",
    "QuietPartitions",
    "ReadBudget",
    "ReadReplica",
    "Stirred",
    "bytes_to_wait_with",
    "choose_by_rack",
    "is_out_of_date",
    "is_throttled",
    "look_at",
    "progress_told_by",
]
