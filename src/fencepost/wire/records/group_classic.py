"""Records of `__consumer_offsets` for classic groups and for every group's offsets.

The type in front of the key was once a key version: types 0 and 1 are both committed offsets,
with the same key. A null value deletes.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Bytes, Int32, Int64, String, Uuid


class LegacyOffsetCommitKey(
    Message, record_id=0, kind="coordinator-key", versions="0", flexible="none"
):
    """An offset commit as written before 0.8.2; read like `OffsetCommitKey`."""

    group: String = field("0", name="group", doc="Id of the group.")
    topic: String = field("0", name="topic", doc="Name of the topic.")
    partition: Int32 = field("0", name="partition", doc="Number of the partition.")


class LegacyOffsetCommitValue(
    Message, record_id=0, kind="coordinator-value", versions="0", flexible="none"
):
    """The value that went with the oldest key."""

    offset: Int64 = field("0", name="offset", doc="Next offset to read.")
    metadata: String = field("0", name="metadata", doc="What the consumer noted with it.")
    commit_timestamp: Int64 = field(
        "0",
        name="commitTimestamp",
        doc="Milliseconds since 1970 at which it was committed.",
    )


class OffsetCommitKey(Message, record_id=1, kind="coordinator-key", versions="0", flexible="none"):
    """Whose offset, and in which partition."""

    group: String = field("0", name="group", doc="Id of the group.")
    topic: String = field("0", name="topic", doc="Name of the topic.")
    partition: Int32 = field("0", name="partition", doc="Number of the partition.")


class OffsetCommitValue(
    Message, record_id=1, kind="coordinator-value", versions="0-4", flexible="4+"
):
    """A committed offset.

    v1 had an expiry time, v2 dropped it, v3 adds the leader epoch (KIP-320), v4 is flexible and
    adds the topic id.
    """

    offset: Int64 = field(name="offset", doc="Next offset to read.")
    leader_epoch: Int32 = field(
        "3+",
        default=-1,
        ignorable=True,
        name="leaderEpoch",
        doc="Epoch of the last record read; -1 when unknown.",
    )
    metadata: String = field(name="metadata", doc="What the consumer noted with it.")
    commit_timestamp: Int64 = field(
        name="commitTimestamp",
        doc="Milliseconds since 1970 at which it was committed.",
    )
    expire_timestamp: Int64 = field(
        "1",
        default=-1,
        ignorable=True,
        name="expireTimestamp",
        doc="Milliseconds since 1970 at which it ends; -1 when the group's retention decides.",
    )
    topic_id: Uuid = field(
        "4+",
        tag=0,
        ignorable=True,
        name="topicId",
        doc="Id of the topic, so that a topic of the same name does not inherit the offset.",
    )


class GroupMetadataKey(Message, record_id=2, kind="coordinator-key", versions="0", flexible="none"):
    """Which classic group."""

    group: String = field("0", name="group", doc="Id of the group.")


class MemberMetadata(Struct):
    """A member of a classic group as of its last rebalance."""

    member_id: String = field(name="memberId", doc="Id the coordinator gave the member.")
    group_instance_id: String | None = field(
        "3+",
        default=None,
        ignorable=True,
        name="groupInstanceId",
        doc="Id a static member brings along (KIP-345), or null.",
    )
    client_id: String = field(name="clientId", doc="Client id the member sent.")
    client_host: String = field(name="clientHost", doc="Address it came from.")
    rebalance_timeout: Int32 = field(
        "1+",
        default=-1,
        ignorable=True,
        name="rebalanceTimeout",
        doc="Milliseconds it has to join again; -1 when not kept.",
    )
    session_timeout: Int32 = field(
        name="sessionTimeout",
        doc="Milliseconds without a heartbeat after which it is out.",
    )
    subscription: Bytes = field(
        name="subscription",
        doc="Its metadata for the protocol that was chosen.",
    )
    assignment: Bytes = field(name="assignment", doc="What the group's leader gave it.")


class GroupMetadataValue(
    Message, record_id=2, kind="coordinator-value", versions="0-4", flexible="4+"
):
    """A classic group as of its last rebalance.

    v1 adds rebalance timeouts, v2 the time of the state, v3 static members (KIP-345), v4 is
    flexible.
    """

    protocol_type: String = field(
        name="protocolType",
        doc="Kind of protocol, `consumer` for consumers.",
    )
    generation: Int32 = field(name="generation", doc="Number of the last rebalance.")
    protocol: String | None = field(
        name="protocol",
        doc="Name of the protocol that was chosen; null while there is none.",
    )
    leader: String | None = field(
        name="leader",
        doc="Member that assigns; null while there is none.",
    )
    current_state_timestamp: Int64 = field(
        "2+",
        default=-1,
        ignorable=True,
        name="currentStateTimestamp",
        doc="Milliseconds since 1970 of the last change of state; -1 when not kept.",
    )
    members: list[MemberMetadata] = field(
        name="members",
        doc="The members; empty once all have left.",
    )
