"""ConsumerGroupHeartbeat (key 68): all that a consumer and its group say in the new protocol.

Sent by consumers with `group.protocol=consumer` to the group's coordinator, every
`heartbeat_interval_ms` (KIP-848). It joins, stays, changes the subscription and leaves; the answer
brings the partitions to read. There is no JoinGroup or SyncGroup, no leader among the consumers
and no pause of all: the coordinator computes the assignment, and each member moves towards it on
its own. A partition goes to its new owner when the old one has said that it let go of it.

What has not changed since the last heartbeat is left out (null, or -1), except in a full
request: when joining, and after an error that lost an answer.

v1 can subscribe by a regular expression (KIP-848) and has consumers choose their member id, so
that a join that is sent again does not leave a second member behind (KIP-1082). v0 is that of
3.7 to 3.9; 3.5 and 3.6 had others by that number, which were unstable and off. v1 is that of 4.0.
The request needs READ on the group, and DESCRIBE on the topics to subscribe to.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ConsumerGroupHeartbeatRequest(
    Request["ConsumerGroupHeartbeatResponse"], api_key=68, versions="0-1", flexible="0+"
):
    """Keeps a member in its group, or changes what it is in it."""

    group_id: String = field(doc="Id of the group.")
    member_id: String = field(
        doc=(
            "Id of the member, the same for as long as the consumer lives. From v1 on the "
            "consumer makes it up, a random UUID; in v0 it is empty until the coordinator has "
            "answered with one."
        ),
    )
    member_epoch: Int32 = field(
        doc=(
            "Epoch of the member from the last answer; 0 joins, -1 leaves, -2 leaves for a while "
            "(static members: the partitions wait for it)."
        ),
    )
    instance_id: String | None = field(
        default=None,
        doc="Id of a static member; null for others. Sent in every heartbeat of a static member.",
    )
    rack_id: String | None = field(
        default=None,
        doc="Rack of the consumer, for assignors that look at it; null for none or as before.",
    )
    rebalance_timeout_ms: Int32 = field(
        default=-1,
        doc=(
            "Milliseconds the member may take to let go of partitions before it is put out of "
            "the group; -1 as before, which a joining member cannot say."
        ),
    )
    subscribed_topic_names: list[String] | None = field(
        default=None,
        doc="Names of all topics it subscribes to; null as before, empty for none by name.",
    )
    subscribed_topic_regex: String | None = field(
        "1+",
        default=None,
        doc=(
            "Regular expression (RE2) of names it subscribes to besides, which the coordinator "
            "resolves; error 128 if it is none. Null as before, empty for no expression."
        ),
    )
    server_assignor: String | None = field(
        default=None,
        doc=(
            "Assignor it would like the coordinator to use, `uniform` or `range`, error 112 if "
            "that is unknown; null leaves it to the coordinator, or as before."
        ),
    )
    topic_partitions: list[TopicPartitions] | None = field(
        default=None,
        doc=(
            "Partitions it owns now, by which the coordinator learns what it let go of; null as "
            "before. Empty when joining."
        ),
    )


class Assignment(Struct):
    """What a member is to read."""

    topic_partitions: list[TopicPartitions] = field(
        doc=(
            "All partitions it may read from now on. It lets go of others, and hears of further "
            "ones when their old owners have."
        ),
    )


class ConsumerGroupHeartbeatResponse(
    Message, api_key=68, kind="response", versions="0-1", flexible="0+"
):
    """How the member stands, and what it is to read if that changed."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0; 14, 15 or 16 no coordinator here now, 25 or 110: give up all partitions and join "
            "again, 111 the static id is in use, 112 unknown assignor, 81 the group is full, 35 "
            "the coordinator lacks the new protocol, 29, 30, 42, 69, 128 (v1+)."
        ),
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    member_id: String | None = field(
        default=None,
        doc="Id of the member: in v0 the one the coordinator made up, from v1 on the one it sent.",
    )
    member_epoch: Int32 = field(
        doc="Epoch to send from now on; it is also what offset commits are checked against.",
    )
    heartbeat_interval_ms: Int32 = field(
        doc="Milliseconds until the next heartbeat is due, unless there is something to say.",
    )
    assignment: Assignment | None = field(
        default=None,
        doc="What to read from now on; null when that has not changed, which is not empty.",
    )
