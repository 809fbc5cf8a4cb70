"""How a cluster is, in sentences, of a sample of it."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.metadata import PartitionInfo, TopicInfo
from fencepost.console.asked import path_to
from fencepost.console.page import Level, Sentence
from fencepost.console.sample import Sample
from fencepost.views.view import View, count


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
            sum(map(is_under_replicated, partitions)),
            sum(one.leader_id < 0 for one in partitions),
            topic.is_internal,
        )


def is_under_replicated(one: PartitionInfo) -> bool:
    """Whether a replica is not in the ISR."""
    return len(one.isr) < len(one.replicas)


def health_of(sample: Sample) -> list[Sentence]:
    """The cluster's health, the worst first; the first sentence says all of it in short."""
    found = [*_fenced(sample), *_partitions(sample), *_unanswered(sample)]
    order = ("bad", "warning", "note", "good")
    found.sort(key=lambda sentence: order.index(sentence.level))
    return [_in_short(sample, found), *found]


def _in_short(sample: Sample, found: list[Sentence]) -> Sentence:
    alive = len(sample.brokers) - len(sample.fenced & sample.brokers.keys())
    has = (
        f"{count(alive, 'broker')}, {count(len(sample.topics), 'topic')},"
        f" {count(sum(len(one.partitions) for one in sample.topics.values()), 'partition')}"
    )
    if not found:
        return Sentence(f"All is well: {has}, every replica in sync.", "good")
    worst = found[0].level
    word = {"bad": "Something is broken", "warning": "To be looked at"}.get(worst, "It runs")
    return Sentence(f"{word}: {has}.", worst)


def _fenced(sample: Sample) -> list[Sentence]:
    return [
        Sentence(f"Broker {broker} is fenced: it is stopped, or cannot be reached.", "bad")
        for broker in sorted(sample.fenced)
    ]


def _partitions(sample: Sample) -> list[Sentence]:
    offline = under = 0
    for topic in sample.topics.values():
        for one in topic.partitions.values():
            if one.leader_id < 0:
                offline += 1
            elif is_under_replicated(one):
                under += 1
    found = []
    if offline:
        link = path_to("replication", show="offline")
        found.append(Sentence(f"{count(offline, 'partition')} without a leader.", "bad", link))
    if under:
        link = path_to("replication", show="under-replicated")
        text = f"{count(under, 'partition')} with replicas that are not in sync."
        found.append(Sentence(text, "warning", link))
    return found


def _unanswered(sample: Sample) -> list[Sentence]:
    return [
        Sentence(f"{name} could not be had: {error}.", "note")
        for name, error in sorted(sample.errors.items())
    ]
