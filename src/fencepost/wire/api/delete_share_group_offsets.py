"""DeleteShareGroupOffsets (key 92): forget where a share group stands in topics, for admin tools.

It goes to the coordinator of the group, which must be empty (KIP-932). A member that subscribes to
such a topic later makes the group begin again there.

v0 came, stable, with Kafka 4.1.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic to forget, with all its partitions."""

    topic_name: String = field(doc="Name of the topic.")


class DeleteShareGroupOffsetsRequest(
    Request["DeleteShareGroupOffsetsResponse"], api_key=92, versions="0", flexible="0+"
):
    """Forgets where a group stands in topics."""

    group_id: String = field(doc="Id of the share group.")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(doc="The topics.")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """Whether one topic was forgotten."""

    topic_name: String = field(doc="Name of the topic.")
    topic_id: Uuid = field(doc="Id of the topic; all zero when there is no such topic.")
    error_code: Int16 = field(doc="0, or why it was not forgotten.")
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )


class DeleteShareGroupOffsetsResponse(
    Message, api_key=92, kind="response", versions="0", flexible="0+"
):
    """What was forgotten."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="Error of the whole request; 68 when the group has members, 69 when there is none.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        doc="One entry per topic of the request; empty on an error of the whole.",
    )
