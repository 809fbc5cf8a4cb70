"""ElectLeaders, and the elections that the controller holds by itself."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.controller import elections
from fencepost.machines.controller.elections import PREFERRED, UNCLEAN
from fencepost.machines.image import NO_LEADER, RECOVERING
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.errors import ErrorCode

from .controller_fixtures import Bench, check_invariants, cluster

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED


@pytest.fixture
def bench() -> Bench:
    """Broker 1 was away: it leads nothing, and is in sync in `t` alone."""
    made = cluster(1, 2, 3)
    made.create("t", assignments=[(0, [1, 2]), (1, [2, 1]), (2, [1, 3])])
    made.create("dead", assignments=[(0, [1, 2])])
    made.fence(1)
    made.heartbeat(1)
    made.alter_partition("t", [(2, -1), (1, -1)])
    return made


def elect(bench: Bench, kind: int, *asked: tuple[str, list[int]] | None) -> Any:
    """(topic, partition, error) of each; None asks for all."""
    topics = None
    if asked != (None,):
        topics = [TopicPartitions(topic=one[0], partitions=one[1]) for one in asked if one]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics)
    reply = bench.do(bench.controller.decide_elect_leaders(request))
    assert reply.error_code == 0
    check_invariants(bench.image)
    return [
        (topic.topic, one.partition_id, one.error_code)
        for topic in reply.replica_election_results
        for one in topic.partition_result
    ]


def test_the_preferred_replica_leads_again_if_it_is_in_sync(bench: Bench) -> None:
    before = bench.partition("t")
    assert before.leader == 2
    asked = ("t", [0, 1, 2, 9, -1]), ("u", [0])
    assert elect(bench, PREFERRED, *asked) == [
        ("t", 0, 0),
        ("t", 1, NOT_NEEDED),
        ("t", 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    after = bench.partition("t")
    assert (after.leader, after.isr) == (1, (2, 1))
    assert after.leader_epoch == before.leader_epoch + 1
    assert elect(bench, PREFERRED, ("t", [0])) == [("t", 0, NOT_NEEDED)]


def test_asked_for_all_it_tells_only_of_those_that_needed_one(bench: Bench) -> None:
    assert elect(bench, PREFERRED, None) == [
        ("dead", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ("t", 0, 0),
        ("t", 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]
    assert elect(bench, UNCLEAN, None) == []
    assert elect(bench, PREFERRED) == []


def test_an_unclean_election_needs_no_permission_of_the_topic(bench: Bench) -> None:
    bench.fence(2)
    assert bench.partition("dead").leader == NO_LEADER
    assert elect(bench, UNCLEAN, ("dead", [0]), ("t", [0])) == [
        ("dead", 0, 0),
        ("t", 0, NOT_NEEDED),
    ]
    after = bench.partition("dead")
    assert (after.leader, after.isr, after.leader_recovery_state) == (1, (1,), RECOVERING)


def test_no_replica_may_lead(bench: Bench) -> None:
    bench.fence(2)
    bench.fence(1)
    asked = ("dead", [0])
    assert elect(bench, UNCLEAN, asked) == [("dead", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    assert elect(bench, PREFERRED, asked) == [("dead", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]


def test_a_partition_that_is_named_twice_is_elected_once(bench: Bench) -> None:
    before = bench.partition("t").leader_epoch
    assert elect(bench, PREFERRED, ("t", [0, 0]), ("t", [0])) == [("t", 0, 0)] * 3
    assert bench.partition("t").leader_epoch == before + 1


def test_an_unknown_kind_of_election(bench: Bench) -> None:
    written = len(bench.log)
    request = ElectLeadersRequest(election_type=2, topic_partitions=None)
    reply = bench.do(bench.controller.decide_elect_leaders(request))
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert len(bench.log) == written


def test_a_request_for_no_partition_is_not_looked_at(bench: Bench) -> None:
    request = ElectLeadersRequest(election_type=2, topic_partitions=[])
    reply = bench.do(bench.controller.decide_elect_leaders(request))
    assert (reply.error_code, reply.replica_election_results) == (0, [])


def test_all_topics_are_answered_where_nothing_is_to_be_elected(bench: Bench) -> None:
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None)
    reply = bench.do(bench.controller.decide_elect_leaders(request))
    assert [(one.topic, one.partition_result) for one in reply.replica_election_results] == [
        (name, []) for name in sorted(bench.image.topics_by_name)
    ]


def test_a_request_elects_a_limited_number_of_leaders(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elections, "MAX_RECORDS", 0)
    written = len(bench.log)
    asked = TopicPartitions(topic="t", partitions=[0, 1, 0])
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[asked])
    reply = bench.do(bench.controller.decide_elect_leaders(request))
    assert reply.error_code == ErrorCode.POLICY_VIOLATION
    [told] = reply.replica_election_results
    assert [(one.partition_id, one.error_code) for one in told.partition_result] == [
        (index, ErrorCode.POLICY_VIOLATION) for index in asked.partitions
    ]
    assert len(bench.log) == written
    monkeypatch.setattr(elections, "MAX_RECORDS", 1)
    assert bench.do(bench.controller.decide_elect_leaders(request)).error_code == 0
    assert len(bench.log) == written + 1


def test_the_controller_balances_leaders_in_rounds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_PER_ROUND", 2)
    bench.create("many", assignments=[(index, [1, 2]) for index in range(3)])
    bench.fence(1)
    bench.heartbeat(1)
    for index in range(3):
        bench.alter_partition_at("many", index, [(2, -1), (1, -1)])
    bench.alter_partition("t", [(2, -1), (1, -1)])
    rounds = [bench.do(bench.controller.decide_preferred_elections()) for _ in range(3)]
    assert rounds == [2, 2, 0]
    assert {p.leader for p in bench.topic("many").partitions} == {1}
    assert bench.partition("t").leader == 1
    assert bench.partition("dead").leader == 2, "1 is not in sync there"
    check_invariants(bench.image)


def test_unclean_elections_come_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_PER_ROUND", 2)
    bench = cluster(1, 2)
    assignments = [(index, [1, 2]) for index in range(3)]
    bench.create("t", assignments=assignments)
    for index in range(3):
        bench.alter_partition_at("t", index, [(1, -1)])
    bench.fence(1)
    bench.alter_config(2, "t", (0, "unclean.leader.election.enable", "true"))
    rounds = [bench.do(bench.controller.decide_unclean_elections()) for _ in range(3)]
    assert rounds == [2, 1, 0]
    assert {p.leader for p in bench.topic("t").partitions} == {2}
