"""ShareGroupHeartbeat (key 76): a share consumer joins its group, stays in it and leaves it.

Members of a share group read the same partitions side by side, record by record, so that no member
gives a partition up for another: a member may fetch at once what the coordinator assigns to it.
Consumers send this to the group's coordinator at the interval it answers with (KIP-932).

* v0 was early access in Kafka 4.0, never stable, and is gone from 4.1 on; clients and brokers of
  different releases cannot rely on it.
* v1 is the first stable version. It has the fields of v0.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class ShareGroupHeartbeatRequest(
    Request["ShareGroupHeartbeatResponse"], api_key=76, versions="0-1", flexible="0+"
):
    """Tells the coordinator that a member lives, and what changed since it last said so."""

    group_id: String = field(doc="Id of the group.")
    member_id: String = field(
        doc="Id of the member, which the consumer draws itself and keeps while it runs: a UUID.",
    )
    member_epoch: Int32 = field(
        doc="Epoch the member was last told; 0 joins the group, -1 leaves it.",
    )
    rack_id: String | None = field(
        default=None,
        doc="Rack of the consumer, or null when it has none or said it before.",
    )
    subscribed_topic_names: list[String] | None = field(
        default=None,
        doc="Names of the topics it subscribes to, or null when they are those it said before.",
    )


class TopicPartitions(Struct):
    """Partitions of one topic that a member may fetch from."""

    topic_id: Uuid = field(doc="Id of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class Assignment(Struct):
    """All a member may fetch from; other members may be given the same partitions."""

    topic_partitions: list[TopicPartitions] = field(doc="The partitions, by topic.")


class ShareGroupHeartbeatResponse(
    Message, api_key=76, kind="response", versions="0-1", flexible="0+"
):
    """What the coordinator wants of the member."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0, or why the heartbeat was refused; with 25 and 110 the member gives up what it has "
            "and joins again."
        ),
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    member_id: String | None = field(
        default=None,
        doc="Id of the member, as it was sent; null on an error.",
    )
    member_epoch: Int32 = field(doc="Epoch to send with the next heartbeat.")
    heartbeat_interval_ms: Int32 = field(doc="Milliseconds until the next heartbeat is due.")
    assignment: Assignment | None = field(
        default=None,
        doc="What the member may fetch from, or null when that is what it was told before.",
    )
