"""The durable state of a share partition, as its leader and the share coordinator exchange it.

Offsets of one delivery state and one delivery count that follow each other are a `StateBatch`. The
delivery states are the bytes of Kafka's `RecordState`; ACQUIRED (1) is never stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

NO_START_OFFSET: Final = -1
"""`PartitionFactory.UNINITIALIZED_START_OFFSET`: the leader begins by `share.auto.offset.reset`."""
UNKNOWN_COMPLETE_COUNT: Final = -1
"""`PartitionFactory.UNINITIALIZED_DELIVERY_COMPLETE_COUNT`: how many is not known."""
STATE_BATCHES_MAX: Final = 50_000
"""Batches of one share partition: about as many as fit in a snapshot. Leaders have 10,000 records
in delivery at most, but for those of one large record batch."""


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


class WireBatch(Protocol):
    """A `StateBatch` as a message or record has it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


W = TypeVar("W", bound=WireBatch)


def batches_from(wire: Iterable[WireBatch]) -> tuple[StateBatch, ...]:
    """The batches of a message or record; one that ends before it begins has no offsets and is
    left out."""
    return tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in wire
        if one.first_offset <= one.last_offset
    )


def batches_to(make: Callable[..., W], batches: Iterable[StateBatch]) -> list[W]:
    """The batches for a message or record, whose class of batches is `make`."""
    return [
        make(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


class ReadState(NamedTuple):
    """What the share coordinator has stored of a share partition, or why it cannot say."""

    error: ErrorCode
    message: str | None
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


def parse_share_partition_key(text: str) -> SharePartitionKey | None:
    """The share partition that `coordinator_key` names; None for a text of another form."""
    group_id, _, rest = text.rpartition(":")[0].rpartition(":")
    index = text.rpartition(":")[2]
    if not group_id.strip() or re.fullmatch(r"[+-]?[0-9]{1,10}", index, re.ASCII) is None:
        return None
    try:
        topic_id = Uuid.from_string(rest)
    except ValueError:
        return None
    partition = int(index)
    if not -(1 << 31) <= partition < 1 << 31:
        return None
    return SharePartitionKey(group_id, topic_id, partition)
