"""ElectLeaders (key 43): have the controller elect leaders of partitions now.

A preferred election gives leadership back to the first replica, an unclean one takes a replica out
of sync where there is no leader, and loses records for it. A broker forwards the request. Every
partition succeeds or fails alone.

v0 of KIP-183 has preferred elections alone; v1 adds unclean ones and a top-level error (KIP-460),
v2 is flexible (KIP-482). The caller must be allowed to alter the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class TopicPartitions(Struct):
    """Partitions of one topic to elect leaders for."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ElectLeadersRequest(
    Request["ElectLeadersResponse"], api_key=43, versions="0-2", flexible="2+"
):
    """Has the controller elect leaders of partitions now."""

    election_type: Int8 = field(
        "1+",
        doc="0 preferred, 1 unclean; v0 is always preferred.",
    )
    topic_partitions: list[TopicPartitions] | None = field(
        doc="The topics, each at most once; null for all partitions there are, empty for none.",
    )
    timeout_ms: Int32 = field(
        default=60000,
        doc="Milliseconds to wait for the elections; what was begun goes on after error 7.",
    )


class PartitionResult(Struct):
    """What became of one partition."""

    partition_id: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0 when it has a new leader; 3 no such partition, 80 the preferred replica cannot "
            "lead, 83 no replica can, 84 no election was needed: the preferred one leads or, if "
            "unclean, any."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class ReplicaElectionResult(Struct):
    """What became of the partitions of one topic."""

    topic: String = field(doc="Name of the topic.")
    partition_result: list[PartitionResult] = field(
        doc=(
            "One entry per partition of the request; when that asked for all, those with error 84 "
            "are left out."
        ),
    )


class ElectLeadersResponse(Message, api_key=43, kind="response", versions="0-2", flexible="2+"):
    """What became of the elections."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        "1+",
        doc="Error of the whole request, such as 31 or 41; at v0 every partition has it instead.",
    )
    replica_election_results: list[ReplicaElectionResult] = field(
        doc="One entry per topic; empty when a request for all failed.",
    )
