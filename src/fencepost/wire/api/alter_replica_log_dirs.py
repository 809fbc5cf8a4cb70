"""AlterReplicaLogDirs (key 34): move replicas of a broker to another of its log directories.

Sent to the broker that has the replicas. It answers as soon as the copying has begun; the end of it
shows in DescribeLogDirs, when the replica there is no longer a future one. A replica the broker
does not have yet is refused, with error 3 or 9, but the directory is remembered and used when it
comes; that is how a directory is chosen for a new replica.

KIP-113. v1 throttles after the answer (KIP-219), v2 is flexible (KIP-482). Since 4.0 brokers read
v1 and up (KIP-896). The caller must be allowed to alter the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String


class AlterReplicaLogDirTopic(Struct):
    """The partitions of one topic to move."""

    name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class AlterReplicaLogDir(Struct):
    """A directory and what is to move there."""

    path: String = field(doc="Absolute path, spelled as in the broker's `log.dirs`.")
    topics: list[AlterReplicaLogDirTopic] = field(doc="The topics, each at most once.")


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], api_key=34, versions="0-2", flexible="2+"
):
    """Moves replicas of the broker it is sent to into other directories."""

    dirs: list[AlterReplicaLogDir] = field(
        doc="The directories, each at most once; a partition is named under one of them.",
    )


class AlterReplicaLogDirPartitionResult(Struct):
    """What became of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0 when it moves or is there already; 3 no such partition, 9 no replica of it here, 17 "
            "the topic's name is too long for the move, 31 when the caller may not, 56 a directory "
            "is offline, 57 no such directory."
        ),
    )


class AlterReplicaLogDirTopicResult(Struct):
    """What became of the partitions of one topic."""

    topic_name: String = field(doc="Name of the topic.")
    partitions: list[AlterReplicaLogDirPartitionResult] = field(
        doc="One entry per partition of the request.",
    )


class AlterReplicaLogDirsResponse(
    Message, api_key=34, kind="response", versions="0-2", flexible="2+"
):
    """Whether the moves have begun; DescribeLogDirs tells when they are over."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[AlterReplicaLogDirTopicResult] = field(
        doc="One entry per topic of the request, whatever its directory.",
    )
