"""The assignor `simple` of share groups (KIP-932): Kafka's `SimpleAssignor`, but deterministic.

A partition may be given to several members. Where all subscribe to the same topics, all partitions
are dealt at once; else those of each topic by themselves, among the members that subscribe to it.

One deal of P partitions among M members: each partition is shared by S = ceil(M / P) members, and
the S * P places are spread over the members as evenly as may be, the larger quotas by the order of
their ids. Members keep what they had, up to their quotas, and no partition is kept by more than S;
what is left is dealt in turn. So every member gets something while there are partitions.

Where Kafka goes by the order of hash tables, here members go by their ids, topics by theirs, and
partitions by their numbers. A partition that can be given to none of the members in need of one,
since they have it, ends Kafka's deal; here the next partition is dealt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fencepost.wire.types import Uuid

SIMPLE: Final = "simple"
"""The assignor's name."""

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by their topic's id. No topic is there without partitions."""

_Partition = tuple[Uuid, int]


class ShareMemberSpec(NamedTuple):
    """What the assignor needs to know of a member."""

    topic_ids: frozenset[Uuid]
    """The topics that it subscribes to and that exist."""
    target: Partitions
    """What it is to have at present."""


def assign_simple(
    members: Mapping[str, ShareMemberSpec], assignable: Partitions, *, is_homogeneous: bool
) -> dict[str, dict[Uuid, frozenset[int]]]:
    """What each member is to have of the assignable partitions."""
    member_ids = sorted(members)
    subscribed: set[Uuid] = set().union(*(one.topic_ids for one in members.values()))
    topics = sorted(topic_id for topic_id in subscribed if topic_id in assignable)
    if is_homogeneous:
        deals = [(topics, member_ids)]
    else:
        deals = [
            ([topic_id], [one for one in member_ids if topic_id in members[one].topic_ids])
            for topic_id in topics
        ]
    dealt: dict[str, set[_Partition]] = {member_id: set() for member_id in member_ids}
    for some_topics, some_members in deals:
        partitions = [
            (topic_id, index) for topic_id in some_topics for index in sorted(assignable[topic_id])
        ]
        before = {one: _pairs(members[one].target) for one in some_members}
        for member_id, pairs in _deal(partitions, some_members, before).items():
            dealt[member_id] |= pairs
    return {member_id: _by_topic(pairs) for member_id, pairs in dealt.items()}


def _deal(
    partitions: Sequence[_Partition],
    member_ids: Sequence[str],
    before: Mapping[str, Iterable[_Partition]],
) -> dict[str, set[_Partition]]:
    member_count, partition_count = len(member_ids), len(partitions)
    if not member_count or not partition_count:
        return {}
    sharing = -(-member_count // partition_count)
    places = sharing * partition_count
    quotas = {
        member_id: -(-places * (position + 1) // member_count)
        - -(-places * position // member_count)
        for position, member_id in enumerate(member_ids)
    }
    shared = dict.fromkeys(partitions, 0)
    kept: dict[str, set[_Partition]] = {}
    for member_id in member_ids:
        mine = kept[member_id] = set()
        for partition in sorted(before[member_id]):
            if (
                partition in shared
                and shared[partition] < sharing
                and len(mine) < quotas[member_id]
            ):
                mine.add(partition)
                shared[partition] += 1
    unfilled = [one for one in member_ids if len(kept[one]) < quotas[one]]
    position = 0
    for partition in partitions:
        tried = 0
        while shared[partition] < sharing and tried < len(unfilled):
            position %= len(unfilled)
            member_id = unfilled[position]
            mine = kept[member_id]
            if partition in mine:
                position, tried = position + 1, tried + 1
                continue
            mine.add(partition)
            shared[partition] += 1
            if len(mine) == quotas[member_id]:
                del unfilled[position]  # the next one has moved to its place
                tried = 0
            else:
                position, tried = position + 1, 0
    return kept


def _pairs(partitions: Partitions) -> list[_Partition]:
    return [(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]


def _by_topic(pairs: Iterable[_Partition]) -> dict[Uuid, frozenset[int]]:
    indexes: dict[Uuid, set[int]] = {}
    for topic_id, index in sorted(pairs):
        indexes.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(some) for topic_id, some in indexes.items()}
