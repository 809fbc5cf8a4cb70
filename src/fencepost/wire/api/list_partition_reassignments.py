"""ListPartitionReassignments (key 46): the moves of partitions that are under way.

Answered by the controller; a broker forwards it. A partition is listed from the moment
AlterPartitionReassignments is recorded until the last new replica is in sync and the old ones are
dropped.

KIP-455; v0 is all there is. The caller must be allowed to describe the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic to list."""

    name: String = field(doc="Name of the topic; one that does not exist is no error.")
    partition_indexes: list[Int32] = field(doc="Numbers of the partitions; empty for none.")


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], api_key=46, versions="0", flexible="0+"
):
    """Asks for moves of partitions that are under way."""

    timeout_ms: Int32 = field(
        default=60000,
        doc="Milliseconds to wait for the controller before error 7.",
    )
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        default=None,
        doc="The topics; null for every move there is.",
    )


class OngoingPartitionReassignment(Struct):
    """A partition that moves."""

    partition_index: Int32 = field(doc="Number of the partition.")
    replicas: list[Int32] = field(
        doc=(
            "Ids of all brokers with a replica now: those that stay, those that come and those "
            "that go; preferred leader first."
        ),
    )
    adding_replicas: list[Int32] = field(doc="Those of `replicas` that come.")
    removing_replicas: list[Int32] = field(doc="Those of `replicas` that go in the end.")


class OngoingTopicReassignment(Struct):
    """The partitions of one topic that move."""

    name: String = field(doc="Name of the topic.")
    partitions: list[OngoingPartitionReassignment] = field(
        doc="The partitions; those that do not move are left out.",
    )


class ListPartitionReassignmentsResponse(
    Message, api_key=46, kind="response", versions="0", flexible="0+"
):
    """The moves that are under way."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0, or why there is no list, such as 7, 31 or 41.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    topics: list[OngoingTopicReassignment] = field(doc="Topics with partitions that move.")
