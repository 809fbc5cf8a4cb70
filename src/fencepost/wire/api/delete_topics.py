"""DeleteTopics (key 20): remove topics, by name or by id.

Handled by the controller. The topic is gone from the metadata when the answer comes; its files
follow when the brokers get to it.

* v0 of KIP-4; v1 adds the throttle time, v2 throttles after the answer (KIP-219), v3 allows error
  73 (KIP-322), v4 is flexible.
* v5 adds error texts and error 89 (KIP-599), v6 takes ids (KIP-516).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int16, Int32, String, Uuid


class DeleteTopicState(Struct):
    """A topic to remove, by name or by id, not both."""

    name: String | None = field(
        "6+",
        default=None,
        doc="Name of the topic; null when it is named by id.",
    )
    topic_id: Uuid = field("6+", doc="Id of the topic; zero when it is named by name.")


class DeleteTopicsRequest(
    Request["DeleteTopicsResponse"], api_key=20, versions="0-6", flexible="4+"
):
    """Removes topics."""

    topics: list[DeleteTopicState] = field("6+", doc="The topics, from v6 on.")
    topic_names: list[String] = field("0-5", ignorable=True, doc="Names of the topics, up to v5.")
    timeout_ms: Int32 = field(
        doc="Milliseconds to wait for the controller; the work goes on after error 7.",
    )


class DeletableTopicResult(Struct):
    """What became of one topic."""

    name: String | None = field(
        nullable="6+",
        doc="Name of the topic; null when an id was not found or may not be seen.",
    )
    topic_id: Uuid = field("6+", ignorable=True, doc="Id of the topic.")
    error_code: Int16 = field(
        doc=(
            "0. 3 or 100 there is none, 73 the cluster deletes none, 42 named twice, 89 too many "
            "at once, 7 or 41 no controller in time, 29."
        ),
    )
    error_message: String | None = field(
        "5+",
        default=None,
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class DeleteTopicsResponse(Message, api_key=20, kind="response", versions="0-6", flexible="4+"):
    """What became of the topics."""

    throttle_time_ms: Int32 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    responses: list[DeletableTopicResult] = field(doc="One entry per topic of the request.")
