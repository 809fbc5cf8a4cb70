"""Records of `__consumer_offsets` for share groups (KIP-932).

As with groups of the newer consumer protocol, a group is spread over several keys. What it has
consumed is not among them: that is in `__share_group_state` (`share`), and here is only of which
partitions there is something.

The early access of Kafka 4.0 wrote values of version 0, too, but two of them were shorter: the
group's had no hash, and that of state partitions no topics that are being initialized. Those
declared here are Kafka 4.1's and later, and the shorter ones are DecodeErrors.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int8, Int32, Int64, String, Uuid


class ShareGroupPartitionMetadataKey(
    Message, record_id=9, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group. Of early access only, replaced by the hash in `ShareGroupMetadataValue`."""

    group_id: String = field("0", doc="Id of the group.")


class PartitionMetadata(Struct):
    """Where the replicas of a partition are."""

    partition: Int32 = field(doc="Number of the partition.")
    racks: list[String] = field(doc="Racks of its replicas, sorted; empty when none is known.")


class TopicMetadata(Struct):
    """What the group knew of a subscribed topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")
    num_partitions: Int32 = field(doc="How many partitions it had.")
    partition_metadata: list[PartitionMetadata] = field(
        doc="Racks per partition; empty when no rack is known.",
    )


class ShareGroupPartitionMetadataValue(
    Message, record_id=9, kind="coordinator-value", versions="0", flexible="0+"
):
    """What the group knew of its topics."""

    topics: list[TopicMetadata] = field(doc="The subscribed topics.")


class ShareGroupMemberMetadataKey(
    Message, record_id=10, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class ShareGroupMemberMetadataValue(
    Message, record_id=10, kind="coordinator-value", versions="0", flexible="0+"
):
    """A member and its subscription."""

    rack_id: String | None = field(doc="Rack of the member, or null when it gave none.")
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    subscribed_topic_names: list[String] = field(doc="Names of the topics it subscribes to.")


class ShareGroupMetadataKey(
    Message, record_id=11, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class ShareGroupMetadataValue(
    Message, record_id=11, kind="coordinator-value", versions="0", flexible="0+"
):
    """The group's epoch."""

    epoch: Int32 = field(doc="Counter of changes of members, subscriptions or topics.")
    metadata_hash: Int64 = field(
        doc=(
            "Hash of the subscribed topics' state, by which a change is noticed (KIP-1101); 0 for "
            "none."
        ),
    )


class ShareGroupTargetAssignmentMetadataKey(
    Message, record_id=12, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class ShareGroupTargetAssignmentMetadataValue(
    Message, record_id=12, kind="coordinator-value", versions="0", flexible="0+"
):
    """For which epoch the target assignment was made."""

    assignment_epoch: Int32 = field(doc="Group epoch the target belongs to.")
    assignment_timestamp: Int64 = field(
        tag=0,
        ignorable=True,
        doc="Milliseconds since 1970 at which it was made; 0 before 4.3 (KIP-1263).",
    )


class ShareGroupTargetAssignmentMemberKey(
    Message, record_id=13, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class TopicPartition(Struct):
    """Partitions of one topic in a target assignment."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ShareGroupTargetAssignmentMemberValue(
    Message, record_id=13, kind="coordinator-value", versions="0", flexible="0+"
):
    """What a member is to fetch from as of the target's epoch; others may be given the same."""

    topic_partitions: list[TopicPartition] = field(doc="The partitions, by topic.")


class ShareGroupCurrentMemberAssignmentKey(
    Message, record_id=14, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class TopicPartitions(Struct):
    """Partitions of one topic that a member fetches from."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ShareGroupCurrentMemberAssignmentValue(
    Message, record_id=14, kind="coordinator-value", versions="0", flexible="0+"
):
    """What a member was last told to fetch from."""

    member_epoch: Int32 = field(doc="Group epoch the member has reached.")
    previous_member_epoch: Int32 = field(
        doc="Epoch before that, still accepted from a member that missed an answer.",
    )
    state: Int8 = field(doc="0, stable: no member waits for others to give up partitions.")
    assigned_partitions: list[TopicPartitions] = field(doc="Partitions it fetches from.")


class ShareGroupStatePartitionMetadataKey(
    Message, record_id=15, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class TopicPartitionsInfo(Struct):
    """Partitions of one topic with a state."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class TopicInfo(Struct):
    """A topic, with all its partitions."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")


class ShareGroupStatePartitionMetadataValue(
    Message, record_id=15, kind="coordinator-value", versions="0", flexible="0+"
):
    """Of which partitions the share coordinators keep a state for the group."""

    initializing_topics: list[TopicPartitionsInfo] = field(
        doc="Partitions whose state they have been asked to begin.",
    )
    initialized_topics: list[TopicPartitionsInfo] = field(doc="Partitions with a state.")
    deleting_topics: list[TopicInfo] = field(
        doc="Topics whose state they have been asked to delete.",
    )
