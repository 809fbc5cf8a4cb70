"""Members of streams groups in few words: topologies, heartbeats, descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

from .stage import MAIN, Stage

LATEST = 1
Owned = dict[str, list[int]]


def subtopology(
    *sources: str,
    id_: str = "0",
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartition: dict[str, int] | None = None,
    copartition: Iterable[tuple[list[int], list[int]]] = (),
    regex: Iterable[str] = (),
) -> Subtopology:
    """A subtopology that reads these topics; `repartition` has the fixed numbers of partitions."""
    return Subtopology(
        subtopology_id=id_,
        source_topics=list(sources),
        source_topic_regex=list(regex),
        state_changelog_topics=[TopicInfo(name=name) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[
            TopicInfo(name=name, partitions=count) for name, count in (repartition or {}).items()
        ],
        copartition_groups=[
            CopartitionGroup(source_topics=own, repartition_source_topics=others)
            for own, others in copartition
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    """A topology of these."""
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def tasks(owned: Owned | None) -> list[TaskIds] | None:
    """As a heartbeat has them."""
    if owned is None:
        return None
    return [TaskIds(subtopology_id=one, partitions=numbers) for one, numbers in owned.items()]


def beat(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    *,
    owned: tuple[Owned, Owned] | None = None,
    error: int | None = 0,
    version: int = LATEST,
    by: str = MAIN,
    only: Callable[[Any], Any] | None = None,
    **said: Any,
) -> StreamsGroupHeartbeatResponse:
    """A heartbeat with these fields, `owned` the active and standby tasks; and the words of its
    answer."""
    active, standby = owned or (None, None)
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        active_tasks=tasks(active),
        standby_tasks=tasks(standby),
        warmup_tasks=None if owned is None else [],
        **said,
    )
    answer = stage.ask(request, version, error=error, by=by, only=only)
    stage.note("error message", answer.error_message)
    return answer


def join(
    stage: Stage, group: str, label: str, sent: Topology, **said: Any
) -> StreamsGroupHeartbeatResponse:
    """The first heartbeat of a member, which is named so and alone in its process."""
    said.setdefault("rebalance_timeout_ms", 30_000)
    said.setdefault("process_id", f"process-of-{label}")
    said.setdefault("owned", ({}, {}))
    return beat(stage, group, stage.member(label), 0, topology=sent, **said)


def describe(stage: Stage, group: str, *, error: int | None = 0, version: int = LATEST) -> Any:
    """StreamsGroupDescribe of one group, compared whole."""
    request = StreamsGroupDescribeRequest(group_ids=[group])
    return stage.ask(request, version, error=error).groups[0]


def active_of(answer: StreamsGroupHeartbeatResponse) -> Owned | None:
    """The active tasks of an answer."""
    if answer.active_tasks is None:
        return None
    return {one.subtopology_id: list(one.partitions) for one in answer.active_tasks}


def statuses(answer: StreamsGroupHeartbeatResponse) -> list[int]:
    """The codes of the statuses of an answer."""
    return sorted(one.status_code for one in answer.status or ())
