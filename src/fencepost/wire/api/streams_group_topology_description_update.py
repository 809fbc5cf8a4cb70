"""StreamsGroupTopologyDescriptionUpdate (key 93): a Streams client describes its processing graph.

The coordinator knows of a topology only what it needs to deal out tasks. A broker with a plugin
that stores descriptions asks a member for the whole graph, by a flag in its heartbeat's answer, and
the member sends this to the group's coordinator; StreamsGroupDescribe shows it (KIP-1331).

New in Kafka 4.4.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class TopologyDescriptionNode(Struct):
    """A node of the processing graph."""

    name: String = field(doc="Name of the node, unique within the topology.")
    node_type: Int8 = field(doc="1 source, 2 processor, 3 sink.")
    source_topics: list[String] = field(
        doc="Topics a source reads; empty for other nodes, and when it reads by a pattern.",
    )
    sink_topic: String | None = field(
        default=None,
        doc="Topic a sink writes; null for other nodes, and when it chooses for every record.",
    )
    stores: list[String] = field(
        doc="Names of the state stores a processor uses; empty for other nodes.",
    )
    successors: list[String] = field(doc="Names of the nodes that its records go on to.")


class TopologyDescriptionSubtopology(Struct):
    """A connected part of the processing graph."""

    subtopology_id: String = field(doc="Id of the subtopology.")
    nodes: list[TopologyDescriptionNode] = field(doc="Its nodes.")


class TopologyDescriptionGlobalStore(Struct):
    """A store that every client fills with a whole topic."""

    source: TopologyDescriptionNode = field(doc="The node that reads the topic.")
    processor: TopologyDescriptionNode = field(doc="The node that fills the store.")


class TopologyDescription(Struct):
    """The whole processing graph."""

    subtopologies: list[TopologyDescriptionSubtopology] = field(doc="The subtopologies.")
    global_stores: list[TopologyDescriptionGlobalStore] = field(doc="The global stores.")


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request["StreamsGroupTopologyDescriptionUpdateResponse"],
    api_key=93,
    versions="0",
    flexible="0+",
):
    """Describes the topology of a group."""

    group_id: String = field(doc="Id of the group, which is the application id.")
    member_id: String = field(
        doc="Id of the member that sends it; one that is not in the group gets error 25.",
    )
    topology_epoch: Int32 = field(doc="Epoch of the topology that is described.")
    topology_description: TopologyDescription = field(doc="The description.")


class StreamsGroupTopologyDescriptionUpdateResponse(
    Message, api_key=93, kind="response", versions="0", flexible="0+"
):
    """Whether the description is stored."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0, or why it is not stored; 135 when the plugin could not or would not.",
    )
    error_message: String | None = field(
        default=None,
        doc="What went wrong in words, or null when nothing did.",
    )
