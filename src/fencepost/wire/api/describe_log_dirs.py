"""DescribeLogDirs (key 35): how much of which partition lies in which log directory of a broker.

KIP-113. v1 throttles after the answer (KIP-219), v2 is flexible, v3 adds a top-level error, v4
the volume's size (KIP-827), v5 whether the directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class DescribableLogDirTopic(Struct):
    """A topic to report on."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class DescribeLogDirsRequest(
    Request["DescribeLogDirsResponse"], api_key=35, versions="0-5", flexible="2+"
):
    """Asks one broker for its log directories."""

    topics: list[DescribableLogDirTopic] | None = field(doc="Topics to report on; null for all.")


class DescribeLogDirsPartition(Struct):
    """A partition in a log directory."""

    partition_index: Int32 = field(doc="Number of the partition.")
    partition_size: Int64 = field(doc="Bytes of its segments.")
    offset_lag: Int64 = field(
        doc=(
            "Records it is behind: a future copy the current one, a current one the high watermark."
        ),
    )
    is_future_key: Bool = field(
        doc="Whether this is a copy that is to replace the one in another directory.",
    )


class DescribeLogDirsTopic(Struct):
    """A topic in a log directory."""

    name: String = field(doc="Name of the topic.")
    partitions: list[DescribeLogDirsPartition] = field(doc="Its partitions there.")


class DescribeLogDirsResult(Struct):
    """One log directory."""

    error_code: Int16 = field(doc="0, or 56 when the directory is offline.")
    log_dir: String = field(doc="Absolute path.")
    topics: list[DescribeLogDirsTopic] = field(doc="What lies there, of what was asked for.")
    total_bytes: Int64 = field(
        "4+",
        default=-1,
        ignorable=True,
        doc="Size of the volume; -1 when unknown.",
    )
    usable_bytes: Int64 = field(
        "4+",
        default=-1,
        ignorable=True,
        doc="Bytes of it that can still be written; -1 when unknown.",
    )
    is_cordoned: Bool = field(
        "5+",
        ignorable=True,
        doc="Whether the directory takes no new replicas.",
    )


class DescribeLogDirsResponse(Message, api_key=35, kind="response", versions="0-5", flexible="2+"):
    """The log directories of the broker that answers."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field("3+", ignorable=True, doc="0, or 31 when the caller may not see any.")
    results: list[DescribeLogDirsResult] = field(doc="One entry per log directory.")
