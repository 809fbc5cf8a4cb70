"""Plans of `fencepost reassign generate`."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.cli.reassignment_plan import PlanError, make_plan
from fencepost.client.metadata import TopicPartition


def topic(*replicas: list[int]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", number): ids for number, ids in enumerate(replicas)}


def test_what_is_even_already_stays():
    current = topic([1, 2], [2, 3], [3, 1])
    assert make_plan(current, [3, 2, 1]) == current


def test_a_new_broker_gets_its_share_and_no_more_is_copied():
    current = topic(*([1, 2], [2, 1]) * 3)
    plan = make_plan(current, [1, 2, 3])
    assert Counter(id_ for ids in plan.values() for id_ in ids) == {1: 4, 2: 4, 3: 4}
    assert sum(len(set(plan[where]) - set(current[where])) for where in plan) == 4
    assert Counter(ids[0] for ids in plan.values()) == {1: 2, 2: 2, 3: 2}


def test_a_broker_that_goes_is_replaced_in_another_rack():
    current = topic([1, 3], [1, 4])
    racks = {2: "a", 3: "b", 4: "b", 5: "a"}
    plan = make_plan(current, [2, 3, 4, 5], racks=racks)
    assert all({racks[id_] for id_ in ids} == {"a", "b"} for ids in plan.values())
    assert [3 in plan[TopicPartition("t", 0)], 4 in plan[TopicPartition("t", 1)]] == [True, True]


def test_evenness_does_not_cost_a_rack():
    racks = {1: "a", 2: "b", 3: "b"}
    plan = make_plan(topic(*[[1, 2]] * 6), [1, 2, 3], racks=racks)
    assert all(1 in ids for ids in plan.values())
    assert Counter(id_ for ids in plan.values() for id_ in ids) == {1: 6, 2: 3, 3: 3}


def test_more_and_fewer_replicas():
    assert make_plan(topic([1, 2, 3]), [1, 2, 3], replication_factor=1) == topic([1])
    assert set(make_plan(topic([2]), [1, 2, 3], replication_factor=3)[TopicPartition("t", 0)]) == {
        1,
        2,
        3,
    }
    with pytest.raises(PlanError, match="t-0 is to have 2 replicas, brokers named: 1"):
        make_plan(topic([1, 2]), [3])


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30
    ),
    st.sets(st.integers(1, 8), min_size=3),
)
def test_every_plan_is_valid_and_even(replicas: list[list[int]], brokers: set[int]):
    current = topic(*replicas)
    plan = make_plan(current, brokers)
    assert plan == make_plan(current, sorted(brokers, reverse=True))
    for where, ids in plan.items():
        assert len(ids) == len(set(ids)) == len(current[where]) and set(ids) <= brokers
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(id_ for ids in plan.values() for id_ in ids)
    assert max(load.values()) - min(load.values()) <= 1


def test_a_new_replica_goes_to_another_rack_though_that_is_fuller():
    racks = {1: "a", 2: "a", 3: "b"}
    plan = make_plan(topic([1], [3], [3]), [1, 2, 3], racks=racks, replication_factor=2)
    assert all({racks[id_] for id_ in ids} == {"a", "b"} for ids in plan.values())


def test_no_broker_gets_a_partition_twice_within_one_rack():
    racks = dict.fromkeys((1, 2, 3), "a")
    plan = make_plan(topic([1, 2], [1, 3], [1, 3], [1, 3]), [1, 2, 3], racks=racks)
    assert all(len(set(ids)) == 2 for ids in plan.values())


def test_a_replica_leaves_a_rack_that_has_another_for_one_that_has_one_too():
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = make_plan(topic(*[[1, 2, 3]] * 4), racks, racks=racks)
    assert Counter(id_ for ids in plan.values() for id_ in ids) == dict.fromkeys(racks, 3)
    assert all({racks[id_] for id_ in ids} == {"a", "b"} for ids in plan.values())
