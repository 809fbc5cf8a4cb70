"""ConsumerGroupDescribe (key 69): state and members of groups of the new protocol (KIP-848).

Sent by the administrator's client to the coordinator of the groups; DescribeGroups is for classic
groups. v0 is that of 3.8; 3.7 had another by that number, which was unstable and off. v1 tells
members of the classic protocol from the others, as both may be in a group while it is being
upgraded (KIP-1099); the request has not changed. The caller needs DESCRIBE on the group, and on
the topics its members read.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, String, Uuid


class ConsumerGroupDescribeRequest(
    Request["ConsumerGroupDescribeResponse"], api_key=69, versions="0-1", flexible="0+"
):
    """Asks a coordinator about groups."""

    group_ids: list[String] = field(doc="Ids of the groups.")
    include_authorized_operations: Bool = field(
        doc="Whether to fill in what the caller may do to each group.",
    )


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field(doc="Id of the topic.")
    topic_name: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class Assignment(Struct):
    """What a member reads, or is to read."""

    topic_partitions: list[TopicPartitions] = field(
        doc="The partitions; topics deleted meanwhile are left out.",
    )


class Member(Struct):
    """A member of a group."""

    member_id: String = field(doc="Id of the member.")
    instance_id: String | None = field(default=None, doc="Id of a static member, or null.")
    rack_id: String | None = field(default=None, doc="Rack of the consumer, or null.")
    member_epoch: Int32 = field(
        doc=(
            "Epoch it has reached: below the group's while it still works on an older "
            "assignment, -2 for a static member that left for a while."
        ),
    )
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    subscribed_topic_names: list[String] = field(doc="Topics it subscribes to by name.")
    subscribed_topic_regex: String | None = field(
        default=None,
        doc="Regular expression (RE2) of topics it subscribes to besides; null or empty for none.",
    )
    assignment: Assignment = field(doc="What it has now, with what it is still letting go of.")
    target_assignment: Assignment = field(
        doc="What it is to read in the end; the same once it has caught up.",
    )
    member_type: Int8 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="0 speaks the classic protocol, 1 the new one; -1 when unknown, as in v0.",
    )


class DescribedGroup(Struct):
    """A group; all but the id is empty or 0 on an error."""

    error_code: Int16 = field(
        doc=(
            "0; 14, 15 or 16 no coordinator here now, 24 illegal id, 29 or 30 not "
            "authorized, 69 no such group of the new protocol."
        ),
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    group_id: String = field(doc="Id of the group.")
    group_state: String = field(
        doc=(
            "`Empty`, `Assigning` while an assignment is computed, `Reconciling` while members "
            "move to it, `Stable` or `Dead`."
        ),
    )
    group_epoch: Int32 = field(
        doc="Grows with each change of members, subscriptions or partitions.",
    )
    assignment_epoch: Int32 = field(
        doc="Group epoch the target assignment was computed for.",
    )
    assignor_name: String = field(doc="Assignor the coordinator uses.")
    members: list[Member] = field(doc="The members.")
    authorized_operations: Int32 = field(
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )


class ConsumerGroupDescribeResponse(
    Message, api_key=69, kind="response", versions="0-1", flexible="0+"
):
    """The groups that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    groups: list[DescribedGroup] = field(doc="One entry per group of the request.")
