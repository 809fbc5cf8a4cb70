"""WriteShareGroupState (key 85): keep what a share group has consumed of partitions.

The leader of a partition sends it to the share coordinator whenever consumers have settled records
or handed them back, before it tells them so (KIP-932).

* v0 was early access in Kafka 4.0 and is stable, with the same fields, from 4.1 on.
* v1 also counts the records that are settled, from which lag is computed (KIP-1226).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String, Uuid


class StateBatch(Struct):
    """A range of offsets in the same state."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    delivery_state: Int8 = field(
        doc="0 to be handed out (again), 2 processed, 4 given up. A lock (1) is never kept.",
    )
    delivery_count: Int16 = field(doc="How often the records have been handed out.")


class PartitionData(Struct):
    """What changed in one partition."""

    partition: Int32 = field(doc="Number of the partition.")
    state_epoch: Int32 = field(
        doc="Epoch of the state as it was read; an older one is refused with error 124.",
    )
    leader_epoch: Int32 = field(
        doc="Epoch of the leader that writes; an older one is refused with error 74.",
    )
    start_offset: Int64 = field(
        doc="First offset that is not settled now; -1 when it stays where it is.",
    )
    delivery_complete_count: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Records from `start_offset` on that are settled; -1 when not counted (KIP-1226).",
    )
    state_batches: list[StateBatch] = field(
        doc="Offsets whose state changed; the share coordinator merges them with what it has.",
    )


class WriteStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition.")


class WriteShareGroupStateRequest(
    Request["WriteShareGroupStateResponse"], api_key=85, versions="0-1", flexible="0+"
):
    """Writes changes of states."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[WriteStateData] = field(doc="The topics.")


class PartitionResult(Struct):
    """Whether the change of one partition is kept."""

    partition: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it is not kept.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class WriteStateResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionResult] = field(doc="One entry per partition of the request.")


class WriteShareGroupStateResponse(
    Message, api_key=85, kind="response", versions="0-1", flexible="0+"
):
    """Which changes are kept; v1 has the fields of v0."""

    results: list[WriteStateResult] = field(doc="One entry per topic of the request.")
