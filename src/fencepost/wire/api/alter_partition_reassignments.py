"""AlterPartitionReassignments (key 45): move partitions to other brokers, or call a move off.

Handled by the controller; a broker forwards it. The answer comes when the moves are recorded, not
when they are done, which ListPartitionReassignments tells. Every partition succeeds or fails alone,
and a new target for a partition that moves replaces the old one.

KIP-455. v1 can forbid another number of replicas (KIP-860). The caller must be allowed to alter the
cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String


class ReassignablePartition(Struct):
    """A partition to move."""

    partition_index: Int32 = field(doc="Number of the partition.")
    replicas: list[Int32] | None = field(
        default=None,
        doc=(
            "Ids of the brokers that are to have it, preferred leader first; null calls off the "
            "move that is under way."
        ),
    )


class ReassignableTopic(Struct):
    """Partitions of one topic to move."""

    name: String = field(doc="Name of the topic.")
    partitions: list[ReassignablePartition] = field(doc="The partitions.")


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], api_key=45, versions="0-1", flexible="0+"
):
    """Begins moves of partitions to other brokers, or calls them off."""

    timeout_ms: Int32 = field(
        default=60000,
        doc="Milliseconds to wait for the controller; the work goes on after error 7.",
    )
    allow_replication_factor_change: Bool = field(
        "1+",
        default=True,
        doc=(
            "Whether partitions may get more or fewer replicas than they have; if not, that is "
            "error 38. False cannot be written at v0."
        ),
    )
    topics: list[ReassignableTopic] = field(doc="The topics.")


class ReassignablePartitionResponse(Struct):
    """What became of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0 when the move is recorded or called off; 3 no such partition, 38 another number of "
            "replicas (v1+), 39 brokers that cannot be, 85 no move to call off."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class ReassignableTopicResponse(Struct):
    """What became of the partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[ReassignablePartitionResponse] = field(
        doc="One entry per partition of the request.",
    )


class AlterPartitionReassignmentsResponse(
    Message, api_key=45, kind="response", versions="0-1", flexible="0+"
):
    """Whether the moves are recorded; ListPartitionReassignments tells when they are over."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    allow_replication_factor_change: Bool = field(
        "1+",
        default=True,
        ignorable=True,
        doc="What the request said about other numbers of replicas.",
    )
    error_code: Int16 = field(doc="Error of the whole request, such as 7, 31 or 41.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    responses: list[ReassignableTopicResponse] = field(doc="One entry per topic of the request.")
