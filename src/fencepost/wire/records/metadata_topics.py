"""Metadata records about topics, partitions, their configs, and producer ids.

A partition is born by `PartitionRecord` and moves by `PartitionChangeRecord`. Two counters order
it: the partition epoch rises with every change, the leader epoch whenever a change names a
leader, even the same one. The second is the epoch that stands in record batches and that
everything is fenced with.

The transaction markers (KIP-868) bracket records that must be applied together although they do
not fit in one batch.
"""

from __future__ import annotations

from fencepost.wire.message import Message, field
from fencepost.wire.secrets import IF_CONFIG
from fencepost.wire.types import Int8, Int32, Int64, String, Uuid


class TopicRecord(Message, record_id=2, kind="metadata", versions="0", flexible="0+"):
    """A topic exists."""

    name: String = field(doc="Name of the topic.")
    topic_id: Uuid = field(doc="Its id, which no later topic of that name will share.")


class RemoveTopicRecord(Message, record_id=9, kind="metadata", versions="0", flexible="0+"):
    """A topic is gone, with its partitions and configs."""

    topic_id: Uuid = field(doc="Id of the topic.")


class PartitionRecord(Message, record_id=3, kind="metadata", versions="0-2", flexible="0+"):
    """A partition exists, in this state.

    v1 adds directories (KIP-858), v2 eligible leaders (KIP-966).
    """

    partition_id: Int32 = field(default=-1, doc="Number of the partition.")
    topic_id: Uuid = field(doc="Id of its topic.")
    replicas: list[Int32] = field(doc="Brokers that hold a copy, preferred leader first.")
    isr: list[Int32] = field(doc="Brokers whose copies are in sync.")
    removing_replicas: list[Int32] = field(doc="Replicas that a reassignment will take away.")
    adding_replicas: list[Int32] = field(doc="Replicas that a reassignment is bringing in.")
    leader: Int32 = field(default=-1, doc="Broker that leads; -1 for none.")
    leader_recovery_state: Int8 = field(
        tag=0,
        doc="1 while a leader that was elected uncleanly has not recovered, else 0.",
    )
    leader_epoch: Int32 = field(default=-1, doc="Term of the leader.")
    partition_epoch: Int32 = field(default=-1, doc="Counter of changes to this partition.")
    directories: list[Uuid] = field(
        "1+",
        doc="Log directory of each replica, in the order of `replicas`.",
    )
    eligible_leader_replicas: list[Int32] | None = field(
        "2+",
        tag=1,
        default=None,
        doc="Brokers outside the ISR that still hold all committed data; null for none.",
    )
    last_known_elr: list[Int32] | None = field(
        "2+",
        tag=2,
        default=None,
        doc="Last eligible leaders before an unclean shutdown; null for none.",
    )


class PartitionChangeRecord(Message, record_id=5, kind="metadata", versions="0-2", flexible="0+"):
    """What has changed about a partition; fields at their default say nothing.

    v1 adds directories (KIP-858), v2 eligible leaders (KIP-966). The tags are not in the order of
    the fields.
    """

    partition_id: Int32 = field(default=-1, doc="Number of the partition.")
    topic_id: Uuid = field(doc="Id of its topic.")
    isr: list[Int32] | None = field(
        tag=0,
        default=None,
        doc="The new in-sync brokers; null as before.",
    )
    leader: Int32 = field(
        tag=1,
        default=-2,
        doc="The new leader, -1 for none, -2 as before; anything but -2 raises the leader epoch.",
    )
    replicas: list[Int32] | None = field(
        tag=2,
        default=None,
        doc="The new replicas, preferred leader first; null as before.",
    )
    removing_replicas: list[Int32] | None = field(
        tag=3,
        default=None,
        doc="Replicas a reassignment will take away; null as before.",
    )
    adding_replicas: list[Int32] | None = field(
        tag=4,
        default=None,
        doc="Replicas a reassignment is bringing in; null as before.",
    )
    leader_recovery_state: Int8 = field(
        tag=5,
        default=-1,
        doc="0 recovered, 1 recovering from an unclean election, -1 as before.",
    )
    directories: list[Uuid] | None = field(
        "1+",
        tag=8,
        default=None,
        doc="Log directory of each replica; null as before.",
    )
    eligible_leader_replicas: list[Int32] | None = field(
        "2+",
        tag=6,
        default=None,
        doc="The new eligible leaders; null as before.",
    )
    last_known_elr: list[Int32] | None = field(
        "2+",
        tag=7,
        default=None,
        doc="The new last known eligible leaders; null as before.",
    )


class ConfigRecord(Message, record_id=4, kind="metadata", versions="0", flexible="0+"):
    """A dynamic config has a new value, or none any more."""

    resource_type: Int8 = field(doc="2 topic, 4 broker, 16 client metrics, 32 group.")
    resource_name: String = field(
        doc="Topic, broker id or other name; empty for the default of all brokers.",
    )
    name: String = field(doc="Name of the config.")
    value: String | None = field(secret=IF_CONFIG, doc="The value; null removes it.")


class ClearElrRecord(Message, record_id=28, kind="metadata", versions="0", flexible="0+"):
    """Eligible leaders are forgotten, because `min.insync.replicas` changed (KIP-966)."""

    topic_name: String = field(doc="Topic whose partitions are meant; empty for all topics.")


class ProducerIdsRecord(Message, record_id=15, kind="metadata", versions="0", flexible="0+"):
    """A block of producer ids was given out (KIP-730)."""

    broker_id: Int32 = field(doc="Broker that got the block.")
    broker_epoch: Int64 = field(default=-1, doc="Registration epoch of that broker.")
    next_producer_id: Int64 = field(doc="First id that has not been given out.")


class NoOpRecord(Message, record_id=20, kind="metadata", versions="0", flexible="0+"):
    """Nothing: written so that the log moves while nothing happens (KIP-835)."""


class BeginTransactionRecord(Message, record_id=23, kind="metadata", versions="0", flexible="0+"):
    """What follows takes effect only together, at the end record."""

    name: String | None = field(
        tag=0,
        default=None,
        doc="What the transaction is for, as a help for readers.",
    )


class EndTransactionRecord(Message, record_id=24, kind="metadata", versions="0", flexible="0+"):
    """The records since the begin record take effect now."""


class AbortTransactionRecord(Message, record_id=25, kind="metadata", versions="0", flexible="0+"):
    """The records since the begin record never happened."""

    reason: String | None = field(
        tag=0,
        default=None,
        doc="Why it was given up, as a help for readers.",
    )
