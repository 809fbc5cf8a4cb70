"""The durable state of a share partition, as its leader and the share coordinator exchange it.

Offsets of one delivery state and one delivery count that follow each other are a `StateBatch`. The
delivery states are the bytes of Kafka's `RecordState`; ACQUIRED (1) is never stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

NO_START_OFFSET: Final = -1
"""`PartitionFactory.UNINITIALIZED_START_OFFSET`: the leader begins by `share.auto.offset.reset`."""
UNKNOWN_COMPLETE_COUNT: Final = -1
"""`PartitionFactory.UNINITIALIZED_DELIVERY_COMPLETE_COUNT`: how many is not known."""


class SharePartitionKey(NamedTuple):
    """A partition of a topic as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """By which FindCoordinator (key type 2) names the share coordinator: as text, hashed."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """Offsets `first_offset` to `last_offset`, both inclusive, of one state and delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ReadState(NamedTuple):
    """What the share coordinator has stored of a share partition, or why it cannot say."""

    error: ErrorCode
    message: str | None
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
