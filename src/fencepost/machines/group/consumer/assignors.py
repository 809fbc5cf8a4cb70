"""The assignors of consumer groups (KIP-848): who is to have which partitions.

Pure functions of an immutable spec, with Kafka's results: the same partitions move, and the same
members get one more than others. Where Kafka follows the order of a Java hash map, topics are in
the order of their ids here, so a result is a function of the spec alone.

* `uniform` gives every member as many partitions as the others, give or take one, and moves as few
  as that takes. With equal subscriptions that is a matter of quotas; else partitions move from the
  most to the least loaded of the subscribers of each topic, as long as that evens them out.
* `range` gives every member a run of consecutive partitions of each topic, whatever it has now.
  Members are in the order of instance ids, those without behind them by member id, so members with
  equal subscriptions have the same numbers of partitions of topics of equal size.

Neither looks at racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from fencepost.wire.types import Uuid

BALANCE_ROUNDS_MAX: Final = 16
"""Rounds over all topics, each of which moves partitions between the topic's subscribers."""

Assignment = dict[str, dict[Uuid, frozenset[int]]]
"""The partitions by member id and topic id; every member of the spec is in it."""


class SpecMember(NamedTuple):
    """A member whose partitions are to be found; `partitions` is what the present target gives."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[Uuid]
    partitions: Mapping[Uuid, frozenset[int]]


class AssignmentSpec(NamedTuple):
    """What an assignor decides by: the members by member id, and the sizes of all their topics."""

    members: tuple[SpecMember, ...]
    partition_counts: Mapping[Uuid, int]


def assign_uniform(spec: AssignmentSpec) -> Assignment:
    """Even numbers of partitions, with as few moves as that takes."""
    members = spec.members
    if not any(member.topic_ids for member in members):
        return {member.member_id: {} for member in members}
    if all(member.topic_ids == members[0].topic_ids for member in members):
        return _by_quotas(spec)
    return _Balance(spec).result()


def assign_range(spec: AssignmentSpec) -> Assignment:
    """Runs of consecutive partitions of each topic."""
    counts: dict[Uuid, int] = {}
    for member in spec.members:
        for topic_id in member.topic_ids:
            counts[topic_id] = counts.get(topic_id, 0) + 1
    # Per topic: the quota, how many members get one more, and the next partition.
    quotas = {
        topic_id: [*divmod(spec.partition_counts[topic_id], subscribers), 0]
        for topic_id, subscribers in counts.items()
    }
    result: Assignment = {member.member_id: {} for member in spec.members}
    for member in sorted(spec.members, key=_range_order):
        for topic_id in sorted(member.topic_ids):
            quota, extras, start = state = quotas[topic_id]
            end = start + quota + (extras > 0)
            state[1:] = extras - (extras > 0), end
            if end > start:
                result[member.member_id][topic_id] = frozenset(range(start, end))
    return result


def _range_order(member: SpecMember) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id


ASSIGNORS: Final[Mapping[str, Callable[[AssignmentSpec], Assignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""By the names that members and `group.consumer.assignors` give them."""


# Uniform, with equal subscriptions


def _by_quotas(spec: AssignmentSpec) -> Assignment:
    """A member keeps what fits into its quota; what is free then fills up the others in order."""
    members, topic_ids = spec.members, sorted(spec.members[0].topic_ids)
    total = sum(spec.partition_counts[topic_id] for topic_id in topic_ids)
    quota, extras = divmod(total, len(members))
    result: Assignment = {}
    free = _free_partitions(members, topic_ids, spec.partition_counts)
    unfilled: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_extra = extras > 0
        kept, released, open_ = _keep(member, topic_ids, quota + has_extra, spec.partition_counts)
        result[member.member_id] = kept
        free += released
        if open_ and has_extra and len(members) - index > extras:
            # Another one, which may have a partition more already, gets it instead.
            open_, has_extra = open_ - 1, False
        if open_:
            unfilled.append((member.member_id, open_))
        extras -= has_extra
    start = 0
    for member_id, open_ in unfilled:
        _add(result[member_id], free[start : start + open_])
        start += open_
    assert start >= len(free), "the quotas add up to all partitions"
    return result


def _free_partitions(
    members: Sequence[SpecMember], topic_ids: Sequence[Uuid], counts: Mapping[Uuid, int]
) -> list[tuple[Uuid, int]]:
    """The partitions that no member has, by topic and number."""
    free = []
    for topic_id in topic_ids:
        had = frozenset().union(*[one.partitions.get(topic_id, ()) for one in members])
        free += [(topic_id, index) for index in range(counts[topic_id]) if index not in had]
    return free


def _keep(
    member: SpecMember, topic_ids: Sequence[Uuid], quota: int, counts: Mapping[Uuid, int]
) -> tuple[dict[Uuid, frozenset[int]], list[tuple[Uuid, int]], int]:
    """What a member keeps of what it has, what it gives back, and how many more it may have."""
    kept: dict[Uuid, frozenset[int]] = {}
    released: list[tuple[Uuid, int]] = []
    for topic_id in topic_ids:
        has = _existing(member.partitions.get(topic_id), counts[topic_id])
        if len(has) > quota:
            ordered = sorted(has)
            has = frozenset(ordered[:quota])
            released += [(topic_id, index) for index in ordered[quota:]]
        if has:
            kept[topic_id] = has
            quota -= len(has)
    return kept, released, quota


def _existing(partitions: frozenset[int] | None, count: int) -> frozenset[int]:
    """The partitions that are in a topic of so many: the same set, but for a smaller topic."""
    if not partitions:
        return frozenset()
    if max(partitions) < count:
        return partitions
    return frozenset(index for index in partitions if index < count)


def _add(assigned: dict[Uuid, frozenset[int]], partitions: Sequence[tuple[Uuid, int]]) -> None:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    for topic_id, indexes in by_topic.items():
        assigned[topic_id] = assigned.get(topic_id, frozenset()).union(indexes)


# Uniform, with different subscriptions


class _Balance:
    """One assignment to members that subscribe to different topics; members are numbers here."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self._spec = spec
        self._sizes = [0] * len(spec.members)
        self._subscribers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(spec.members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        # The topics whose partitions weigh most come first.
        self._topic_ids = sorted(
            self._subscribers,
            key=lambda topic_id: (
                -spec.partition_counts[topic_id] / len(self._subscribers[topic_id]),
                len(self._subscribers[topic_id]),
                topic_id,
            ),
        )
        self._owners: dict[Uuid, list[int | None]] = {
            topic_id: [None] * spec.partition_counts[topic_id] for topic_id in self._topic_ids
        }

    def result(self) -> Assignment:
        """Keep what may stay, deal what is free, and even out."""
        self._keep()
        for topic_id in self._topic_ids:
            self._deal_free_partitions(topic_id)
        self._even_out()
        found: list[dict[Uuid, list[int]]] = [{} for _ in self._sizes]
        for topic_id in sorted(self._topic_ids):
            for index, owner in enumerate(self._owners[topic_id]):
                assert owner is not None, "every topic here has a subscriber"
                found[owner].setdefault(topic_id, []).append(index)
        return {
            member.member_id: {topic_id: frozenset(indexes) for topic_id, indexes in has.items()}
            for member, has in zip(self._spec.members, found, strict=True)
        }

    def _keep(self) -> None:
        for number, member in enumerate(self._spec.members):
            for topic_id, partitions in member.partitions.items():
                if topic_id not in member.topic_ids:
                    continue
                owners = self._owners[topic_id]
                for index in _existing(partitions, len(owners)):
                    if owners[index] is None:
                        owners[index] = number
                        self._sizes[number] += 1

    def _by_load(self, topic_id: Uuid) -> list[int]:
        """The subscribers of a topic, the least loaded first."""
        return sorted(self._subscribers[topic_id], key=lambda number: (self._sizes[number], number))

    def _deal_free_partitions(self, topic_id: Uuid) -> None:
        owners, sizes = self._owners[topic_id], self._sizes
        # Entries are (load, place, member); equal loads are served in the order of the beginning.
        heap = [(sizes[one], place, one) for place, one in enumerate(self._by_load(topic_id))]
        heapify(heap)
        for index, owner in enumerate(owners):
            if owner is None:
                load, place, number = heap[0]
                owners[index] = number
                sizes[number] = load + 1
                heapreplace(heap, (load + 1, place, number))

    def _even_out(self) -> None:
        """Go round the topics until none has moved a partition for a whole round."""
        topic_ids = [one for one in self._topic_ids if len(self._subscribers[one]) > 1]
        last_moved: Uuid | None = None
        for _ in range(BALANCE_ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                if self._even_out_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _even_out_topic(self, topic_id: Uuid) -> bool:
        """Move partitions from the most to the least loaded subscribers; whether any moved."""
        members, sizes = self._by_load(topic_id), self._sizes
        if sizes[members[-1]] - sizes[members[0]] <= 1:
            return False
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            assert owner is not None
            owned.setdefault(owner, []).append(index)
        takers = _takers(list(members), sizes)
        has_moved = False
        for load, giver in _givers(members, sizes, owned):
            least_load, taker = next(takers)
            if load - least_load <= 1:
                break
            owners[owned[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            has_moved = True
        return has_moved


def _takers(members: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(load, member): level by level, each member of the lowest level once, in their order."""
    end, level = 0, sizes[members[0]]
    while True:
        while end < len(members) and sizes[members[end]] == level:
            end += 1
        for number in members[:end]:
            yield level, number
        level += 1


def _givers(
    members: list[int], sizes: Sequence[int], owned: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """(load, member): level by level down, each member of the highest level once, from behind.

    A member without a partition of the topic drops out; the last one takes its place.
    """
    start = end = len(members)
    level = 0
    while end > 0:
        level = sizes[members[start - 1]] if end <= start else level - 1
        while start > 0 and sizes[members[start - 1]] == level:
            start -= 1
        for place in range(end - 1, start - 1, -1):
            number = members[place]
            if owned.get(number):
                yield level, number
            else:
                end -= 1
                members[place], members[end] = members[end], number
