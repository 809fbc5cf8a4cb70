"""What becomes of a record of a share group: its states, and what consumers say of it (KIP-932)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The state of an offset at the leader, with the bytes of Kafka's `RecordState`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Given up, and its dead letter is still to be written (KIP-1191)."""
    ARCHIVED = 4


TERMINAL: Final = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
"""The states after which an offset is never delivered again."""


class AcknowledgeType(IntEnum):
    """What a consumer says of an offset."""

    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The lock is to last longer (KIP-1222)."""


class DeadLetterCause(IntEnum):
    """Why a record was given up."""

    REJECTED = 0
    DELIVERY_COUNT = 1
