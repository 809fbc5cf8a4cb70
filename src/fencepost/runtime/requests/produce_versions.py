"""From which version of Produce on a request or an answer is another than before."""

from __future__ import annotations

from typing import Final

from fencepost.runtime.transactional_writes import Asking

ZSTD_FROM: Final = 7
"""Batches may be compressed with zstd (KIP-110)."""
LEADER_HINTS_FROM: Final = 10
"""An answer says who leads, where we do not (KIP-951)."""
ABORTABLE_FROM: Final = 11
"""Producers know TRANSACTION_ABORTABLE (KIP-890)."""
ADDS_FROM: Final = 12
"""The partitions of a request become part of its transaction (KIP-890)."""
TOPIC_IDS_FROM: Final = 13
"""Topics go by id (KIP-516)."""


def asking_of(version: int) -> Asking:
    """What a transactional producer expects that sends this version."""
    return Asking.of(version, ABORTABLE_FROM, ADDS_FROM)
