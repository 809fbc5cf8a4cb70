"""DeleteShareGroupState (key 86): forget what a share group has consumed of partitions.

The group coordinator sends it to the share coordinator when a share group, its offsets or a topic
are deleted (KIP-932).

v0 was early access in Kafka 4.0 and is stable, with the same fields, from 4.1 on.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class PartitionData(Struct):
    """A partition to forget the state of."""

    partition: Int32 = field(doc="Number of the partition.")


class DeleteStateData(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(doc="One entry per partition.")


class DeleteShareGroupStateRequest(
    Request["DeleteShareGroupStateResponse"], api_key=86, versions="0", flexible="0+"
):
    """Deletes states."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[DeleteStateData] = field(doc="The topics.")


class PartitionResult(Struct):
    """Whether the state of one partition is gone."""

    partition: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, also when there was no state; otherwise why it remains.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class DeleteStateResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionResult] = field(doc="One entry per partition of the request.")


class DeleteShareGroupStateResponse(
    Message, api_key=86, kind="response", versions="0", flexible="0+"
):
    """Which states are gone."""

    results: list[DeleteStateResult] = field(doc="One entry per topic of the request.")
