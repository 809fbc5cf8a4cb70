"""AlterPartition (key 56): a partition's leader asks the controller for another ISR (KIP-497).

v1 adds the recovery state (KIP-704), v2 names topics by id (KIP-841), v3 gives each member's
broker epoch, so that a broker that was restarted meanwhile is not taken for the one that had
caught up (KIP-903).

On an error, leader and epochs in the answer are zeros and mean nothing.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String, Uuid


class BrokerState(Struct):
    """A member of the new ISR."""

    broker_id: Int32 = field("3+", doc="Id of the broker.")
    broker_epoch: Int64 = field(
        "3+",
        default=-1,
        doc="Registration epoch in which it caught up; -1 is not checked.",
    )


class PartitionDataRequest(Struct, kafka_name="PartitionData"):
    """The change of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    leader_epoch: Int32 = field(doc="Epoch of the leader that asks.")
    new_isr: list[Int32] = field("0-2", doc="Brokers that are to be in sync, up to v2.")
    new_isr_with_epochs: list[BrokerState] = field(
        "3+",
        doc="Brokers that are to be in sync, from v3 on.",
    )
    leader_recovery_state: Int8 = field(
        "1+",
        doc="1 while the leader recovers from an unclean election, else 0.",
    )
    partition_epoch: Int32 = field(
        doc="Partition epoch the change starts from; an older one is error 95.",
    )


class TopicDataRequest(Struct, kafka_name="TopicData"):
    """The changes of one topic."""

    topic_name: String = field("0-1", ignorable=True, doc="Name of the topic, up to v1.")
    topic_id: Uuid = field("2+", ignorable=True, doc="Id of the topic, from v2 on.")
    partitions: list[PartitionDataRequest] = field(doc="One entry per partition.")


class AlterPartitionRequest(
    Request["AlterPartitionResponse"], api_key=56, versions="0-3", flexible="0+"
):
    """Asks for changes of partitions the sender leads."""

    broker_id: Int32 = field(doc="Id of the broker that asks.")
    broker_epoch: Int64 = field(default=-1, doc="Its registration epoch.")
    topics: list[TopicDataRequest] = field(doc="The topics.")


class PartitionDataResponse(Struct, kafka_name="PartitionData"):
    """What became of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0, or why it was refused; 108 although it was done, when it cost the leader its place."
        ),
    )
    leader_id: Int32 = field(doc="Broker that leads now.")
    leader_epoch: Int32 = field(doc="Its leader epoch.")
    isr: list[Int32] = field(doc="Brokers in sync now.")
    leader_recovery_state: Int8 = field(
        "1+",
        ignorable=True,
        doc="1 while the leader recovers from an unclean election, else 0.",
    )
    partition_epoch: Int32 = field(doc="Partition epoch now.")


class TopicDataResponse(Struct, kafka_name="TopicData"):
    """What became of one topic's partitions."""

    topic_name: String = field("0-1", ignorable=True, doc="Name of the topic, up to v1.")
    topic_id: Uuid = field("2+", ignorable=True, doc="Id of the topic, from v2 on.")
    partitions: list[PartitionDataResponse] = field(doc="One entry per partition of the request.")


class AlterPartitionResponse(Message, api_key=56, kind="response", versions="0-3", flexible="0+"):
    """What became of the changes."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="Error of the whole request: 31, 41 or 77.")
    topics: list[TopicDataResponse] = field(doc="One entry per topic of the request.")
