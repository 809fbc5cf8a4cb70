"""StreamsGroupHeartbeat (key 88): a Streams client joins its group, stays in it and leaves it.

A streams group deals out tasks, not partitions: a task is one partition number of a subtopology,
which reads that partition of all its source topics. The first members also tell the coordinator the
topology, and it creates the internal topics that are missing. Every Streams thread sends this to
the group's coordinator at the interval it answers with (KIP-1071).

* v0 was early access in Kafka 4.1, where it was not stable, and is stable from 4.2 on. Brokers
  before 4.4 refuse `task_offsets` and `task_end_offsets` other than null.
* v1 has the request of v0. The answer has a wider recovery lag, can ask for the description of the
  topology (KIP-1331), and may have status 6.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, UInt16


class KeyValue(Struct):
    """A name with a value: a topic config, or a tag of a client."""

    key: String = field(doc="Name of the config or tag.")
    value: String = field(doc="Its value.")


class TopicInfo(Struct):
    """An internal topic, which the coordinator creates when it is missing."""

    name: String = field(doc="Name of the topic.")
    partitions: Int32 = field(
        doc="How many partitions it must have; 0 to derive it, as always for changelogs.",
    )
    replication_factor: Int16 = field(doc="Its replication factor; 0 for the broker's default.")
    topic_configs: list[KeyValue] = field(doc="Configs to create it with.")


class CopartitionGroup(Struct):
    """Topics of a subtopology that must have equally many partitions.

    They are given as positions in the arrays of the subtopology, from 0.
    """

    source_topics: list[Int16] = field(doc="Positions in `source_topics`.")
    source_topic_regex: list[Int16] = field(doc="Positions in `source_topic_regex`.")
    repartition_source_topics: list[Int16] = field(
        doc="Positions in `repartition_source_topics`.",
    )


class Subtopology(Struct):
    """A connected part of the topology; its tasks run independently of those of other parts."""

    subtopology_id: String = field(
        doc="Id of the subtopology; clients with the same topology must find the same.",
    )
    source_topics: list[String] = field(doc="Names of the topics it reads.")
    source_topic_regex: list[String] = field(
        doc="Patterns, in RE2 syntax, of further topics it reads.",
    )
    state_changelog_topics: list[TopicInfo] = field(
        doc="Internal topics that its state stores are restored from.",
    )
    repartition_sink_topics: list[String] = field(
        doc="Names of the repartition topics it writes for other subtopologies.",
    )
    repartition_source_topics: list[TopicInfo] = field(
        doc="Internal repartition topics it reads from other subtopologies.",
    )
    copartition_groups: list[CopartitionGroup] = field(
        doc="Which of its topics must have equally many partitions.",
    )


class Topology(Struct):
    """What a client runs, as far as the coordinator must know it to deal out tasks."""

    epoch: Int32 = field(
        doc="Counter of the topologies the group has had, by which a member's is compared.",
    )
    subtopologies: list[Subtopology] = field(doc="The subtopologies.")


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partitions: list[Int32] = field(doc="Partition numbers of the tasks.")


class TaskOffset(Struct):
    """How far a client has got with the changelogs of one task."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partition: Int32 = field(doc="Partition number of the task.")
    offset: Int64 = field(doc="Sum of the offsets in all its changelog partitions.")


class Endpoint(Struct):
    """Where other instances of the application reach one of them."""

    host: String = field(doc="Host name or address.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")


class StreamsGroupHeartbeatRequest(
    Request["StreamsGroupHeartbeatResponse"], api_key=88, versions="0-1", flexible="0+"
):
    """Tells the coordinator that a member lives, and what changed since it last said so.

    A member that joins says everything; later, null or -1 stands for what it said before.
    """

    group_id: String = field(doc="Id of the group, which is the application id.")
    member_id: String = field(
        doc="Id of the member, a UUID the client draws and keeps while it runs.",
    )
    member_epoch: Int32 = field(
        doc=(
            "Epoch the member was last told; 0 joins the group, -1 leaves it, -2 leaves it for a "
            "static member that will be back."
        ),
    )
    endpoint_information_epoch: Int32 = field(
        doc="`endpoint_information_epoch` of the last answer the member took in; 0 for none.",
    )
    instance_id: String | None = field(
        default=None,
        doc="Id of a static member, or null when it is none or said it before.",
    )
    rack_id: String | None = field(
        default=None,
        doc="Rack of the client, or null when it has none or said it before.",
    )
    rebalance_timeout_ms: Int32 = field(
        default=-1,
        doc="Milliseconds the member may take to give up tasks; -1 when said before.",
    )
    topology: Topology | None = field(
        default=None,
        doc="What the member runs, when it joins; null otherwise.",
    )
    active_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks it processes now, or null when said before.",
    )
    standby_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks whose state it keeps a copy of now, or null when said before.",
    )
    warmup_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks whose state it is restoring, to take them over, or null when said before.",
    )
    process_id: String | None = field(
        default=None,
        doc="Id of the process, common to all its threads, or null when said before.",
    )
    user_endpoint: Endpoint | None = field(
        default=None,
        doc="Where to query its state stores, or null when nowhere or said before.",
    )
    client_tags: list[KeyValue] | None = field(
        default=None,
        doc="Tags by which standby tasks are spread out, or null when said before.",
    )
    task_offsets: list[TaskOffset] | None = field(
        default=None,
        doc="How far the state of its tasks is restored, or null when said before.",
    )
    task_end_offsets: list[TaskOffset] | None = field(
        default=None,
        doc="Where the changelogs of its tasks end, or null when said before.",
    )
    shutdown_application: Bool = field(
        doc="Whether all clients of the group should shut down, since this one had to.",
    )


class Status(Struct):
    """Something the member should know of the group."""

    status_code: Int8 = field(
        doc=(
            "0 the member's topology is older than the group's, 1 source topics are missing, 2 "
            "topics have the wrong number of partitions, 3 internal topics are missing, 4 a client "
            "asked all to shut down, 5 a new assignment is put off for a while, 6 the member lacks "
            "tags that standby tasks are spread out by (v1+)."
        ),
    )
    status_detail: String = field(doc="The same in words, with the topics it is about.")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class EndpointToPartitions(Struct):
    """Which data the state stores of one member cover; an endpoint may have several members."""

    user_endpoint: Endpoint = field(doc="Where to query them.")
    active_partitions: list[TopicPartition] = field(
        doc="Partitions, of repartition topics too, that its active tasks read.",
    )
    standby_partitions: list[TopicPartition] = field(
        doc="Partitions that its standby and warm-up tasks would read.",
    )


class StreamsGroupHeartbeatResponse(
    Message, api_key=88, kind="response", versions="0-1", flexible="0+"
):
    """What the coordinator wants of the member."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc=(
            "0, or why the heartbeat was refused; with 25 and 110 the member gives up its tasks "
            "and joins again, 130 to 132 concern its topology."
        ),
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    member_id: String = field(doc="Id of the member, as it was sent.")
    member_epoch: Int32 = field(doc="Epoch to send with the next heartbeat.")
    heartbeat_interval_ms: Int32 = field(doc="Milliseconds until the next heartbeat is due.")
    acceptable_recovery_lag_legacy: Int32 = field(
        "0",
        doc="`acceptable_recovery_lag` in v0 alone.",
    )
    task_offset_interval_ms: Int32 = field(
        doc="Milliseconds between heartbeats with `task_offsets`.",
    )
    acceptable_recovery_lag: Int64 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc=(
            "Offsets by which a client may lag and still be given a task to process; -1 when the "
            "broker does not say."
        ),
    )
    status: list[Status] | None = field(
        doc="What the member should know of the group; null says as little as an empty array.",
    )
    active_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks to process, or null when they are those it was told before.",
    )
    standby_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks to keep a copy of the state of, or null when told before.",
    )
    warmup_tasks: list[TaskIds] | None = field(
        default=None,
        doc="Tasks to restore the state of, to take them over, or null when told before.",
    )
    topology_description_required: Bool = field(
        "1+",
        doc="Whether to send a StreamsGroupTopologyDescriptionUpdate (KIP-1331).",
    )
    endpoint_information_epoch: Int32 = field(
        doc="Counter of changes of `partitions_by_user_endpoint`, to be sent back.",
    )
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        default=None,
        doc="Where which data can be queried, or null when the member knows it already.",
    )
