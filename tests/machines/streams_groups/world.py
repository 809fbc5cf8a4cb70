"""A shard with streams groups, and members that do what KIP-1071 wants of a client.

`beat` sends one heartbeat as it is said. A `Client` sends its own: it keeps its epoch, gives up the
tasks that are no more its own, and says what it owns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.settings import StreamsSettings
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.streams.answers import HeartbeatReply
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.groups import StreamsGroups
from fencepost.machines.group.streams.refusals import (
    check_request,
    refused,
)
from fencepost.machines.image import ClusterImage, PartitionImage, TopicImage, diff
from fencepost.wire.api.streams_group_describe import DescribedGroup
from fencepost.wire.api.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..group_world import GroupWorld

Owned = dict[str, Iterable[int]]


def image_of(**partitions: int) -> ClusterImage:
    """A cluster of streams groups with these topics; "_" in a name stands for "-"."""
    image = ClusterImage()
    by_name, by_id = image.topics_by_name, image.topics_by_id
    one = PartitionImage((1,), (1,), 1, 0, 0)
    for said, count in partitions.items():
        name = said.replace("_", "-")
        topic_id = Uuid(name.encode().ljust(16, b"\xff")[:16])
        topic = TopicImage(name, topic_id, (one,) * count)
        by_name, by_id = by_name.set(name, topic), by_id.set(topic_id, topic)
    return ClusterImage(features={"streams.version": 1}, topics_by_name=by_name, topics_by_id=by_id)


def subtopology(
    id_: str = "0",
    sources: Iterable[str] = ("in",),
    *,
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartition: dict[str, int] | None = None,
    copartition: Iterable[tuple[list[int], list[int]]] = (),
    regex: Iterable[str] = (),
) -> Subtopology:
    """A subtopology; `repartition` has the fixed partitions of its repartition sources, or 0."""
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
            CopartitionGroup(source_topics=sources, repartition_source_topics=repartition)
            for sources, repartition in copartition
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    """A topology; by default of one subtopology without state that reads "in"."""
    return Topology(epoch=epoch, subtopologies=list(subtopologies) or [subtopology()])


def tasks_of(owned: Owned | None) -> list[TaskIds] | None:
    """As a request has them."""
    if owned is None:
        return None
    return [TaskIds(subtopology_id=one, partitions=sorted(ps)) for one, ps in owned.items()]


def said(tasks: list[TaskIds] | None) -> dict[str, list[int]] | None:
    """Tasks of an answer."""
    return None if tasks is None else {one.subtopology_id: one.partitions for one in tasks}


def offsets_of(offsets: dict[tuple[str, int], int] | None) -> list[TaskOffset] | None:
    """As a request has them."""
    if offsets is None:
        return None
    return [
        TaskOffset(subtopology_id=id_, partition=partition, offset=offset)
        for (id_, partition), offset in offsets.items()
    ]


class StreamsWorld(GroupWorld):
    """A shard, and a topic "in" with four partitions. Groups wait for nothing at first, unless a
    test sets `delay_ms` or `interval_ms`."""

    def __init__(self, *, delay_ms: int = 0, interval_ms: int = 0, **given: Any) -> None:
        super().__init__(**given)
        self.image = image_of(**{"in": 4})
        self.set(initial_rebalance_delay_ms=delay_ms, assignment_interval_ms=interval_ms)

    def set(self, **settings: Any) -> None:
        """Change the settings of all streams groups."""
        self.settings = StreamsSettings(**{**getattr(self, "given", {}), **settings})
        self.given = {**getattr(self, "given", {}), **settings}
        self._use_settings()

    def _use_settings(self) -> None:
        shard: Any = self.coordinator._shard
        shard.streams_settings = lambda group_id: self.settings

    def restart(self) -> None:
        """Another coordinator with the same settings loads what was committed."""
        super().restart()
        self._use_settings()

    @property
    def streams(self) -> StreamsGroups:
        return self.coordinator.of_type(StreamsGroups)

    @property
    def group(self) -> StreamsGroup:
        group = self.coordinator.groups["g"]
        assert isinstance(group, StreamsGroup)
        return group

    def ask_beat(
        self,
        member: str = "a",
        epoch: int = 0,
        *,
        active: Owned | None = None,
        standby: Owned | None = None,
        warmup: Owned | None = None,
        group: str = "g",
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int | None = None,
        sent: Topology | None = None,
        process: str | None = None,
        endpoint: tuple[str, int] | None = None,
        endpoint_epoch: int = 0,
        tags: list[tuple[str, str]] | None = None,
        offsets: dict[tuple[str, int], int] | None = None,
        end_offsets: dict[tuple[str, int], int] | None = None,
        shutdown: bool = False,
        version: int = 1,
        host: str = "/127.0.0.1",
    ) -> int:
        """Send a heartbeat; one with epoch 0 says what a member has to say."""
        joins = epoch == 0
        if rebalance_ms is None:
            rebalance_ms = 30_000 if joins else -1
        if joins and (active, standby, warmup) == (None, None, None):
            active = standby = warmup = {}
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=endpoint_epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=(30_000 if joins else -1)
            if rebalance_ms is None
            else rebalance_ms,
            topology=sent or (topology() if joins else None),
            active_tasks=tasks_of(active),
            standby_tasks=tasks_of(standby),
            warmup_tasks=tasks_of(warmup),
            process_id=f"p-{member}" if process is None and joins else process,
            user_endpoint=None
            if endpoint is None
            else Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=None if tags is None else [KeyValue(key=k, value=v) for k, v in tags],
            task_offsets=offsets_of(offsets),
            task_end_offsets=offsets_of(end_offsets),
            shutdown_application=shutdown,
        )

        def decide(token: int) -> Decision:
            try:
                check_request(request)
            except RefusedError as error:
                decision = Decision()
                decision.reply(token, HeartbeatReply(refused(error)))
                return decision
            caller = Caller(token, version, "client", host)
            return self.streams.heartbeat(request, caller, self.wall)

        return self.ask(decide)

    def reply(self, *args: Any, **given: Any) -> HeartbeatReply:
        """Send a heartbeat; what the handler gets."""
        reply = self.replies[self.ask_beat(*args, **given)]
        assert isinstance(reply, HeartbeatReply)
        return reply

    def beat(self, *args: Any, **given: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat; its answer."""
        return self.reply(*args, **given).response

    def refusal(self, *args: Any, **given: Any) -> tuple[ErrorCode, str | None]:
        """Send a heartbeat; error and words of its answer."""
        response = self.beat(*args, **given)
        return ErrorCode(response.error_code), response.error_message

    def describe(self, group: str = "g") -> DescribedGroup:
        token = self.ask(lambda token: self.streams.describe([group], token))
        (answer,) = self.replies[token]
        assert isinstance(answer, DescribedGroup)
        return answer

    def change_topics(self, **partitions: int) -> None:
        """The cluster has these topics from now on."""
        before, self.image = self.image, image_of(**partitions)
        delta = diff(before, self.image)
        self.carry_out(lambda: self.coordinator.decide_image_changed(delta))


class Client:
    """A member that behaves as Kafka Streams does."""

    def __init__(
        self, world: StreamsWorld, member: str, process: str | None = None, **joining: Any
    ) -> None:
        self.world = world
        self.member = member
        self.process = process or f"p-{member}"
        self.joining = joining
        self.always = {"instance": joining.pop("instance", None)}
        self.epoch = 0
        self.owned: list[dict[str, list[int]]] = [{}, {}, {}]

    def beat(self) -> StreamsGroupHeartbeatResponse:
        """One heartbeat; tasks that the answer takes away are not owned from then on."""
        kinds = dict(zip(("active", "standby", "warmup"), self.owned, strict=True))
        first = {"process": self.process, **self.joining} if self.epoch == 0 else {}
        response = self.world.beat(self.member, self.epoch, **kinds, **first, **self.always)
        assert response.error_code == ErrorCode.NONE, response
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            lists = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
            self.owned = [said(one) or {} for one in lists]
        return response

    @property
    def active(self) -> dict[str, list[int]]:
        return self.owned[0]

    @property
    def standby(self) -> dict[str, list[int]]:
        return self.owned[1]


def settle(*clients: Client) -> None:
    """Heartbeats in turns until nothing changes any more."""
    for _ in range(50):
        before = [(one.epoch, one.owned) for one in clients]
        for one in clients:
            one.beat()
        if before == [(one.epoch, one.owned) for one in clients]:
            return
    raise AssertionError("it does not settle")
