"""StreamsGroupDescribe (key 89): state, topology and members of streams groups, for admin tools.

It goes to the coordinator of the groups (KIP-1071).

* v0 was early access in Kafka 4.1, where it was not stable, and is stable from 4.2 on.
* v1 can include the description of the topology that a client sent (KIP-1331), and names the
  assignor (KIP-1357).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Int8, Int16, Int32, Int64, String, UInt16


class StreamsGroupDescribeRequest(
    Request["StreamsGroupDescribeResponse"], api_key=89, versions="0-1", flexible="0+"
):
    """Asks a coordinator about streams groups."""

    group_ids: list[String] = field(doc="Ids of the groups.")
    include_authorized_operations: Bool = field(
        doc="Whether to fill in what the caller may do to each group.",
    )
    include_topology_description: Bool = field(
        "1+",
        doc="Whether to fill in the description of the topology (KIP-1331).",
    )


class KeyValue(Struct):
    """A name with a value: a topic config, or a tag of a client."""

    key: String = field(doc="Name of the config or tag.")
    value: String = field(doc="Its value.")


class TopicInfo(Struct):
    """An internal topic."""

    name: String = field(doc="Name of the topic.")
    partitions: Int32 = field(
        doc="How many partitions it must have; 0 when that is derived, as always for changelogs.",
    )
    replication_factor: Int16 = field(doc="Its replication factor; 0 for the broker's default.")
    topic_configs: list[KeyValue] = field(doc="Configs it is created with.")


class Subtopology(Struct):
    """A connected part of the topology."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    source_topics: list[String] = field(doc="Names of the topics it reads; patterns are resolved.")
    repartition_sink_topics: list[String] = field(
        doc="Names of the repartition topics it writes for other subtopologies.",
    )
    state_changelog_topics: list[TopicInfo] = field(
        doc="Internal topics that its state stores are restored from.",
    )
    repartition_source_topics: list[TopicInfo] = field(
        doc="Internal repartition topics it reads from other subtopologies.",
    )


class Topology(Struct):
    """What the group runs, as far as the coordinator knows it."""

    epoch: Int32 = field(doc="Counter of topologies of the group.")
    subtopologies: list[Subtopology] | None = field(
        default=None,
        doc="The subtopologies, or null while source topics are missing or do not fit.",
    )


class Endpoint(Struct):
    """Where other instances of the application reach one of them."""

    host: String = field(doc="Host name or address.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")


class TaskOffset(Struct):
    """How far a client has got with the changelogs of one task."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partition: Int32 = field(doc="Partition number of the task.")
    offset: Int64 = field(doc="Sum of the offsets in all its changelog partitions.")


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partitions: list[Int32] = field(doc="Partition numbers of the tasks.")


class Assignment(Struct):
    """Tasks of one member."""

    active_tasks: list[TaskIds] = field(doc="Tasks to process.")
    standby_tasks: list[TaskIds] = field(doc="Tasks to keep a copy of the state of.")
    warmup_tasks: list[TaskIds] = field(
        doc="Tasks to restore the state of, to take them over.",
    )


class Member(Struct):
    """A member of a streams group."""

    member_id: String = field(doc="Id of the member.")
    member_epoch: Int32 = field(doc="Group epoch the member has reached.")
    instance_id: String | None = field(
        default=None,
        doc="Id of a static member, or null.",
    )
    rack_id: String | None = field(
        default=None,
        doc="Rack of the member, or null when it gave none.",
    )
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    topology_epoch: Int32 = field(doc="Epoch of the topology it runs.")
    process_id: String = field(doc="Id of its process, common to all threads there.")
    user_endpoint: Endpoint | None = field(
        default=None,
        doc="Where to query its state stores, or null when nowhere.",
    )
    client_tags: list[KeyValue] = field(doc="Tags by which standby tasks are spread out.")
    task_offsets: list[TaskOffset] = field(
        doc="How far the state of its tasks is restored, as it last said; empty when it did not.",
    )
    task_end_offsets: list[TaskOffset] = field(
        doc="Where the changelogs of its tasks end, as it last said; empty when it did not.",
    )
    assignment: Assignment = field(doc="Tasks it has now.")
    target_assignment: Assignment = field(
        doc="Tasks it is to have once everyone has given up what is not theirs.",
    )
    is_classic: Bool = field(
        doc="Whether it speaks the classic protocol, while the group is being migrated.",
    )


class TopologyDescriptionNode(Struct):
    """A node of the processing graph."""

    name: String = field("1+", doc="Name of the node, unique within the topology.")
    node_type: Int8 = field("1+", doc="1 source, 2 processor, 3 sink.")
    source_topics: list[String] = field(
        "1+",
        doc="Topics a source reads; empty for other nodes, and when it reads by a pattern.",
    )
    sink_topic: String | None = field(
        "1+",
        default=None,
        doc="Topic a sink writes; null for other nodes, and when it chooses for every record.",
    )
    stores: list[String] = field(
        "1+",
        doc="Names of the state stores a processor uses; empty for other nodes.",
    )
    successors: list[String] = field("1+", doc="Names of the nodes that its records go on to.")


class TopologyDescriptionSubtopology(Struct):
    """A connected part of the processing graph."""

    subtopology_id: String = field("1+", doc="Id of the subtopology.")
    nodes: list[TopologyDescriptionNode] = field("1+", doc="Its nodes.")


class TopologyDescriptionGlobalStore(Struct):
    """A store that every client fills with a whole topic."""

    source: TopologyDescriptionNode = field("1+", doc="The node that reads the topic.")
    processor: TopologyDescriptionNode = field("1+", doc="The node that fills the store.")


class TopologyDescription(Struct):
    """The whole processing graph, as a client described it."""

    subtopologies: list[TopologyDescriptionSubtopology] = field("1+", doc="The subtopologies.")
    global_stores: list[TopologyDescriptionGlobalStore] = field("1+", doc="The global stores.")


class DescribedGroup(Struct):
    """A streams group."""

    error_code: Int16 = field(
        doc="0, or why it is not described; 69 when there is no streams group of this id.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
    group_id: String = field(doc="Id of the group, which is the application id.")
    group_state: String = field(
        doc=(
            "`Empty`, `NotReady` (topics are missing), `Assigning`, `Reconciling`, `Stable` or "
            "`Dead`; empty on an error."
        ),
    )
    group_epoch: Int32 = field(doc="Counter of changes of members, topology or topics.")
    assignment_epoch: Int32 = field(
        doc="Group epoch the target was made for; below `group_epoch` while a new one is due.",
    )
    topology: Topology | None = field(
        default=None,
        doc="What the group runs, or null on an error.",
    )
    members: list[Member] = field(doc="The members.")
    authorized_operations: Int32 = field(
        default=-0x80000000,
        doc="Bit set of what the caller may do; the least int32 when not asked for.",
    )
    topology_description: TopologyDescription | None = field(
        "1+",
        default=None,
        doc="The processing graph; null unless `topology_description_status` is 3.",
    )
    topology_description_status: Int8 = field(
        "1+",
        doc=(
            "0 not asked for or an error, 1 there is none for this topology, 2 the broker failed "
            "to get it, 3 it is there."
        ),
    )
    assignor_name: String | None = field(
        "1+",
        default=None,
        ignorable=True,
        doc=(
            "Assignor that will make the next assignment, not always the one that made the present "
            "one; null on an error (KIP-1357)."
        ),
    )


class StreamsGroupDescribeResponse(
    Message, api_key=89, kind="response", versions="0-1", flexible="0+"
):
    """The streams groups that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    groups: list[DescribedGroup] = field(doc="One entry per group of the request.")
