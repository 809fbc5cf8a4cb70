"""What StreamsGroupDescribe (89) says of topologies and members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fencepost.machines.group.streams.configuring import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    internal_topic,
)
from fencepost.machines.group.streams.member import ReportedOffsets, StreamsMember
from fencepost.machines.group.streams.tasks import TaskId, Tasks, by_subtopology
from fencepost.machines.group.streams.topology import Topology as GroupTopology
from fencepost.wire.api.streams_group_describe import (
    Assignment,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from fencepost.wire.records.group_streams import Subtopology as StoredSubtopology


def describe_topology(
    configured: ConfiguredTopology | None, topology: GroupTopology | None
) -> Topology | None:
    """As it was configured, if it is ready, or as the first member said it; None if that is not
    known: a piece of the group that compaction left."""
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        listed = [_configured(id_, one) for id_, one in configured.subtopologies.items()]
        return Topology(epoch=configured.epoch, subtopologies=listed)
    if topology is None:
        return None
    stored = [_stored(one) for one in topology.subtopologies.values()]
    return Topology(epoch=topology.epoch, subtopologies=stored)


def _configured(subtopology_id: str, one: ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(one.source_topics),
        repartition_sink_topics=sorted(one.repartition_sinks),
        state_changelog_topics=_topics(one.changelogs),
        repartition_source_topics=_topics(one.repartition_sources),
    )


def _stored(one: StoredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=sorted(one.source_topics),
        repartition_sink_topics=sorted(one.repartition_sink_topics),
        state_changelog_topics=_topics(map(internal_topic, one.state_changelog_topics)),
        repartition_source_topics=_topics(map(internal_topic, one.repartition_source_topics)),
    )


def _topics(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda one: one.name)
    ]


def describe_member(member: StreamsMember, reported: ReportedOffsets, target: Tasks) -> Member:
    """A member, with the offsets that it has reported and what it is to have."""
    said, current = member.metadata, member.current
    endpoint = said.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=current.member_epoch,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in said.client_tags],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(current.assigned.ids),
        target_assignment=_assignment(target),
    )


def _offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=task.subtopology_id, partition=task.partition, offset=offset)
        for task, offset in sorted(offsets.items())
    ]


def _assignment(tasks: Tasks) -> Assignment:
    active, standby, warmup = (
        [TaskIds(subtopology_id=id_, partitions=indexes) for id_, indexes in by_subtopology(one)]
        for one in tasks
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
