"""Topics: their partitions and configs, and why replicas are not in sync."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from fencepost.client.admin import (
    TOPIC_RESOURCE,
    CreatedTopic,
    describing_configs,
    describing_topic,
)
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError, UnsupportedApi
from fencepost.client.metadata import TopicInfo, TopicPartition, is_under_replicated
from fencepost.client.replicas import LogDirState, describing_log_dirs, describing_partitions
from fencepost.client.topic_patterns import PatternMatches
from fencepost.views.view import View, count
from fencepost.wire.errors import ErrorCode

NOT_THERE: Final = "the broker is stopped or fenced"
NO_LOG: Final = (
    "the broker has no log of it: its log directory is gone, or two have one; the broker's log and"
    " /ready say which, and what to do"
)


class ListedTopic(View, frozen=True):
    """A topic in a list."""

    name: str
    id: str
    partitions: int
    internal: bool

    @classmethod
    def of(cls, topic: TopicInfo) -> ListedTopic:
        return cls(topic.name, str(topic.topic_id), len(topic.partitions), topic.is_internal)


class NewTopic(View, frozen=True):
    """A topic that was created, or could be."""

    name: str
    id: str
    partitions: int
    replication_factor: int

    @classmethod
    def of(cls, topic: CreatedTopic) -> NewTopic:
        return cls(topic.name, str(topic.topic_id), topic.partitions, topic.replication_factor)


class GrownTopic(View, frozen=True):
    """A topic with more partitions than before."""

    name: str
    partitions: int


class TopicsMatched(View, frozen=True):
    """The topics that a pattern of a subscription matches, and (`in_part`) those of which it only
    matches a part; `advice` is a pattern that matches these as well."""

    pattern: str
    matched: list[str]
    in_part: list[str]
    advice: str | None

    @classmethod
    def of(cls, pattern: str, found: PatternMatches) -> TopicsMatched:
        return cls(pattern, list(found.matched), list(found.in_part), found.advice)

    @property
    def warning(self) -> list[str]:
        """Lines about what is matched in part."""
        if not self.in_part:
            return []
        hint = "" if self.advice is None else f"; '{self.advice}' would match all of these"
        topics = count(len(self.in_part), "more topic")
        first = f"of {topics} only a part of the name matches, and the whole name has to{hint}:"
        return [first, *(f"  {name}" for name in self.in_part)]


class DeletedTopics(View, frozen=True):
    """Names of topics that were deleted."""

    deleted: list[str]


class PartitionView(View, frozen=True):
    """A partition. The leader is -1 if there is none; `elr` are replicas out of sync that may lead,
    `last_known_elr` those that may be recovered from (KIP-966), None each from brokers that do not
    tell."""

    columns: ClassVar = {
        "partition": "partition",
        "leader": "leader",
        "epoch": "leader_epoch",
        "replicas": "replicas",
        "isr": "isr",
        "offline": "offline",
        "elr": "elr",
        "last-known-elr": "last_known_elr",
    }

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    elr: list[int] | None
    last_known_elr: list[int] | None


class HaltedReplica(View, frozen=True, order=True):
    """A replica that is not in sync, and why."""

    partition: int
    replica: int
    why: str

    @property
    def sentence(self) -> str:
        return f"partition {self.partition}, replica {self.replica}: {self.why}"


class TopicView(View, frozen=True):
    """A topic with the configs that are set on it."""

    name: str
    id: str
    internal: bool
    configs: dict[str, str | None]
    partitions: list[PartitionView]
    halted: list[HaltedReplica]


Chosen = Callable[[PartitionView, int], bool]
"""Whether a partition is to be shown, given its topic's min.insync.replicas."""

FILTERS: Final[dict[str, tuple[str, Chosen]]] = {
    "under_replicated": (
        "with replicas that are not in sync",
        lambda one, least: is_under_replicated(one),
    ),
    "unavailable": ("without a leader", lambda one, least: one.leader < 0),
    "under_min_isr": (
        "with fewer in sync than min.insync.replicas",
        lambda one, least: len(one.isr) < least,
    ),
    "at_min_isr": (
        "with just as many in sync as min.insync.replicas",
        lambda one, least: len(one.isr) == least,
    ),
}
"""By name: what it says, and which partitions it chooses. Several choose what any does."""


def viewing_topic(
    view: ClusterView[Any],
    name: str,
    chosen: Sequence[Chosen] = (),
    unreachable: dict[int, str] | None = None,
) -> Conversation[TopicView]:
    """One topic, with those of its partitions that are chosen; with all if nothing chooses.

    Replicas that are eligible to lead come from DescribeTopicPartitions; of a broker without that
    API they are not known. `unreachable` says by broker why it does not answer: such brokers are
    not asked again for the next topic.
    """
    topic = yield from describing_topic(view, name)
    configs = yield from describing_configs(view, TOPIC_RESOURCE, name)
    min_isr = next(
        (int(c.value) for c in configs if c.name == "min.insync.replicas" and c.value), 1
    )
    partitions = yield from _viewing_partitions(view, topic)
    if chosen:
        partitions = [one for one in partitions if any(choose(one, min_isr) for choose in chosen)]
    halted = yield from viewing_halted_replicas(
        view, name, partitions, {} if unreachable is None else unreachable
    )
    return TopicView(
        name,
        str(topic.topic_id),
        topic.is_internal,
        {c.name: c.value for c in configs if c.source == "topic"},
        partitions,
        halted,
    )


def _viewing_partitions(
    view: ClusterView[Any], topic: TopicInfo
) -> Conversation[list[PartitionView]]:
    """The partitions in order, with their eligible replicas if the broker tells of them."""
    try:
        described = yield from describing_partitions(view, [topic.name])
    except UnsupportedApi:
        return [
            PartitionView(
                number,
                one.leader_id,
                one.leader_epoch,
                list(one.replicas),
                list(one.isr),
                list(one.offline),
                None,
                None,
            )
            for number, one in sorted(topic.partitions.items())
        ]
    return [
        PartitionView(
            where.partition,
            one.leader_id,
            one.leader_epoch,
            list(one.replicas),
            list(one.isr),
            list(one.offline),
            list(one.eligible),
            list(one.last_known),
        )
        for where, one in sorted(described.items())
    ]


def viewing_halted_replicas(
    view: ClusterView[Any],
    topic: str,
    partitions: Sequence[PartitionView],
    unreachable: dict[int, str],
) -> Conversation[list[HaltedReplica]]:
    """The replicas of a topic that are not in sync or cannot be used, and why, as far as the
    brokers' log directories tell (DescribeLogDirs).

    Only brokers that have such are asked, and none again that has not answered: why is in
    `unreachable`, by broker.
    """
    wanted: dict[int, list[int]] = {}
    for one in partitions:
        for replica in one.replicas:
            if replica not in one.isr or replica in one.offline:
                wanted.setdefault(replica, []).append(one.partition)
    leaderless = {one.partition for one in partitions if one.leader < 0}
    found: list[HaltedReplica] = []
    for broker_id, numbers in wanted.items():
        states = yield from _asking_log_dirs(view, broker_id, topic, numbers, unreachable)
        for number in numbers:
            why = unreachable.get(broker_id) or _why(
                states, TopicPartition(topic, number), number in leaderless
            )
            found.append(HaltedReplica(number, broker_id, why))
    return sorted(found)


def _asking_log_dirs(
    view: ClusterView[Any],
    broker_id: int,
    topic: str,
    numbers: Sequence[int],
    unreachable: dict[int, str],
) -> Conversation[list[LogDirState]]:
    """The log directories of a broker; none, and a note in `unreachable`, if it does not answer."""
    if broker_id not in view.metadata.nodes:
        unreachable[broker_id] = NOT_THERE
    if broker_id in unreachable:
        return []
    try:
        where = [TopicPartition(topic, number) for number in numbers]
        return (yield from describing_log_dirs(view, broker_id, where))
    except ClientError as error:
        unreachable[broker_id] = f"the broker does not answer: {error}"
        return []


def _why(states: Sequence[LogDirState], where: TopicPartition, is_leaderless: bool) -> str:
    for state in states:
        replica = state.replicas.get(where)
        if replica is not None and not replica.is_future:
            if is_leaderless:
                return f"its log is in {state.path}; no replica leads"
            return f"its log in {state.path} lacks {replica.offset_lag} records that it knows of"
    offline = [state.path for state in states if state.error_code != ErrorCode.NONE]
    if offline:
        return f"its log directory is offline, or may be: {', '.join(offline)}"
    return NO_LOG
