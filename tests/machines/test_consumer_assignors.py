"""The assignors of consumer groups: Kafka's results, and what must be true of every result.

The vectors are drawn groups with what the assignors of Apache Kafka 4.4.0 gave their members: the
members (id, instance id, topics, present partitions), and the partitions of the topics 1, 2, ....
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.machines.group.consumer.assignors import (
    ASSIGNORS,
    Assignment,
    AssignmentSpec,
    SpecMember,
    assign_range,
    assign_uniform,
)
from fencepost.wire.types import Uuid

from ..in_turn import in_turn

VECTORS = json.loads((Path(__file__).parent / "group_vectors/assignments.json").read_text())


def topic_id(number: int | str) -> Uuid:
    return Uuid(int(number).to_bytes(16, "big"))


def partitions_of(stored: dict[str, list[int]]) -> dict[Uuid, frozenset[int]]:
    return {topic_id(number): frozenset(indexes) for number, indexes in stored.items()}


def spec_of(vector: Any) -> AssignmentSpec:
    members = tuple(
        SpecMember(member_id, instance_id, frozenset(map(topic_id, topics)), partitions_of(has))
        for member_id, instance_id, topics, has in vector["members"]
    )
    counts = {topic_id(number): count for number, count in enumerate(vector["counts"], 1)}
    return AssignmentSpec(members, counts)


@pytest.mark.parametrize("name", ASSIGNORS)
@in_turn("vector", VECTORS)
def test_partitions_are_assigned_as_by_kafka(vector: Any, name: str) -> None:
    kafkas = {member_id: partitions_of(has) for member_id, has in vector[name].items()}
    assert ASSIGNORS[name](spec_of(vector)) == kafkas


def test_vectors_have_equal_and_different_subscriptions() -> None:
    kinds = {len({member.topic_ids for member in spec_of(one).members}) > 1 for one in VECTORS}
    assert kinds == {True, False}


def drawn_topics(topics: list[Uuid], random: Random) -> frozenset[Uuid]:
    return frozenset(random.sample(topics, random.randrange(len(topics) + 1)))


def drawn_spec(random: Random) -> AssignmentSpec:
    """Members with drawn topics; what they have now may be of any topic, or beyond its end."""
    counts = {topic_id(number): random.randrange(0, 12) for number in range(random.randrange(1, 7))}
    topics = sorted(counts)
    same = drawn_topics(topics, random)
    is_same = random.random() < 0.5
    members = [
        SpecMember(
            f"m{number:02}",
            f"i{random.randrange(100)}" if random.random() < 0.3 else None,
            same
            if is_same
            else frozenset(random.sample(topics, random.randrange(len(topics) + 1))),
            {},
        )
        for number in range(random.randrange(1, 9))
    ]
    owned: list[dict[Uuid, set[int]]] = [{} for _ in members]
    for one, count in counts.items():
        for index in range(count + 2):
            if random.random() < 0.7:
                random.choice(owned).setdefault(one, set()).add(index)
    with_owned = [
        member._replace(partitions={one: frozenset(indexes) for one, indexes in has.items()})
        for member, has in zip(members, owned, strict=True)
    ]
    return AssignmentSpec(tuple(with_owned), counts)


def sizes_of(assignment: Assignment) -> dict[str, int]:
    return {member_id: sum(map(len, has.values())) for member_id, has in assignment.items()}


def after(spec: AssignmentSpec, assignment: Assignment) -> AssignmentSpec:
    """The spec once every member has what it was assigned."""
    members = [one._replace(partitions=assignment[one.member_id]) for one in spec.members]
    return spec._replace(members=tuple(members))


@pytest.mark.parametrize("name", ASSIGNORS)
@in_turn("seed", range(100))
def test_every_partition_goes_to_one_subscriber(seed: int, name: str) -> None:
    spec = drawn_spec(Random(seed))
    assignment = ASSIGNORS[name](spec)
    assert [*assignment] == [member.member_id for member in spec.members]
    given: dict[Uuid, list[int]] = {}
    for member in spec.members:
        has = assignment[member.member_id]
        assert has.keys() <= member.topic_ids
        assert all(has.values()), "no empty sets"
        for one, indexes in has.items():
            given.setdefault(one, []).extend(indexes)
    subscribed = frozenset().union(*[member.topic_ids for member in spec.members])
    for one in subscribed:
        assert sorted(given.pop(one, [])) == [*range(spec.partition_counts[one])]
    assert not given


@in_turn("seed", range(100))
def test_uniform_is_even_and_then_moves_nothing(seed: int) -> None:
    spec = drawn_spec(Random(seed))
    assignment = assign_uniform(spec)
    sizes = sizes_of(assignment)
    for member in spec.members:
        for other in spec.members:
            for one in assignment[member.member_id]:
                # No partition of the member could go to a subscriber that has two fewer.
                if one in other.topic_ids:
                    assert sizes[member.member_id] - sizes[other.member_id] <= 1
    assert assign_uniform(after(spec, assignment)) == assignment


def test_a_member_that_joins_takes_no_more_than_its_share() -> None:
    counts = {topic_id(1): 6, topic_id(2): 6}
    members = tuple(SpecMember(f"m{n}", None, frozenset(counts), {}) for n in range(4))
    first = assign_uniform(AssignmentSpec(members[:3], counts))
    assert set(sizes_of(first).values()) == {4}
    spec = AssignmentSpec(
        (*after(AssignmentSpec(members[:3], counts), first).members, members[3]), counts
    )
    second = assign_uniform(spec)
    assert set(sizes_of(second).values()) == {3}
    for member_id, had in first.items():
        for one, indexes in second[member_id].items():
            assert indexes <= had[one]


def test_range_follows_instance_ids_whatever_members_have() -> None:
    counts = {topic_id(1): 5, topic_id(2): 2}
    members = [
        SpecMember("a", None, frozenset(counts), {topic_id(1): frozenset(range(5))}),
        SpecMember("b", "2", frozenset(counts), {}),
        SpecMember("c", "1", frozenset([topic_id(1)]), {}),
    ]
    assert assign_range(AssignmentSpec(tuple(members), counts)) == {
        "c": {topic_id(1): frozenset({0, 1})},
        "b": {topic_id(1): frozenset({2, 3}), topic_id(2): frozenset({0})},
        "a": {topic_id(1): frozenset({4}), topic_id(2): frozenset({1})},
    }


@pytest.mark.parametrize("name", ASSIGNORS)
def test_without_members_or_topics_nothing_is_assigned(name: str) -> None:
    assert ASSIGNORS[name](AssignmentSpec((), {})) == {}
    member = SpecMember("m", None, frozenset(), {topic_id(1): frozenset({0})})
    assert ASSIGNORS[name](AssignmentSpec((member,), {topic_id(1): 1})) == {"m": {}}
