"""DescribeTopicPartitions (key 75): partitions of topics, a page at a time (KIP-966).

Sent by the administrator's client to any broker. Where Metadata puts all partitions into one
answer, this one has a limit, and a cursor to go on from; and it tells the eligible leader replicas.
Topics are sorted by name and partitions by number, so pages are stable while topics come and go.
The caller sees topics it may DESCRIBE.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String, Uuid


class TopicRequest(Struct):
    """A topic to describe."""

    name: String = field(doc="Name of the topic.")


class Cursor(Struct):
    """The first partition of a page."""

    topic_name: String = field(
        doc="Topic to begin with; smaller names are left out. Error 42 if it is not asked for.",
    )
    partition_index: Int32 = field(
        doc="Partition of that topic to begin with; below 0 is error 42.",
    )


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], api_key=75, versions="0", flexible="0+"
):
    """Asks for a page of partitions."""

    topics: list[TopicRequest] = field(doc="The topics, in any order; empty for all topics.")
    response_partition_limit: Int32 = field(
        default=2000,
        doc=(
            "Most partitions to return. Brokers have a limit of their own besides "
            "(`max.request.partition.size.limit`) and return at least one."
        ),
    )
    cursor: Cursor | None = field(
        default=None,
        doc="Where the page begins, from the last answer; null for the first page.",
    )


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition."""

    error_code: Int16 = field(doc="0, or why the partition is not described.")
    partition_index: Int32 = field(doc="Number of the partition.")
    leader_id: Int32 = field(doc="Broker that leads; -1 when there is none that can be reached.")
    leader_epoch: Int32 = field(
        default=-1,
        ignorable=True,
        doc="Its leader epoch; -1 when unknown.",
    )
    replica_nodes: list[Int32] = field(doc="Brokers that have a replica assigned.")
    isr_nodes: list[Int32] = field(doc="Those of them that are in sync with the leader.")
    eligible_leader_replicas: list[Int32] | None = field(
        default=None,
        doc=(
            "Brokers out of sync that yet have all committed records, and may lead when none "
            "in sync can; null when not told."
        ),
    )
    last_known_elr: list[Int32] | None = field(
        default=None,
        doc=(
            "Brokers that were eligible, until they went down uncleanly: candidates to recover "
            "from by hand; null when not told."
        ),
    )
    offline_replicas: list[Int32] = field(
        ignorable=True,
        doc="Brokers whose replica cannot be used: they are down, or its directory is.",
    )


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or the part of it that is on this page."""

    error_code: Int16 = field(doc="0; 3 unknown name, 17 illegal name, 29 not authorized.")
    name: String | None = field(doc="Name of the topic; null is allowed, but not to be expected.")
    topic_id: Uuid = field(
        ignorable=True,
        doc="Id of the topic; zero on an error.",
    )
    is_internal: Bool = field(
        default=False,
        ignorable=True,
        doc="Whether the cluster itself uses it, as `__consumer_offsets`.",
    )
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        doc="Its partitions on this page.",
    )
    topic_authorized_operations: Int32 = field(
        default=-0x80000000,
        doc=(
            "Bit set of what the caller may do, filled in without being asked for; the least int32 "
            "for a topic it may not see."
        ),
    )


class DescribeTopicPartitionsResponse(
    Message, api_key=75, kind="response", versions="0", flexible="0+"
):
    """A page of partitions."""

    throttle_time_ms: Int32 = field(
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        doc="The topics of this page; those the caller may not see stand last.",
    )
    next_cursor: Cursor | None = field(
        default=None,
        doc="Where the next page begins; null when this is the last.",
    )
