"""CreateTopics (key 19): make topics, with counts or with a placement of every replica.

Handled by the controller; a broker forwards it. Every topic succeeds or fails alone. A topic
exists once its records are committed, and a broker may still answer error 3 for it until it has
applied them.

* v0 of KIP-4; v1 adds `validate_only` and error texts, v2 the throttle time, v3 throttles after
  the answer (KIP-219).
* v4 takes -1 for the broker's default partitions and replication (KIP-464), v5 is flexible and
  returns what was made, with configs (KIP-525), v6 allows error 89 (KIP-599), v7 returns the
  topic's id (KIP-516).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import IF_CONFIG
from fencepost.wire.types import Bool, Int8, Int16, Int32, String, Uuid


class CreatableReplicaAssignment(Struct):
    """Where one partition is to be."""

    partition_index: Int32 = field(doc="Number of the partition; all from 0 up must be there.")
    broker_ids: list[Int32] = field(doc="Brokers for its replicas, preferred leader first.")


class CreatableTopicConfig(Struct):
    """A config of the new topic."""

    name: String = field(doc="Name of the config.")
    value: String | None = field(secret=IF_CONFIG, doc="Its value; null is refused.")


class CreatableTopic(Struct):
    """A topic to make."""

    name: String = field(
        doc="Name: 1 to 249 letters, digits, dots, underscores and dashes, not `.` or `..`.",
    )
    num_partitions: Int32 = field(
        doc="Number of partitions; -1 for the default (v4+) or with `assignments`.",
    )
    replication_factor: Int16 = field(
        doc="Replicas of each partition; -1 for the default (v4+) or with `assignments`.",
    )
    assignments: list[CreatableReplicaAssignment] = field(
        doc="Placement of every partition; empty leaves it to the controller.",
    )
    configs: list[CreatableTopicConfig] = field(doc="Configs that differ from the defaults.")


class CreateTopicsRequest(
    Request["CreateTopicsResponse"], api_key=19, versions="0-7", flexible="5+"
):
    """Makes topics, or only checks whether it could."""

    topics: list[CreatableTopic] = field(doc="The topics; one that is named twice is refused.")
    timeout_ms: Int32 = field(
        default=60000,
        name="timeoutMs",
        doc="Milliseconds to wait for the controller; the work goes on after error 7.",
    )
    validate_only: Bool = field(
        "1+",
        name="validateOnly",
        doc="Whether to check everything and make nothing.",
    )


class CreatableTopicConfigs(Struct):
    """A config the new topic has, set or by default."""

    name: String = field("5+", doc="Name of the config.")
    value: String | None = field("5+", secret=IF_CONFIG, doc="Its value; null for a sensitive one.")
    read_only: Bool = field("5+", doc="Whether it cannot be changed.")
    config_source: Int8 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Where the value is from, numbered as in DescribeConfigs.",
    )
    is_sensitive: Bool = field("5+", doc="Whether the value is kept secret.")


class CreatableTopicResult(Struct):
    """What became of one topic."""

    name: String = field(doc="Name of the topic.")
    topic_id: Uuid = field("7+", ignorable=True, doc="Id the topic got; zero when it was not made.")
    error_code: Int16 = field(
        doc=(
            "0. 36 there is one, 17 an illegal name, 37 or 38 as many partitions or replicas "
            "cannot be, 39 or 40 an impossible assignment or config, 42, 44 a policy forbids it, "
            "89 too many at once, 7 or 41 no controller in time, 29."
        ),
    )
    error_message: String | None = field(
        "1+",
        nullable="0+",
        ignorable=True,
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    topic_config_error_code: Int16 = field(
        "5+",
        tag=0,
        ignorable=True,
        doc="Why there are no configs: 29 when the caller may not see them.",
    )
    num_partitions: Int32 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Partitions it got; -1 when not made.",
    )
    replication_factor: Int16 = field(
        "5+",
        default=-1,
        ignorable=True,
        doc="Replicas each partition got; -1 when not made.",
    )
    configs: list[CreatableTopicConfigs] | None = field(
        "5+",
        ignorable=True,
        doc="Its configs; null when the caller may not see them.",
    )


class CreateTopicsResponse(Message, api_key=19, kind="response", versions="0-7", flexible="5+"):
    """What became of the topics."""

    throttle_time_ms: Int32 = field(
        "2+",
        ignorable=True,
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    topics: list[CreatableTopicResult] = field(doc="One entry per topic of the request.")
