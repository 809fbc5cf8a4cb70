"""`Topology`: what the application of a group runs, as its first member said it (record 23).

The topology of a group does not change in Kafka 4.4: a member with an older one (a lower epoch) is
told so and stays, any other difference is refused (`heartbeat`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from sys import getsizeof
from typing import Final

from fencepost.wire.api import streams_group_heartbeat as api
from fencepost.wire.records.group_streams import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

OBJECT_BYTES: Final = 256
"""Allowance for the objects of a topic, a subtopology or a name."""


class MalformedTopologyError(Exception):
    """Two subtopologies of a topology have one id, or its epoch is negative."""


class Topology:
    """See the module. Not changed once it is made."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        """The topology of a record, whatever it says: of two subtopologies of one id the last
        counts. A record that makes no sense is no reason to lose the other groups' with it."""
        self.epoch = value.epoch
        self.subtopologies: dict[str, Subtopology] = {
            one.subtopology_id: one
            for one in sorted(value.subtopologies, key=lambda one: _order_of(one.subtopology_id))
        }
        """By id, in the order of the ids: "9" before "10"."""
        self.value = value

    @classmethod
    def of_request(cls, topology: api.Topology) -> Topology:
        """The topology in a heartbeat. MalformedTopologyError."""
        subtopologies = [_subtopology(one) for one in topology.subtopologies]
        value = StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies)
        made = cls(value)
        if value.epoch < 0 or len(made.subtopologies) < len(subtopologies):
            raise MalformedTopologyError
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return (self.epoch, self.subtopologies) == (other.epoch, other.subtopologies)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The topics that it reads or restores from: sources, repartition sources, changelogs."""
        return frozenset(
            name
            for one in self.subtopologies.values()
            for name in (
                *source_topics(one),
                *(topic.name for topic in one.state_changelog_topics),
            )
        )

    @cached_property
    def reader_of(self) -> dict[str, str]:
        """The subtopology that reads each source topic, repartition topics among them."""
        return {
            name: subtopology_id
            for subtopology_id, one in self.subtopologies.items()
            for name in source_topics(one)
        }

    @cached_property
    def counted_bytes(self) -> int:
        """What it takes of memory, with an allowance for its objects."""
        texts = 0
        objects = 1
        for one in self.subtopologies.values():
            names = [one.subtopology_id, *one.source_topics, *one.repartition_sink_topics]
            for topic in (*one.state_changelog_topics, *one.repartition_source_topics):
                names.append(topic.name)
                for config in topic.topic_configs:
                    names += (config.key, config.value)
            indexes = sum(
                len(group.source_topics) + len(group.repartition_source_topics)
                for group in one.copartition_groups
            )
            texts += sum(map(getsizeof, names)) + 8 * indexes
            objects += 1 + len(names) + len(one.copartition_groups)
        return texts + objects * OBJECT_BYTES


def source_topics(subtopology: Subtopology) -> Iterator[str]:
    """The topics that the subtopology reads: its sources, then its repartition sources."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topics_named(topology: api.Topology) -> list[str]:
    """All topics that the topology of a heartbeat names, each once, in its order."""
    names = (
        name
        for one in topology.subtopologies
        for name in (
            *one.source_topics,
            *one.repartition_sink_topics,
            *(topic.name for topic in one.repartition_source_topics),
            *(topic.name for topic in one.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(names))


def _order_of(subtopology_id: str) -> tuple[int, str]:
    """Kafka Streams counts its subtopologies: in the order of their numbers, then."""
    return len(subtopology_id), subtopology_id


def _subtopology(one: api.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=one.source_topics,
        source_topic_regex=one.source_topic_regex,
        state_changelog_topics=[_topic(topic) for topic in one.state_changelog_topics],
        repartition_sink_topics=one.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in one.repartition_source_topics],
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in one.copartition_groups
        ],
    )


def _topic(topic: api.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=one.key, value=one.value) for one in topic.topic_configs],
    )
