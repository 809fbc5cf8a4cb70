"""ShareFetch (key 78): a share consumer acquires records of partitions and settles earlier ones.

It goes to the leaders of the partitions (KIP-932). A record that is handed out is locked for the
consumer that got it; until the lock runs out, the consumer says for each offset what became of it,
here or in ShareAcknowledge. What is not settled in time is handed out again.

Every fetch is part of a share session between one member and one broker. The first request of a
session names the partitions, later ones only those that are new, have acknowledgements or are to
be dropped. Acknowledgements are taken in before records are looked for, and have an error of their
own, so that one may fail and the other succeed.

* v0 was early access in Kafka 4.0, never stable, and is gone from 4.1 on; v1 cannot be read as v0.
* v1 is the first stable version: a number of records replaces the bytes per partition as the
  limit, and the answer says how long records stay locked.
* v2 can ask for no more records than the limit (KIP-1206) and can renew locks (KIP-1222).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, Records, String, Uuid


class AcknowledgementBatch(Struct):
    """What became of a range of records the member had acquired."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    acknowledge_types: list[Int8] = field(
        doc=(
            "One number for the whole range or one per offset: 0 there is no record at the offset, "
            "1 it was processed, 2 hand it out again, 3 never again, and from v2 on 4 lock it for "
            "longer."
        ),
    )


class FetchPartition(Struct):
    """A partition to acquire records of, to settle records of, or both."""

    partition_index: Int32 = field(doc="Number of the partition.")
    partition_max_bytes: Int32 = field(
        "0",
        doc="Limit for this partition, in bytes; 0 only acknowledges. In v0 alone.",
    )
    acknowledgement_batches: list[AcknowledgementBatch] = field(
        doc="What became of acquired records, in order of offsets; empty for nothing new.",
    )


class FetchTopic(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[FetchPartition] = field(doc="One entry per partition.")


class ForgottenTopic(Struct):
    """Partitions to take out of the share session."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ShareFetchRequest(Request["ShareFetchResponse"], api_key=78, versions="0-2", flexible="0+"):
    """Acquires records, waiting up to `max_wait_ms` for `min_bytes`."""

    group_id: String | None = field(
        default=None,
        doc="Id of the group; a broker refuses null with error 42.",
    )
    member_id: String | None = field(
        doc="Id of the member; a broker refuses null, the empty one and more than 36 letters.",
    )
    share_session_epoch: Int32 = field(
        doc=(
            "0 opens a session, without acknowledgements; -1 closes it and releases what is still "
            "locked; otherwise one more than last time. A wrong one is error 123."
        ),
    )
    max_wait_ms: Int32 = field(doc="Milliseconds the answer may be held back for want of data.")
    min_bytes: Int32 = field(doc="Bytes that are worth answering for before the wait is over.")
    max_bytes: Int32 = field(
        default=0x7FFFFFFF,
        doc="Limit of all partitions together, in bytes; the first batch found may exceed it.",
    )
    max_records: Int32 = field(
        "1+",
        doc=(
            "Limit of records to acquire, exceeded up to the end of a batch unless "
            "`share_acquire_mode` is 1."
        ),
    )
    batch_size: Int32 = field(
        "1+",
        doc="How many records the entries of `acquired_records` should cover at best.",
    )
    share_acquire_mode: Int8 = field(
        "2+",
        ignorable=True,
        doc="0 acquires whole batches, 1 holds to `max_records` exactly (KIP-1206).",
    )
    is_renew_ack: Bool = field(
        "2+",
        doc=(
            "Whether acknowledgements of type 4 are among them (KIP-1222); nothing is fetched "
            "then, and wait, least bytes and both limits must be 0."
        ),
    )
    topics: list[FetchTopic] = field(
        doc="Partitions to read; in a session, those that are new or have acknowledgements.",
    )
    forgotten_topics_data: list[ForgottenTopic] = field(
        doc="Partitions to drop from the session.",
    )


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of."""

    leader_id: Int32 = field(doc="Broker that leads; -1 when unknown, 0 also without an error.")
    leader_epoch: Int32 = field(doc="Epoch of that leader; -1 when unknown.")


class AcquiredRecords(Struct):
    """A range of records that is locked for the member now."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    delivery_count: Int16 = field(
        doc="How often the records have been handed out, this time included.",
    )


class PartitionData(Struct):
    """What one partition has to offer, and what became of its acknowledgements."""

    partition_index: Int32 = field(doc="Number of the partition.")
    error_code: Int16 = field(doc="0, or why there are no records.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong with fetching in words, or null when nothing did.",
    )
    acknowledge_error_code: Int16 = field(
        doc="0, or why acknowledgements were refused; 121 when the member had lost the lock.",
    )
    acknowledge_error_message: String | None = field(
        default=None,
        doc="What went wrong with acknowledging in words, or null when nothing did.",
    )
    current_leader: LeaderIdAndEpoch = field(
        doc="The leader to turn to, with errors 6 and 74; says nothing otherwise.",
    )
    records: Records | None = field(
        nullable="0",
        doc=(
            "Whole batches, which may begin before the first acquired offset and end behind the "
            "last: only what `acquired_records` covers is the member's. Null only at v0."
        ),
    )
    acquired_records: list[AcquiredRecords] = field(
        doc="The records the member has got, in order of offsets.",
    )


class ShareFetchableTopicResponse(Struct):
    """What the partitions of one topic have to offer."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[PartitionData] = field(
        doc="One entry per partition that has something to say.",
    )


class NodeEndpoint(Struct):
    """Where a broker named in `current_leader` is reached."""

    node_id: Int32 = field(doc="Id of the broker.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: Int32 = field(doc="TCP port that goes with `host`.")
    rack: String | None = field(
        default=None,
        doc="Rack of the node, or null when it has none configured.",
    )


class ShareFetchResponse(Message, api_key=78, kind="response", versions="0-2", flexible="0+"):
    """The records acquired, and what became of the acknowledgements."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="Error of the whole request: 122, 123 and 133 concern the share session.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    acquisition_lock_timeout_ms: Int32 = field(
        "1+",
        doc="Milliseconds for which acquired records are locked, from the moment of acquiring.",
    )
    responses: list[ShareFetchableTopicResponse] = field(
        doc="The topics with records, acknowledgements or errors.",
    )
    node_endpoints: list[NodeEndpoint] = field(
        doc="Addresses of the brokers named as current leaders; empty for none.",
    )
