"""ShareGroupDescribe (key 77): state, members and assignment of share groups, for admin tools.

It goes to the coordinator of the groups (KIP-932).

* v0 was early access in Kafka 4.0, never stable, and is gone from 4.1 on.
* v1 is the first stable version, with the fields of v0.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String, Uuid


class ShareGroupDescribeRequest(
    Request["ShareGroupDescribeResponse"], api_key=77, versions="0-1", flexible="0+"
):
    """Asks a coordinator about share groups."""

    group_ids: list[String] = field(doc="Ids of the groups.")
    include_authorized_operations: Bool = field(
        doc="Whether to fill in what the caller may do to each group.",
    )


class TopicPartitions(Struct):
    """Partitions of one topic that a member may fetch from."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class Assignment(Struct):
    """All a member may fetch from."""

    topic_partitions: list[TopicPartitions] = field(doc="The partitions, by topic.")


class Member(Struct):
    """A member of a share group."""

    member_id: String = field(doc="Id of the member.")
    rack_id: String | None = field(
        default=None,
        doc="Rack of the member, or null when it gave none.",
    )
    member_epoch: Int32 = field(doc="Epoch the member has reached.")
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    subscribed_topic_names: list[String] = field(doc="Names of the topics it subscribes to.")
    assignment: Assignment = field(doc="What it may fetch from.")


class DescribedGroup(Struct):
    """A share group."""

    error_code: Int16 = field(
        doc="0, or why it is not described; 69 when there is no share group of this id.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    group_id: String = field(doc="Id of the group.")
    group_state: String = field(doc="`Empty`, `Stable` or `Dead`; empty on an error.")
    group_epoch: Int32 = field(
        doc="Counter of changes of members, subscriptions or topics.",
    )
    assignment_epoch: Int32 = field(
        doc="Group epoch the assignment was made for; below `group_epoch` while a new one is due.",
    )
    assignor_name: String = field(
        doc="Assignor that the coordinator uses for share groups, such as `simple`."
    )
    members: list[Member] = field(doc="The members.")
    authorized_operations: Int32 = field(
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )


class ShareGroupDescribeResponse(
    Message, api_key=77, kind="response", versions="0-1", flexible="0+"
):
    """The share groups that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    groups: list[DescribedGroup] = field(doc="One entry per group of the request.")
