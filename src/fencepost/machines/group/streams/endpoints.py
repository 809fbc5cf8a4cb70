"""Where the state of a streams group can be queried: what members' tasks read, by endpoint."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.machines.group.streams.configuring import ConfiguredTopology
from fencepost.machines.group.streams.member import StreamsMember
from fencepost.machines.group.streams.tasks import TaskId, by_subtopology
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, image: ClusterImage
) -> list[EndpointToPartitions]:
    """The partitions that the tasks of each member with an endpoint read. A topic that does not
    exist (any more) has none."""
    listed = []
    for member in members:
        endpoint = member.metadata.user_endpoint
        if endpoint is None:
            continue
        held = member.current.assigned
        listed.append(
            EndpointToPartitions(
                user_endpoint=Endpoint(host=endpoint[0], port=endpoint[1]),
                active_partitions=_partitions(held.active, configured, image),
                standby_partitions=_partitions(held.standby | held.warmup, configured, image),
            )
        )
    return listed


def _partitions(
    tasks: Iterable[TaskId], configured: ConfiguredTopology, image: ClusterImage
) -> list[TopicPartition]:
    listed = []
    for subtopology_id, numbers in by_subtopology(tasks):
        subtopology = (configured.subtopologies or {}).get(subtopology_id)
        if subtopology is None:
            continue
        internal = (topic.name for topic in subtopology.repartition_sources)
        for name in sorted({*subtopology.source_topics, *internal}):
            topic = image.topics_by_name.get(name)
            count = 0 if topic is None else len(topic.partitions)
            partitions = [number for number in numbers if number < count]
            if partitions:
                listed.append(TopicPartition(topic=name, partitions=partitions))
    return listed
