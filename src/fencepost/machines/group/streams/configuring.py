"""`configure`: the topics that a topology needs, held against those that the cluster has.

A topology is ready when its source topics exist, topics that are joined have equally many
partitions, and all internal topics exist with the partitions that follow from that:

* a repartition topic has the count that the topology fixes, or else the most partitions of any
  source of a subtopology that writes it; within a copartition group, those of the group's sources;
* a changelog topic has as many partitions as its subtopology has tasks: the most partitions of any
  of its sources.

What is missing among internal topics is in the result, for the request's handler to create. Rules
and words are those of Kafka 4.4.0, with one difference: where the count of a repartition topic
depends on the order in which subtopologies are looked at, that is the order of their ids here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from msgspec import Struct

from fencepost.machines.group.streams.topology import Topology, source_topics
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from fencepost.wire.records.group_streams import CopartitionGroup, Subtopology, TopicInfo

MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
_NAMED_MAX: Final = 3
_BROKER_DEFAULT: Final = -1


class InvalidTopologyError(Exception):
    """No topics could make the topology run (STREAMS_INVALID_TOPOLOGY)."""


class BrokenTopologyError(Exception):
    """The topology contradicts itself, in ways that Kafka answers with UNKNOWN_SERVER_ERROR."""


class _TopicsError(Exception):
    """The cluster's topics do not fit: a status of the heartbeat."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = TopologyStatus(status, detail)


class TopologyStatus(NamedTuple):
    """Why a topology is not ready, as a heartbeat's answer says it."""

    code: int
    detail: str


class InternalTopic(NamedTuple):
    """A repartition or changelog topic as it must be."""

    name: str
    partitions: int
    replication_factor: int
    """0: the broker's default."""
    configs: tuple[tuple[str, str], ...]


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology with the number of its tasks and the shape of its internal topics."""

    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether it has state, of which standby tasks can keep copies."""
        return bool(self.changelogs)


class ConfiguredTopology(Struct, frozen=True):
    """What became of a topology."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """By id, in order; None where topics are missing or do not fit."""
    to_create: tuple[InternalTopic, ...] = ()
    status: TopologyStatus | None = None

    @property
    def is_ready(self) -> bool:
        """Whether members can be given tasks."""
        return self.status is None


def configure(topology: Topology, image: ClusterImage) -> ConfiguredTopology:
    """Hold the topology against the image. InvalidTopologyError, BrokenTopologyError."""
    try:
        return _Configuration(topology, image).result()
    except _TopicsError as error:
        return ConfiguredTopology(topology.epoch, None, status=error.status)


def internal_topic(topic: TopicInfo) -> InternalTopic:
    """The topic as the topology says it: 0 partitions where that is to be derived."""
    configs = tuple((one.key, one.value) for one in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def creatable(topic: InternalTopic) -> CreatableTopic:
    """The topic as CreateTopics has it."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _BROKER_DEFAULT,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )


class _Configuration:
    """One pass over a topology; `_decided` are the counts of internal topics as they get known."""

    def __init__(self, topology: Topology, image: ClusterImage) -> None:
        self._topology = topology
        self._subtopologies = list(topology.subtopologies.values())
        self._image = image
        self._decided: dict[str, int] = {}
        self._fixed: dict[str, int] | None = None

    def result(self) -> ConfiguredTopology:
        """See `configure`. _TopicsError."""
        self._refuse_missing_sources()
        self._decided.update(repartition_counts(self._subtopologies, self._count_of))
        self._enforce_copartitioning()
        for one in self._subtopologies:
            tasks = self._task_count(one)
            self._decided.update((topic.name, tasks) for topic in one.state_changelog_topics)
        configured = {one.subtopology_id: self._configured(one) for one in self._subtopologies}
        missing = self._missing(configured.values())
        status = None
        if missing:
            detail = f"Internal topics are missing: {_summary([one.name for one in missing])}"
            status = TopologyStatus(MISSING_INTERNAL_TOPICS, detail)
        return ConfiguredTopology(self._topology.epoch, configured, missing, status)

    def _count_of(self, topic: str) -> int | None:
        """How many partitions the topic has, or will have when it is created."""
        known = self._image.topics_by_name.get(topic)
        return self._decided.get(topic) if known is None else len(known.partitions)

    def _known_count_of(self, topic: str) -> int:
        count = self._count_of(topic)
        if count is None:
            raise BrokenTopologyError(f"the number of partitions of {topic} is unknown")
        return count

    def _refuse_missing_sources(self) -> None:
        sources = {name for one in self._subtopologies for name in one.source_topics}
        missing = sorted(name for name in sources if name not in self._image.topics_by_name)
        if missing:
            raise _TopicsError(
                MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing."
            )

    def _enforce_copartitioning(self) -> None:
        """Give the repartition topics of each copartition group the count of the group."""
        fixed = {
            topic.name: None
            for one in self._subtopologies
            for topic in one.repartition_source_topics
            if topic.partitions
        }
        flexible = {
            topic.name
            for one in self._subtopologies
            for topic in one.repartition_source_topics
            if not topic.partitions
        }
        for one in self._subtopologies:
            for group in one.copartition_groups:
                names = _group_names(one, group)
                if names:
                    self._enforce(names, fixed, flexible)

    def _enforce(
        self, names: Collection[str], fixed: Collection[str], flexible: Collection[str]
    ) -> None:
        internal = {
            name: self._known_count_of(name) for name in names if name in fixed or name in flexible
        }
        others = {name: self._known_count_of(name) for name in names if name not in internal}
        if others:
            count = _same_count(others, others)
        elif fixed:
            count = _same_count(self._fixed_counts(fixed), internal)
        else:
            count = max(internal.values())
        for name, present in internal.items():
            if name in fixed and present != count:
                raise _TopicsError(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{present}] of repartition topic [{name}] doesn't match"
                    f" number of partitions [{count}] of the source topic.",
                )
        self._decided.update(dict.fromkeys(internal, count))

    def _fixed_counts(self, fixed: Collection[str]) -> Mapping[str, int]:
        """The partitions of the topics whose number is fixed, one name for each number there is.

        No copartition group changes them: they are looked up for the first that asks.
        """
        if self._fixed is None:
            by_count = {self._known_count_of(name): name for name in fixed}
            self._fixed = {name: count for count, name in by_count.items()}
        return self._fixed

    def _task_count(self, subtopology: Subtopology) -> int:
        counts = [self._known_count_of(name) for name in source_topics(subtopology)]
        if not counts:
            subtopology_id = subtopology.subtopology_id
            raise InvalidTopologyError(f"No source topics found for subtopology {subtopology_id}")
        return max(counts)

    def _configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            self._task_count(subtopology),
            tuple(subtopology.source_topics),
            tuple(self._internal(topic) for topic in subtopology.repartition_source_topics),
            tuple(subtopology.repartition_sink_topics),
            tuple(self._internal(topic) for topic in subtopology.state_changelog_topics),
        )

    def _internal(self, topic: TopicInfo) -> InternalTopic:
        partitions = topic.partitions or self._decided.get(topic.name, 0)
        if partitions < 1:
            raise BrokenTopologyError(f"{topic.name} would have {partitions} partitions")
        return internal_topic(topic)._replace(partitions=partitions)

    def _missing(self, configured: Iterable[ConfiguredSubtopology]) -> tuple[InternalTopic, ...]:
        """The internal topics that do not exist, by name. _TopicsError if one is another size."""
        expected = {
            topic.name: topic
            for one in configured
            for topic in (*one.repartition_sources, *one.changelogs)
        }
        missing = []
        for name, topic in sorted(expected.items()):
            known = self._image.topics_by_name.get(name)
            if known is None:
                missing.append(topic)
            elif len(known.partitions) != topic.partitions:
                raise _TopicsError(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected"
                    f" {topic.partitions}, found {len(known.partitions)}",
                )
        return tuple(missing)


def repartition_counts(
    subtopologies: list[Subtopology], count_of: Callable[[str], int | None]
) -> dict[str, int]:
    """The partitions of all repartition topics. InvalidTopologyError.

    In rounds over the subtopologies: one whose sources are not known yet is looked at again when
    one of them is, in the same round if it comes later in the order, in the next one otherwise.
    """
    counts = {
        topic.name: topic.partitions
        for one in subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    readers: dict[str, list[int]] = {}
    for at, one in enumerate(subtopologies):
        for topic in one.repartition_source_topics:
            readers.setdefault(topic.name, []).append(at)
    this_round, next_round = list(range(len(subtopologies))), list[int]()
    waiting: set[int] = set()
    while this_round:
        at = heappop(this_round)
        waiting.discard(at)
        undecided = [n for n in subtopologies[at].repartition_sink_topics if n not in counts]
        if undecided:
            count = _largest_known(subtopologies[at], counts, count_of)
            if count is None:
                waiting.add(at)
            else:
                counts.update(dict.fromkeys(undecided, count))
                for reader in {one for name in undecided for one in readers.get(name, ())}:
                    if reader in waiting:
                        heappush(this_round if reader > at else next_round, reader)
        if not this_round:
            heapify(next_round)
            this_round, next_round = next_round, []
    if waiting:
        raise InvalidTopologyError(
            "Failed to compute number of partitions for all repartition topics. There may be loops"
            " in the topology that cannot be resolved."
        )
    if any(name not in counts for name in readers):
        raise InvalidTopologyError(
            "Failed to compute number of partitions for all repartition topics, because a"
            " repartition source topic is never used as a sink topic."
        )
    return counts


def _largest_known(
    subtopology: Subtopology, counts: Mapping[str, int], count_of: Callable[[str], int | None]
) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [count_of(name) for name in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def _group_names(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    """The topics of a copartition group, which names them by their places. BrokenTopologyError."""
    sources = subtopology.source_topics
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    names = []
    for places, topics in (
        (group.source_topics, sources),
        (group.repartition_source_topics, repartition),
    ):
        for place in places:
            if not 0 <= place < len(topics):
                raise BrokenTopologyError(f"there is no source topic {place}")
            names.append(topics[place])
    return sorted(set(names))


def _same_count(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """The one count that all have. _TopicsError, with what is `named`, if they differ."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(named.items()))
        raise _TopicsError(
            INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts.values()))


def _summary(names: list[str]) -> str:
    more = len(names) - _NAMED_MAX
    shown = ", ".join(names[:_NAMED_MAX])
    return f"{shown} and {more} additional topics" if more > 0 else shown
