"""ReadShareGroupState (key 84): all that is kept of what a share group has consumed of partitions.

A broker that becomes leader of a partition sends it to the share coordinator, to know from where on
to hand out records, and which of them are settled already (KIP-932).

v0 was early access in Kafka 4.0 and is stable, with the same fields, from 4.1 on.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """A partition to read the state of."""

    partition: Int32 = field(doc="Number of the partition.")
    leader_epoch: Int32 = field(
        doc=(
            "Epoch of the leader that asks: it is remembered, and leaders of older ones get error "
            "74 from then on."
        ),
    )


class ReadStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition.")


class ReadShareGroupStateRequest(
    Request["ReadShareGroupStateResponse"], api_key=84, versions="0", flexible="0+"
):
    """Asks for states."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[ReadStateData] = field(doc="The topics.")


class StateBatch(Struct):
    """A range of offsets in the same state."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    delivery_state: Int8 = field(
        doc="0 to be handed out (again), 2 processed, 4 given up. A lock (1) is never kept.",
    )
    delivery_count: Int16 = field(doc="How often the records have been handed out.")


class PartitionResult(Struct):
    """The state of one partition."""

    partition: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why there is no state; the rest means nothing then.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    state_epoch: Int32 = field(doc="Epoch of the state, to be given when writing.")
    start_offset: Int64 = field(
        doc="First offset that is not settled; -1 until it is chosen where to begin.",
    )
    state_batches: list[StateBatch] = field(
        doc="Offsets from `start_offset` on that have a history; the rest was never handed out.",
    )


class ReadStateResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionResult] = field(doc="One entry per partition of the request.")


class ReadShareGroupStateResponse(
    Message, api_key=84, kind="response", versions="0", flexible="0+"
):
    """The states that were asked for."""

    results: list[ReadStateResult] = field(doc="One entry per topic of the request.")
