"""AddPartitionsToTxn (key 24): partitions become part of a transaction (KIP-98).

Up to v3 a producer sends it before it writes to a partition. From v4 on brokers send it for many
transactions at once, also only to ask whether a partition is part (KIP-890), which is why the
older fields have other names.

v1 throttles after the answer (KIP-219), v2 allows error 90 (KIP-588), v3 is flexible, v5 allows
error 120 (KIP-890).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, Int64, String


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class AddPartitionsToTxnTransaction(Struct):
    """A transaction and its partitions."""

    transactional_id: String = field("4+", doc="Id of the producer's transactions.")
    producer_id: Int64 = field("4+", doc="Id of the producer.")
    producer_epoch: Int16 = field("4+", doc="Epoch that goes with it; an old one is fenced.")
    verify_only: Bool = field(
        "4+",
        doc="Whether to ask if the partitions are part, without adding them.",
    )
    topics: list[AddPartitionsToTxnTopic] = field("4+", doc="The partitions.")


class AddPartitionsToTxnRequest(
    Request["AddPartitionsToTxnResponse"], api_key=24, versions="0-5", flexible="3+"
):
    """Adds partitions to transactions."""

    transactions: list[AddPartitionsToTxnTransaction] = field(
        "4+",
        doc="The transactions, from v4 on.",
    )
    v3_and_below_transactional_id: String = field(
        "0-3",
        doc="Id of the producer's transactions, up to v3.",
    )
    v3_and_below_producer_id: Int64 = field("0-3", doc="Id of the producer, up to v3.")
    v3_and_below_producer_epoch: Int16 = field("0-3", doc="Epoch that goes with it, up to v3.")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(
        "0-3",
        doc="The partitions, up to v3.",
    )


class AddPartitionsToTxnPartitionResult(Struct):
    """What became of one partition."""

    partition_index: Int32 = field(doc="Number of the partition.")
    partition_error_code: Int16 = field(
        doc=(
            "0. 51: try again, the last transaction still ends; 90 (47 up to v1) or 49: the "
            "producer is fenced; 55: another partition was refused; 120 (v4+, when only "
            "verifying) not a part of it; 14, 15 or 16: no coordinator here now; 3, 29, 42, 48, "
            "53."
        ),
    )


class AddPartitionsToTxnTopicResult(Struct):
    """What became of one topic's partitions."""

    name: String = field(doc="Name of the topic.")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        doc="One entry per partition.",
    )


class AddPartitionsToTxnResult(Struct):
    """What became of one transaction's partitions."""

    transactional_id: String = field("4+", doc="Id of the producer's transactions.")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+", doc="One entry per topic.")


class AddPartitionsToTxnResponse(
    Message, api_key=24, kind="response", versions="0-5", flexible="3+"
):
    """What became of the partitions."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field("4+", ignorable=True, doc="Error of the whole request: 31.")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        "4+",
        doc="One entry per transaction, from v4 on.",
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        "0-3",
        doc="One entry per topic, up to v3.",
    )
