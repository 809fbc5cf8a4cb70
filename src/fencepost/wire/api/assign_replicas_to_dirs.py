"""AssignReplicasToDirs (key 73): in which log directory a broker keeps its replicas (KIP-858).

Sent by brokers with several log directories to the controller, when they have placed a new
replica, moved one to another directory, or found one in a directory the controller does not think
it is in. Once the controller knows, the loss of a directory costs the broker just the replicas in
it. metadata.version 3.7-IV2 or later, else error 35. Brokers put at most 2250 replicas into a
request. The request needs CLUSTER_ACTION.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, Uuid


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """A replica in the directory."""

    partition_index: Int32 = field(doc="Number of the partition.")


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """A topic with replicas in the directory."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionDataRequest] = field(doc="Partitions the broker keeps in it.")


class DirectoryDataRequest(Struct, kafka_name="DirectoryData"):
    """A log directory."""

    id: Uuid = field(
        doc=(
            "Id of the directory, from its meta.properties. If it is none of those the broker "
            "has said are online, its replicas count as offline."
        ),
    )
    topics: list[TopicDataRequest] = field(doc="What the broker keeps in it.")


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"], api_key=73, versions="0", flexible="0+"
):
    """Tells the controller where replicas are; those left out stay where they are."""

    broker_id: Int32 = field(doc="Id of the broker that asks.")
    broker_epoch: Int64 = field(
        default=-1,
        doc="Its registration epoch; error 77 when it is not the latest.",
    )
    directories: list[DirectoryDataRequest] = field(doc="One entry per directory.")


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """What became of one replica."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0; 100 unknown topic id, 3 no such partition, 6 the broker has no replica of it "
            "assigned."
        ),
    )


class TopicDataResponse(Struct, kafka_name="TopicData"):
    """What became of one topic's replicas."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionDataResponse] = field(doc="One entry per partition of the request.")


class DirectoryDataResponse(Struct, kafka_name="DirectoryData"):
    """What became of one directory's replicas."""

    id: Uuid = field(doc="Id of the directory.")
    topics: list[TopicDataResponse] = field(doc="One entry per topic of the request.")


class AssignReplicasToDirsResponse(
    Message, api_key=73, kind="response", versions="0", flexible="0+"
):
    """Which of the replicas the controller has noted."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "Error of the whole request: 31, 35, 41 not the active controller, 77, 102 the "
            "broker is not registered."
        ),
    )
    directories: list[DirectoryDataResponse] = field(
        doc="One entry per directory of the request; empty when the whole request is refused.",
    )
