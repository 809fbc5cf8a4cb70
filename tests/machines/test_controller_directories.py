"""AssignReplicasToDirs: where replicas are, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.broker.requests import assignment_request
from fencepost.machines.controller.directories import cordon_records
from fencepost.machines.image import BrokerImage, ClusterImage
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .controller_fixtures import Bench, check_invariants, uuid

FIRST, SECOND, ELSEWHERE = uuid(601), uuid(602), uuid(999)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.brokers(1, log_dirs=[FIRST, SECOND])
    made.brokers(2)
    made.create("t", assignments=[(0, [1, 2])])
    made.create("alone", assignments=[(0, [1]), (1, [2])])
    return made


def assign(bench: Bench, *placed: tuple[Uuid, int, Uuid], **changes: Any) -> list[int]:
    """The error of each partition, in the request's order."""
    request = assignment_request(1, bench.image.brokers[1].epoch, placed)
    for name, value in changes.items():
        setattr(request, name, value)
    reply = bench.do(bench.controller.decide_assign_replicas_to_dirs(request))
    assert reply.error_code == 0
    check_invariants(bench.image)
    return [
        one.error_code
        for directory in reply.directories
        for topic in directory.topics
        for one in topic.partitions
    ]


def test_where_replicas_are_is_noted_once(bench: Bench) -> None:
    topic_id, alone_id = bench.topic("t").topic_id, bench.topic("alone").topic_id
    before = bench.partition("t")
    placed = (topic_id, 0, FIRST), (alone_id, 0, SECOND)
    assert assign(bench, *placed) == [0, 0]
    after = bench.partition("t")
    assert after.directory_of(1) == FIRST
    assert after.directory_of(2) == before.directory_of(2)
    assert bench.partition("alone").directory_of(1) == SECOND
    assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch, (1, 2))
    assert after.partition_epoch == before.partition_epoch + 1
    written = len(bench.log)
    assert assign(bench, *placed) == [0, 0]
    assert len(bench.log) == written, "it is known already"


def test_replicas_that_cannot_be_noted_are_told_one_by_one(bench: Bench) -> None:
    alone_id = bench.topic("alone").topic_id
    placed = (
        (uuid(12345), 0, FIRST),
        (alone_id, 9, FIRST),
        (alone_id, 1, FIRST),
        (alone_id, 0, FIRST),
    )
    assert assign(bench, *placed) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert bench.partition("alone").directory_of(1) == FIRST


def test_a_broker_cordons_its_directories_by_its_heartbeats(bench: Bench) -> None:
    def cordoned() -> tuple[Uuid, ...] | None:
        return bench.image.brokers[1].cordoned_log_dirs

    bench.heartbeat(1, cordoned_log_dirs=[SECOND, FIRST, FIRST])
    assert cordoned() == (FIRST, SECOND)
    assert bench.create("u", partitions=3, factor=1).error_code == 0
    assert {p.replicas for p in bench.topic("u").partitions} == {(2,)}
    written = len(bench.log)
    bench.heartbeat(1, cordoned_log_dirs=[FIRST, SECOND])
    bench.heartbeat(1, cordoned_log_dirs=None)
    assert (len(bench.log), cordoned()) == (written, (FIRST, SECOND)), "nothing is new"
    bench.heartbeat(1, cordoned_log_dirs=[])
    assert cordoned() == ()
    assert bench.replayed() == bench.image


def test_older_clusters_know_of_no_cordoned_directories() -> None:
    old = ClusterImage(features={"metadata.version": 29})
    broker = BrokerImage(1, 5, FIRST, (), (), None, False, False, (FIRST,))
    assert cordon_records(old, broker, [FIRST]) == []


def test_a_directory_that_is_not_online_costs_the_replica_its_place(bench: Bench) -> None:
    topic_id, alone_id = bench.topic("t").topic_id, bench.topic("alone").topic_id
    assert assign(bench, (topic_id, 0, ELSEWHERE), (alone_id, 0, ELSEWHERE)) == [0, 0]
    moved, alone = bench.partition("t"), bench.partition("alone")
    assert (moved.leader, moved.isr) == (2, (2,))
    assert (alone.leader, alone.isr) == (-1, (1,)), "the last of the ISR stays in it"


def test_a_partition_found_in_a_directory_that_is_online_is_led_again(bench: Bench) -> None:
    alone_id = bench.topic("alone").topic_id
    assert assign(bench, (alone_id, 0, FIRST)) == [0]
    bench.heartbeat(1, offline_log_dirs=[FIRST])
    assert bench.partition("alone").leader == -1
    assert assign(bench, (alone_id, 0, SECOND)) == [0]
    assert (bench.partition("alone").leader, bench.partition("alone").isr) == (1, (1,))


@pytest.mark.parametrize("changes", [{"broker_epoch": 0}, {"broker_id": 7}])
def test_a_former_incarnation_and_a_stranger_are_refused(
    bench: Bench, changes: dict[str, int]
) -> None:
    request = assignment_request(1, bench.image.brokers[1].epoch, [])
    for name, value in changes.items():
        setattr(request, name, value)
    decision = bench.controller.decide_assign_replicas_to_dirs(request)
    assert (decision.records, decision.reply.error_code) == ([], ErrorCode.STALE_BROKER_EPOCH)
