"""Records of `__consumer_offsets` for groups of the newer consumer protocol (KIP-848).

A group is spread over several keys: its epoch, its members' subscriptions, the target assignment
with the epoch it was made for, and for each member how far it has come towards its target.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Bytes, Int8, Int32, Int64, String, Uuid


class ConsumerGroupMetadataKey(
    Message, record_id=3, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class ConsumerGroupMetadataValue(
    Message, record_id=3, kind="coordinator-value", versions="0", flexible="0+"
):
    """The group's epoch."""

    epoch: Int32 = field(doc="Counter of changes of members, subscriptions or topics.")
    metadata_hash: Int64 = field(
        tag=0,
        doc=(
            "Hash of the subscribed topics' state, by which a change is noticed; 0 for none "
            "(KIP-1101)."
        ),
    )


class ConsumerGroupPartitionMetadataKey(
    Message, record_id=4, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group. Replaced by the hash in `ConsumerGroupMetadataValue`; still read."""

    group_id: String = field("0", doc="Id of the group.")


class PartitionMetadata(Struct):
    """Where the replicas of a partition are."""

    partition: Int32 = field(doc="Number of the partition.")
    racks: list[String] = field(doc="Racks of its replicas, sorted.")


class TopicMetadata(Struct):
    """What the group knew of a subscribed topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")
    num_partitions: Int32 = field(doc="How many partitions it had.")
    partition_metadata: list[PartitionMetadata] = field(
        doc="Racks per partition; empty when no rack is known.",
    )


class ConsumerGroupPartitionMetadataValue(
    Message, record_id=4, kind="coordinator-value", versions="0", flexible="0+"
):
    """What the group knew of its topics."""

    topics: list[TopicMetadata] = field(doc="The subscribed topics.")


class ConsumerGroupMemberMetadataKey(
    Message, record_id=5, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class ClassicProtocol(Struct):
    """A protocol that a member of the classic kind supports."""

    name: String = field(doc="Name of the assignor.")
    metadata: Bytes = field(doc="Its `ConsumerProtocolSubscription`, with version.")


class ClassicMemberMetadata(Struct):
    """What is kept of a member that still speaks the classic protocol."""

    session_timeout_ms: Int32 = field(doc="Milliseconds without a heartbeat after which it is out.")
    supported_protocols: list[ClassicProtocol] = field(
        doc="Protocols it supports, in order of preference.",
    )


class ConsumerGroupMemberMetadataValue(
    Message, record_id=5, kind="coordinator-value", versions="0", flexible="0+"
):
    """A member and its subscription."""

    instance_id: String | None = field(doc="Id a static member brings along, or null.")
    rack_id: String | None = field(doc="Rack of the member, or null.")
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    subscribed_topic_names: list[String] = field(doc="Topics subscribed to by name.")
    subscribed_topic_regex: String | None = field(
        doc="Pattern subscribed to, in RE2 syntax, or null.",
    )
    rebalance_timeout_ms: Int32 = field(
        default=-1,
        doc="Milliseconds it may take to give up partitions; -1 when unknown.",
    )
    server_assignor: String | None = field(
        doc="Assignor it asks for, or null for the group's default.",
    )
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0,
        doc=(
            "Set for a member of the classic kind (KIP-848 migration), else null, which is written:"
            " without the tag a member is of the classic kind."
        ),
    )


class ConsumerGroupTargetAssignmentMetadataKey(
    Message, record_id=6, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class ConsumerGroupTargetAssignmentMetadataValue(
    Message, record_id=6, kind="coordinator-value", versions="0", flexible="0+"
):
    """For which epoch the target assignment was made."""

    assignment_epoch: Int32 = field(doc="Group epoch the target belongs to.")
    assignment_timestamp: Int64 = field(
        tag=0,
        ignorable=True,
        doc="Milliseconds since 1970 at which it was made; 0 when not kept.",
    )


class ConsumerGroupTargetAssignmentMemberKey(
    Message, record_id=7, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class TopicPartition(Struct):
    """Partitions of one topic in a target assignment."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ConsumerGroupTargetAssignmentMemberValue(
    Message, record_id=7, kind="coordinator-value", versions="0", flexible="0+"
):
    """What a member is to have once everyone has given up what is not theirs."""

    topic_partitions: list[TopicPartition] = field(doc="The partitions, by topic.")


class ConsumerGroupCurrentMemberAssignmentKey(
    Message, record_id=8, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class TopicPartitions(Struct):
    """Partitions of one topic that a member holds."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")
    assignment_epochs: list[Int32] | None = field(
        tag=0,
        default=None,
        doc=(
            "Member epoch at which each partition was given, in the order of `partitions`; null "
            "when not kept."
        ),
    )


class ConsumerGroupCurrentMemberAssignmentValue(
    Message, record_id=8, kind="coordinator-value", versions="0", flexible="0+"
):
    """How far a member has come towards its target."""

    member_epoch: Int32 = field(doc="Group epoch the member has reached.")
    previous_member_epoch: Int32 = field(
        doc="Epoch before that, still accepted from a member that missed an answer.",
    )
    state: Int8 = field(
        doc="0 stable, 1 has partitions to give up, 2 waits for partitions others still hold.",
    )
    assigned_partitions: list[TopicPartitions] = field(doc="Partitions it holds.")
    partitions_pending_revocation: list[TopicPartitions] = field(
        doc="Partitions it has been told to give up.",
    )


class ConsumerGroupRegularExpressionKey(
    Message, record_id=16, kind="coordinator-key", versions="0", flexible="none"
):
    """Which pattern of which group."""

    group_id: String = field("0", doc="Id of the group.")
    regular_expression: String = field("0", doc="The pattern.")


class ConsumerGroupRegularExpressionValue(
    Message, record_id=16, kind="coordinator-value", versions="0", flexible="0+"
):
    """The topics a pattern matched."""

    topics: list[String] = field(doc="Names of the topics.")
    version: Int64 = field(doc="Offset of the metadata in which they were looked up.")
    timestamp: Int64 = field(doc="Milliseconds since 1970 of that look-up.")
