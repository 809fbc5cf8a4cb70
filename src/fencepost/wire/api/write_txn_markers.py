"""WriteTxnMarkers (key 27): a transaction coordinator has the end written into partitions (KIP-98).

v1 is flexible; v2 adds the transaction protocol's version, by which the leader knows how strict
to be about the epoch (KIP-1228).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: String = field(doc="Name of the topic.")
    partition_indexes: list[Int32] = field(doc="Numbers of the partitions.")


class WritableTxnMarker(Struct):
    """The end of one transaction."""

    producer_id: Int64 = field(doc="Id of the producer.")
    producer_epoch: Int16 = field(doc="Epoch that goes with it.")
    transaction_result: Bool = field(doc="Whether it was committed; otherwise aborted.")
    topics: list[WritableTxnMarkerTopic] = field(doc="The partitions to write the marker into.")
    coordinator_epoch: Int32 = field(
        doc="Epoch of the coordinator; an older one than the partition knows is refused.",
    )
    transaction_version: Int8 = field(
        "2+",
        ignorable=True,
        doc="Protocol of the transaction: 2 for KIP-890's, 0 and 1 for the older ones.",
    )


class WriteTxnMarkersRequest(
    Request["WriteTxnMarkersResponse"], api_key=27, versions="0-2", flexible="1+"
):
    """Writes markers into partitions the receiver leads."""

    markers: list[WritableTxnMarker] = field(doc="The markers.")


class WritableTxnMarkerPartitionResult(Struct):
    """What became of one marker."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why it was not written.")


class WritableTxnMarkerTopicResult(Struct):
    """What became of the markers of one topic."""

    name: String = field(doc="Name of the topic.")
    partitions: list[WritableTxnMarkerPartitionResult] = field(doc="One entry per partition.")


class WritableTxnMarkerResult(Struct):
    """What became of one transaction's markers."""

    producer_id: Int64 = field(doc="Id of the producer.")
    topics: list[WritableTxnMarkerTopicResult] = field(doc="One entry per topic.")


class WriteTxnMarkersResponse(Message, api_key=27, kind="response", versions="0-2", flexible="1+"):
    """What became of the markers."""

    markers: list[WritableTxnMarkerResult] = field(doc="One entry per transaction.")
