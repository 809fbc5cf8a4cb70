"""How the leader of a classic group gives partitions to members: Kafka's range and roundrobin.

Every member may come to lead, so members of all clients must get what Kafka's own assignors of
these names give them. Pure functions; partitions go to members in the order of their static ids,
then of their member ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Final, NamedTuple

from fencepost.client.metadata import TopicPartition


class Subscriber(NamedTuple):
    """A member of the group as its leader sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[list[Subscriber], Mapping[str, int]], Assignment]


def _in_order(members: list[Subscriber]) -> list[Subscriber]:
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))


def assign_range(members: list[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """Each topic's partitions in consecutive ranges; the first members get one more."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic, count in sorted(partition_counts.items()):
        takers = [member for member in _in_order(members) if topic in member.topics]
        start = 0
        for index, member in enumerate(takers):
            end = start + count // len(takers) + (index < count % len(takers))
            assignment[member.member_id] += [TopicPartition(topic, n) for n in range(start, end)]
            start = end
    return assignment


def assign_roundrobin(members: list[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """All partitions of all topics in turn, past members that do not read the topic."""
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(_in_order(members))
    for topic, count in sorted(partition_counts.items()):
        if not any(topic in member.topics for member in members):
            continue
        for number in range(count):
            taker = next(member for member in turns if topic in member.topics)
            assignment[taker.member_id].append(TopicPartition(topic, number))
    return assignment


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
}
"""By the names that members tell each other, in the order of preference."""
