"""CreatePartitions (key 37): add partitions to topics.

Handled by the controller (KIP-195). Partitions are never taken away, and records stay where they
are, so a topic whose keys choose the partition changes its meaning. v1 throttles after the answer
(KIP-219), v2 is flexible, v3 allows error 89 (KIP-599).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int16, Int32, String


class CreatePartitionsAssignment(Struct):
    """Where one new partition is to be."""

    broker_ids: list[Int32] = field(doc="Brokers for its replicas, preferred leader first.")


class CreatePartitionsTopic(Struct):
    """A topic to grow."""

    name: String = field(doc="Name of the topic.")
    count: Int32 = field(doc="Number of partitions it is to have in all.")
    assignments: list[CreatePartitionsAssignment] | None = field(
        doc="Placement of the new partitions only; null leaves it to the controller.",
    )


class CreatePartitionsRequest(
    Request["CreatePartitionsResponse"], api_key=37, versions="0-3", flexible="2+"
):
    """Adds partitions, or only checks whether it could."""

    topics: list[CreatePartitionsTopic] = field(
        doc="The topics; one that is named twice is refused.",
    )
    timeout_ms: Int32 = field(
        doc="Milliseconds to wait for the controller; the work goes on after error 7.",
    )
    validate_only: Bool = field(doc="Whether to check everything and make nothing.")


class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: String = field(doc="Name of the topic.")
    error_code: Int16 = field(
        doc=(
            "0. 3 there is no such topic, 37 no more than it has, 38 or 39 an impossible "
            "assignment, 42 named twice, 89 too many at once, 7 or 41 no controller in time, 29."
        ),
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class CreatePartitionsResponse(Message, api_key=37, kind="response", versions="0-3", flexible="2+"):
    """What became of the topics."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[CreatePartitionsTopicResult] = field(doc="One entry per topic of the request.")
