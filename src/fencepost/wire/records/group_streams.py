"""Records of `__consumer_offsets` for streams groups (KIP-1071).

As with groups of the newer consumer protocol, a group is spread over several keys, with tasks in
place of partitions; the topology the tasks come from has a key of its own. Offsets are committed as
by any other group.

Type 18 was given up before a release. Tagged fields have been added to version 0 since Kafka 4.1.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, Int64, String, UInt16


class StreamsGroupMetadataKey(
    Message, record_id=17, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class LastAssignmentConfig(Struct):
    """A config that the assignor was given."""

    key: String = field(doc="Name of the config, such as `num.standby.replicas`.")
    value: String = field(doc="Its value.")


class StreamsGroupMetadataValue(
    Message, record_id=17, kind="coordinator-value", versions="0", flexible="0+"
):
    """The group's epoch, and what it was made from."""

    epoch: Int32 = field(doc="Counter of changes of members, topology, topics or configs.")
    metadata_hash: Int64 = field(
        doc="Hash of the state of the topology's topics, by which a change is noticed; 0 for none.",
    )
    validated_topology_epoch: Int32 = field(
        tag=0,
        default=-1,
        doc="Epoch of the topology whose topics were last found to be all right; -1 for none.",
    )
    last_assignment_configs: list[LastAssignmentConfig] | None = field(
        tag=1,
        default=None,
        doc="Configs of the last assignment, by which a change is noticed; null when not kept.",
    )
    stored_description_topology_epoch: Int32 = field(
        tag=2,
        default=-1,
        doc=(
            "Epoch of the topology whose description a plugin has stored; -1 for none, -2 when it "
            "was interrupted and may or may not have (KIP-1331)."
        ),
    )
    failed_description_topology_epoch: Int32 = field(
        tag=3,
        default=-1,
        doc=(
            "Epoch of the topology whose description the plugin refused for good, so that members "
            "are not asked for it again; -1 for none (KIP-1331)."
        ),
    )


class StreamsGroupMemberMetadataKey(
    Message, record_id=19, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class Endpoint(Struct):
    """Where other instances of the application reach a client."""

    host: String = field(doc="Host name or address.")
    port: UInt16 = field(doc="TCP port that goes with `host`.")


class KeyValue(Struct):
    """A tag of a client."""

    key: String = field(doc="Name of the tag.")
    value: String = field(doc="Its value.")


class StreamsGroupMemberMetadataValue(
    Message, record_id=19, kind="coordinator-value", versions="0", flexible="0+"
):
    """A member and what it runs."""

    instance_id: String | None = field(doc="Id a static member brings along, or null.")
    rack_id: String | None = field(doc="Rack of the member, or null when it gave none.")
    client_id: String = field(doc="Client id the member sent.")
    client_host: String = field(doc="Address it came from.")
    rebalance_timeout_ms: Int32 = field(
        default=-1,
        doc="Milliseconds it may take to give up tasks; -1 when unknown.",
    )
    topology_epoch: Int32 = field(doc="Epoch of the topology it runs.")
    process_id: String = field(doc="Id of its process, common to all threads there.")
    user_endpoint: Endpoint | None = field(
        default=None,
        doc="Where to query its state stores, or null when nowhere.",
    )
    client_tags: list[KeyValue] = field(doc="Tags by which standby tasks are spread out.")


class StreamsGroupTargetAssignmentMetadataKey(
    Message, record_id=20, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class StreamsGroupTargetAssignmentMetadataValue(
    Message, record_id=20, kind="coordinator-value", versions="0", flexible="0+"
):
    """For which epoch the target assignment was made."""

    assignment_epoch: Int32 = field(doc="Group epoch the target belongs to.")
    assignment_timestamp: Int64 = field(
        tag=0,
        ignorable=True,
        doc="Milliseconds since 1970 at which it was made; 0 before 4.3 (KIP-1263).",
    )


class StreamsGroupTargetAssignmentMemberKey(
    Message, record_id=21, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class TargetTaskIds(Struct, kafka_name="TaskIds"):
    """Tasks of one subtopology in a target assignment."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partitions: list[Int32] = field(doc="Partition numbers of the tasks.")


class StreamsGroupTargetAssignmentMemberValue(
    Message, record_id=21, kind="coordinator-value", versions="0", flexible="0+"
):
    """What a member is to have once everyone has given up what is not theirs."""

    active_tasks: list[TargetTaskIds] = field(doc="Tasks to process.")
    standby_tasks: list[TargetTaskIds] = field(doc="Tasks to keep a copy of the state of.")
    warmup_tasks: list[TargetTaskIds] = field(
        doc="Tasks to restore the state of, to take them over.",
    )


class StreamsGroupCurrentMemberAssignmentKey(
    Message, record_id=22, kind="coordinator-key", versions="0", flexible="none"
):
    """Which member of which group."""

    group_id: String = field("0", doc="Id of the group.")
    member_id: String = field("0", doc="Id of the member.")


class CurrentTaskIds(Struct, kafka_name="TaskIds"):
    """Tasks of one subtopology that a member has."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    partitions: list[Int32] = field(doc="Partition numbers of the tasks.")
    assignment_epochs: list[Int32] | None = field(
        tag=0,
        default=None,
        doc=(
            "Member epoch at which each task was given, in the order of `partitions`, against "
            "which commits are checked; null when not kept, as for tasks that are not active."
        ),
    )


class StreamsGroupCurrentMemberAssignmentValue(
    Message, record_id=22, kind="coordinator-value", versions="0", flexible="0+"
):
    """How far a member has come towards its target."""

    member_epoch: Int32 = field(doc="Group epoch the member has reached.")
    previous_member_epoch: Int32 = field(
        doc="Epoch before that, still accepted from a member that missed an answer.",
    )
    state: Int8 = field(
        doc="1 stable, 2 has tasks to give up, 3 waits for tasks others still have.",
    )
    active_tasks: list[CurrentTaskIds] = field(doc="Tasks it processes.")
    standby_tasks: list[CurrentTaskIds] = field(doc="Tasks it keeps a copy of the state of.")
    warmup_tasks: list[CurrentTaskIds] = field(
        doc="Tasks it restores the state of, to take them over.",
    )
    active_tasks_pending_revocation: list[CurrentTaskIds] = field(
        doc="Tasks it has been told to stop processing.",
    )
    standby_tasks_pending_revocation: list[CurrentTaskIds] = field(
        doc="Tasks it has been told to drop the copy of.",
    )
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = field(
        doc="Tasks it has been told to stop restoring.",
    )


class StreamsGroupTopologyKey(
    Message, record_id=23, kind="coordinator-key", versions="0", flexible="none"
):
    """Which group."""

    group_id: String = field("0", doc="Id of the group.")


class TopicConfig(Struct):
    """A config of an internal topic."""

    key: String = field(name="key", doc="Name of the config.")
    value: String = field(name="value", doc="Its value.")


class TopicInfo(Struct):
    """An internal topic."""

    name: String = field(doc="Name of the topic.")
    partitions: Int32 = field(
        doc="How many partitions it must have; 0 when that is derived, as always for changelogs.",
    )
    replication_factor: Int16 = field(doc="Its replication factor; 0 for the broker's default.")
    topic_configs: list[TopicConfig] = field(doc="Configs to create it with.")


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

    subtopology_id: String = field(doc="Id of the subtopology.")
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


class StreamsGroupTopologyValue(
    Message, record_id=23, kind="coordinator-value", versions="0", flexible="0+"
):
    """What the group runs, as its first member said it."""

    epoch: Int32 = field(doc="Counter of topologies of the group.")
    subtopologies: list[Subtopology] = field(doc="The subtopologies.")
