"""Produce (key 0): append record batches to partitions.

Each partition gets at most one batch. With `acks` 0 there is no response at all, and a broker
that could not append closes the connection instead; with 1 the leader answers after its own
append, with -1 once the in-sync replicas have it.

Brokers of 4.x read v3 and up but advertise 0, because an old librdkafka takes a higher minimum
for an ancient broker (KAFKA-18659).

* v1 adds the throttle time, v2 timestamps (KIP-32), v3 batch format 2 and transactions (KIP-98),
  v4 allows error 56 (KIP-112), v5 the log start offset (KIP-107), v6 throttles after the answer
  (KIP-219), v7 allows zstd (KIP-110).
* v8 says which record was refused (KIP-467), v9 is flexible (KIP-482), v10 points to the new
  leader (KIP-951), v11 allows error 120, v12 adds partitions to the transaction implicitly (both
  KIP-890), v13 names topics by id (KIP-516).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, Records, String, Uuid


class PartitionProduceData(Struct):
    """The batch for one partition."""

    index: Int32 = field(doc="Number of the partition.")
    records: Records | None = field(
        doc="Exactly one record batch of format 2 (v3+); older versions carried message sets.",
    )


class TopicProduceData(Struct):
    """The batches for one topic."""

    name: String = field("0-12", ignorable=True, doc="Name of the topic, up to v12.")
    topic_id: Uuid = field("13+", ignorable=True, doc="Id of the topic, from v13 on.")
    partition_data: list[PartitionProduceData] = field(doc="One entry per partition.")


class ProduceRequest(Request["ProduceResponse"], api_key=0, versions="0-13", flexible="9+"):
    """Appends batches and says how sure the producer wants to be."""

    transactional_id: String | None = field(
        "3+",
        default=None,
        doc="Id of the producer's transactions, or null outside of them.",
    )
    acks: Int16 = field(
        doc=("Replicas to wait for: 0 none, 1 the leader, -1 all in sync; others are error 21."),
    )
    timeout_ms: Int32 = field(
        doc="Milliseconds to wait for the replicas before answering with error 7.",
    )
    topic_data: list[TopicProduceData] = field(doc="One entry per topic.")


class BatchIndexAndErrorMessage(Struct):
    """A record because of which its whole batch was refused."""

    batch_index: Int32 = field("8+", doc="Position of the record in the batch, from 0.")
    batch_index_error_message: String | None = field(
        "8+",
        default=None,
        doc="Why this record was refused, or null.",
    )


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of, to save the client a Metadata request (KIP-951)."""

    leader_id: Int32 = field("10+", default=-1, doc="Broker that leads; -1 when unknown.")
    leader_epoch: Int32 = field("10+", default=-1, doc="Epoch of that leader; -1 when unknown.")


class PartitionProduceResponse(Struct):
    """What became of one partition's batch."""

    index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(
        doc=(
            "0 when appended, as far as `acks` asked. 3, 6, 56 or 100: ask for metadata; 19, 20 "
            "or 7: too few replicas, before the append, after it, or in time; 2, 10, 18, 32, 43, "
            "76 or 87: the batch is refused as it is; 45 or 46 a sequence number is missing or "
            "was there before, 47 the producer is fenced; 48, 49 or 120: not a part of the "
            "transaction; 17, 21, 29, 31, 53."
        ),
    )
    base_offset: Int64 = field(doc="Offset of the batch's first record; -1 on an error.")
    log_append_time_ms: Int64 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc="Time the broker stamped, where the topic uses append time; otherwise -1.",
    )
    log_start_offset: Int64 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="First offset that the partition still holds; -1 when unknown.",
    )
    record_errors: list[BatchIndexAndErrorMessage] = field(
        "8+",
        ignorable=True,
        doc="The records that caused the refusal, if they are known.",
    )
    error_message: String | None = field(
        "8+",
        default=None,
        ignorable=True,
        doc="A summary of the refusal, or null.",
    )
    current_leader: LeaderIdAndEpoch = field(
        "10+",
        tag=0,
        doc="Filled with errors 6 and 74: the leader to turn to.",
    )


class TopicProduceResponse(Struct):
    """What became of one topic's batches."""

    name: String = field("0-12", ignorable=True, doc="Name of the topic, up to v12.")
    topic_id: Uuid = field("13+", ignorable=True, doc="Id of the topic, from v13 on.")
    partition_responses: list[PartitionProduceResponse] = field(
        doc="One entry per partition of the request.",
    )


class NodeEndpoint(Struct):
    """Where a broker named in `current_leader` is reached."""

    node_id: Int32 = field("10+", doc="Id of the broker.")
    host: String = field("10+", doc="Host name or address a client can connect to.")
    port: Int32 = field("10+", doc="TCP port that goes with `host`.")
    rack: String | None = field(
        "10+",
        default=None,
        doc="Rack of the node, or null when it has none configured.",
    )


class ProduceResponse(Message, api_key=0, kind="response", versions="0-13", flexible="9+"):
    """The offsets the batches got, or the errors they met. Never sent for `acks` 0."""

    responses: list[TopicProduceResponse] = field(doc="One entry per topic of the request.")
    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        "10+",
        tag=0,
        doc="Addresses of the brokers named as current leaders.",
    )
