"""InitializeShareGroupState (key 83): begin to keep what a share group has consumed of partitions.

The group coordinator sends it to the share coordinator when a share group takes up partitions, or
when an admin sets where the group stands; whatever state there was is replaced (KIP-932). Share
coordinators are addressed per group, topic and partition.

v0 was early access in Kafka 4.0 and is stable, with the same fields, from 4.1 on.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, Uuid


class PartitionData(Struct):
    """Where the group is to stand in one partition."""

    partition: Int32 = field(doc="Number of the partition.")
    state_epoch: Int32 = field(
        doc="Epoch of the state to begin; one older than what is kept is refused with error 124.",
    )
    start_offset: Int64 = field(
        doc="First offset to consume; -1 leaves it to the partition's leader to find one.",
    )


class InitializeStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition.")


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], api_key=83, versions="0", flexible="0+"
):
    """Begins states again."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[InitializeStateData] = field(doc="The topics.")


class PartitionResult(Struct):
    """Whether the state of one partition was begun."""

    partition: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it was not begun.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class InitializeStateResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionResult] = field(doc="One entry per partition of the request.")


class InitializeShareGroupStateResponse(
    Message, api_key=83, kind="response", versions="0", flexible="0+"
):
    """Which states were begun."""

    results: list[InitializeStateResult] = field(doc="One entry per topic of the request.")
