"""What a sample comes to: its topics' health, counts by broker, and the partitions in trouble.

A cluster may have 100,000 partitions, so they are gone through once for each sample, by the thread
that takes it, and not once for each page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from fencepost.client.metadata import PartitionInfo, TopicInfo, is_under_replicated
from fencepost.console.page import Level
from fencepost.console.sample import Sample
from fencepost.views.view import View

KEPT: Final = 2
"""Summaries that are kept: that of the newest sample, and the one before it while pages use it."""

UNDER_REPLICATED: Final = "under-replicated"
OFFLINE: Final = "offline"
NOT_PREFERRED: Final = "not-preferred"

TROUBLES: Final[dict[str, Callable[[PartitionInfo], bool]]] = {
    UNDER_REPLICATED: is_under_replicated,
    OFFLINE: lambda one: one.leader_id < 0,
    NOT_PREFERRED: lambda one: 0 <= one.leader_id not in one.replicas[:1],
}
"""By name: which partitions are in this kind of trouble."""


class TopicHealth(View, frozen=True):
    """A topic in a list. `under_replicated` and `offline` count partitions."""

    columns: ClassVar = {
        "topic": "name",
        "partitions": "partitions",
        "replicas": "replication_factor",
        "under-replicated": "under_replicated",
        "offline": "offline",
        "internal": "internal_text",
    }

    name: str
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    internal: bool

    @property
    def internal_text(self) -> str | None:
        return "internal" if self.internal else None

    @property
    def level(self) -> Level | None:
        """What its row is worth: None where all is well."""
        return "bad" if self.offline else "warning" if self.under_replicated else None

    @classmethod
    def of(cls, topic: TopicInfo) -> TopicHealth:
        partitions = topic.partitions.values()
        return cls(
            topic.name,
            len(partitions),
            max((len(one.replicas) for one in partitions), default=0),
            sum(map(TROUBLES[UNDER_REPLICATED], partitions)),
            sum(map(TROUBLES[OFFLINE], partitions)),
            topic.is_internal,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """What a sample comes to. `leads`, `replicas` and `out_of_sync` count partitions by broker;
    `troubled` has the partitions (topic, number) of each kind of trouble, in order."""

    topics: Mapping[str, TopicHealth]
    partitions: int
    leads: Counter[int]
    replicas: Counter[int]
    out_of_sync: Counter[int]
    troubled: Mapping[str, tuple[tuple[str, int], ...]]

    @classmethod
    def of(cls, sample: Sample) -> Summary:
        leads: Counter[int] = Counter()
        replicas: Counter[int] = Counter()
        out_of_sync: Counter[int] = Counter()
        troubled: dict[str, list[tuple[str, int]]] = {name: [] for name in TROUBLES}
        for name, topic in sorted(sample.topics.items()):
            leads.update(one.leader_id for one in topic.partitions.values())
            for number, one in topic.partitions.items():
                replicas.update(one.replicas)
                if is_under_replicated(one):
                    out_of_sync.update(set(one.replicas).difference(one.isr))
                for kind, is_troubled in TROUBLES.items():
                    if is_troubled(one):
                        troubled[kind].append((name, number))
        return cls(
            {name: TopicHealth.of(topic) for name, topic in sorted(sample.topics.items())},
            sum(len(topic.partitions) for topic in sample.topics.values()),
            leads,
            replicas,
            out_of_sync,
            {kind: tuple(sorted(found)) for kind, found in troubled.items()},
        )


class Summaries:
    """The summaries of the newest samples. May be asked from any thread."""

    def __init__(self) -> None:
        self._found: tuple[tuple[Sample, Summary], ...] = ()

    def of(self, sample: Sample) -> Summary:
        """The summary of a sample, made if it is not kept."""
        for known, summary in self._found:
            if known is sample:
                return summary
        made = Summary.of(sample)
        self._found = (*self._found, (sample, made))[-KEPT:]
        return made
