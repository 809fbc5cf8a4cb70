"""AlterPartitionReassignments and ListPartitionReassignments, up to the end of a move."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.controller import decision
from fencepost.machines.image import NO_LEADER, RECOVERING
from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import BrokerRegistrationChangeRecord
from fencepost.wire.types import Uuid

from .controller_fixtures import Bench, check_invariants, cluster, uuid

ALL = (1, 2, 3, 4, 5)


def moves(bench: Bench, *asked: tuple[str, int, list[int] | None], **changes: Any) -> list[int]:
    """Ask for moves; the error of each."""
    reply = answer(bench, *asked, **changes)
    assert reply.error_code == 0
    return [one.error_code for topic in reply.responses for one in topic.partitions]


def answer(
    bench: Bench, *asked: tuple[str, int, list[int] | None], **changes: Any
) -> AlterPartitionReassignmentsResponse:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
            for name, index, replicas in asked
        ],
        **changes,
    )
    reply = bench.do(bench.controller.decide_alter_partition_reassignments(request))
    assert isinstance(reply, AlterPartitionReassignmentsResponse)
    check_invariants(bench.image)
    return reply


def listed(bench: Bench, asked: list[tuple[str, list[int]]] | None = None) -> list[Any]:
    """What moves: (topic, partition, replicas, adding, removing)."""
    topics = None
    if asked is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in asked
        ]
    decision = bench.controller.decide_list_partition_reassignments(
        ListPartitionReassignmentsRequest(topics=topics)
    )
    assert not decision.records
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in decision.reply.topics
        for p in topic.partitions
    ]


@pytest.fixture
def bench() -> Bench:
    made = cluster(*ALL)
    made.create("t", assignments=[(0, [1, 2, 3]), (1, [2, 3, 1])])
    return made


def in_sync(bench: Bench, *broker_ids: int) -> Any:
    """The leader says who is in sync."""
    reply = bench.alter_partition("t", [(id_, -1) for id_ in broker_ids])
    check_invariants(bench.image)
    return reply


def test_a_move_from_its_beginning_to_its_end(bench: Bench) -> None:
    before = bench.partition("t")
    assert moves(bench, ("t", 0, [4, 5, 3])) == [0]
    moving = bench.partition("t")
    assert moving.replicas == (4, 5, 3, 1, 2)
    assert (moving.adding_replicas, moving.removing_replicas) == ((4, 5), (1, 2))
    assert (moving.leader, moving.isr, moving.leader_epoch) == (1, (1, 2, 3), before.leader_epoch)
    assert moving.directory_of(4) == uuid(504), "it has but one directory"
    assert listed(bench) == [("t", 0, [4, 5, 3, 1, 2], [4, 5], [1, 2])]
    assert in_sync(bench, 1, 2, 3, 4).error_code == 0
    assert bench.partition("t").is_reassigning
    assert in_sync(bench, 1, 2, 3, 4, 5).error_code == ErrorCode.NEW_LEADER_ELECTED
    after = bench.partition("t")
    assert (after.replicas, after.isr, after.leader) == ((4, 5, 3), (3, 4, 5), 4)
    assert after.leader_epoch == before.leader_epoch + 1
    assert listed(bench) == []
    assert bench.replayed() == bench.image


def test_a_request_moves_a_limited_number_of_partitions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "MAX_RECORDS", 1)
    bench.create("u", assignments=[(0, [1, 2, 3]), (1, [1, 2, 3])])
    asked = ("t", 0, [4, 5, 3]), ("t", 1, [4, 5, 3]), ("u", 0, [1, 2, 3]), ("u", 1, [4, 5, 3])
    refused = ErrorCode.UNKNOWN_SERVER_ERROR
    assert moves(bench, *asked) == [0, refused, 0, refused], "u-0 stays, and needs no record"
    assert [(name, index) for name, index, *_ in listed(bench)] == [("t", 0)]


def test_a_request_without_partitions_repeats_nothing(bench: Bench) -> None:
    assert answer(bench, allow_replication_factor_change=False).allow_replication_factor_change


def test_the_leader_that_stays_hears_of_the_end_by_its_new_epoch(bench: Bench) -> None:
    assert moves(bench, ("t", 0, [1, 2, 4])) == [0]
    reply = in_sync(bench, 1, 2, 3, 4)
    assert (reply.error_code, reply.leader_id, reply.leader_epoch, reply.isr) == (
        0, 1, 1, [1, 2, 4],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "replicas", "isr", "epoch"),
    [
        ([3, 1, 2], (3, 1, 2), (1, 2, 3), 0),
        ([1, 2], (1, 2), (1, 2), 1),
        ([1, 2, 3], (1, 2, 3), (1, 2, 3), 0),
    ],
)
def test_a_reassignment_without_new_replicas_ends_at_once(
    bench: Bench, target: list[int], replicas: Any, isr: Any, epoch: int
) -> None:
    assert moves(bench, ("t", 0, target)) == [0]
    after = bench.partition("t")
    assert (after.replicas, after.isr, after.leader_epoch) == (replicas, isr, epoch)
    assert not after.is_reassigning and listed(bench) == []


def test_what_is_refused_is_refused_alone(bench: Bench) -> None:
    asked: list[tuple[str, int, list[int] | None]] = [
        ("u", 0, [1]),
        ("t", 9, [1]),
        ("t", -1, [1]),
        ("t", 0, None),
        ("t", 1, []),
        ("t", 1, [1, 2, 3]),
    ]
    assert moves(bench, *asked) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
    ]
    for target in ([1, 1], [1, 9], [-1, 1], []):
        assert moves(bench, ("t", 0, target)) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert moves(bench, ("t", 0, [4, 2, 3]), ("u", 0, [1]))[0] == 0
    assert [one[:2] for one in listed(bench)] == [("t", 0)]


def test_every_refusal_says_why(bench: Bench) -> None:
    reply = answer(bench, ("t", 0, [1, 9]))
    assert reply.responses[0].partitions[0].error_message == (
        "The manual partition assignment includes broker 9, but no such broker is registered."
    )


def test_another_number_of_replicas_may_be_forbidden(bench: Bench) -> None:
    """KIP-860; while a partition moves, the number is that of before the move."""
    same = {"allow_replication_factor_change": False}
    for target in ([1, 2], [1, 2, 3, 4]):
        [refused] = answer(bench, ("t", 0, target), **same).responses[0].partitions
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert refused.error_message == (
            f"The replication factor is changed from 3 to {len(target)}"
        )
    assert moves(bench, ("t", 0, [1, 4, 5]), **same) == [0]
    assert moves(bench, ("t", 0, [4, 5]), **same) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert moves(bench, ("t", 0, [3, 4, 5]), **same) == [0]
    assert answer(bench, ("no", 0, []), **same).allow_replication_factor_change is False


def test_a_move_is_called_off(bench: Bench) -> None:
    moves(bench, ("t", 0, [4, 5, 3]))
    in_sync(bench, 1, 2, 3, 4)
    before = bench.partition("t")
    assert moves(bench, ("t", 0, None)) == [0]
    after = bench.partition("t")
    assert (after.replicas, after.isr, after.leader) == ((3, 1, 2), (1, 2, 3), 1)
    assert not after.is_reassigning
    assert after.leader_epoch == before.leader_epoch + 1, "those that came are fenced"
    assert moves(bench, ("t", 0, None)) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def only_new_in_sync(bench: Bench, before: tuple[int, ...] = (1,), **configs: str) -> None:
    """A partition that moves from 1, or more, to 2 and 3, with 2 alone in sync and leading."""
    bench.create("n", assignments=[(0, [*before])], configs={**configs})
    moves(bench, ("n", 0, [2, 3]))
    bench.alter_partition("n", [(id_, -1) for id_ in (*before, 2)])
    for id_ in before:
        bench.fence(id_)
    assert (bench.partition("n").leader, bench.partition("n").isr) == (2, (2,))


def test_a_move_is_not_called_off_if_that_would_lose_data(bench: Bench) -> None:
    only_new_in_sync(bench)
    [refused] = answer(bench, ("n", 0, None)).responses[0].partitions
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.error_message == (
        "Unable to revert partition assignment for n:0 because it would require an unclean leader"
        " election."
    )
    assert bench.partition("n").is_reassigning


@pytest.mark.parametrize("is_back", [True, False])
def test_unless_the_topic_allows_that(bench: Bench, is_back: bool) -> None:
    only_new_in_sync(bench, **{"unclean.leader.election.enable": "true"})
    if is_back:
        bench.heartbeat(1)
    assert moves(bench, ("n", 0, None)) == [0]
    after = bench.partition("n")
    assert (after.replicas, after.isr) == ((1,), (1,))
    assert after.leader == (1 if is_back else NO_LEADER)
    if is_back:
        assert after.leader_recovery_state == RECOVERING


@pytest.mark.parametrize("back", [None, 1, 4])
def test_of_several_replicas_before_the_move_one_that_is_there_leads(
    bench: Bench, back: int | None
) -> None:
    """A partition that could be led must not wait for the first of them."""
    only_new_in_sync(bench, (1, 4), **{"unclean.leader.election.enable": "true"})
    if back is not None:
        bench.heartbeat(back)
    assert moves(bench, ("n", 0, None)) == [0]
    after = bench.partition("n")
    assert (after.replicas, after.isr) == ((1, 4), (back or 1,))
    assert after.leader == (NO_LEADER if back is None else back)
    if back is not None:
        assert after.leader_recovery_state == RECOVERING, "it was not in sync"


def test_a_new_target_replaces_the_one_before(bench: Bench) -> None:
    moves(bench, ("t", 0, [4, 5]))
    assert moves(bench, ("t", 0, [4, 3, 2])) == [0]
    assert listed(bench) == [("t", 0, [4, 3, 2, 1, 5], [4], [1, 5])]
    in_sync(bench, 1, 2, 3, 4)
    after = bench.partition("t")
    assert (after.replicas, after.isr, after.leader) == ((4, 3, 2), (2, 3, 4), 4)


def test_a_target_that_goes_back_ends_the_move_at_once(bench: Bench) -> None:
    moves(bench, ("t", 0, [4, 5, 3]))
    assert moves(bench, ("t", 0, [1, 2, 3])) == [0]
    after = bench.partition("t")
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert not after.is_reassigning


def test_who_was_coming_and_still_is_goes_when_the_second_move_is_called_off(bench: Bench) -> None:
    moves(bench, ("t", 0, [4, 2, 3]))
    moves(bench, ("t", 0, [4, 5, 3]))
    assert listed(bench) == [("t", 0, [4, 5, 3, 1, 2], [4, 5], [1, 2])]
    moves(bench, ("t", 0, None))
    assert sorted(bench.partition("t").replicas) == [1, 2, 3]


def test_only_what_moves_of_what_was_asked_for_is_listed(bench: Bench) -> None:
    moves(bench, ("t", 1, [4, 5, 3]))
    moving = ("t", 1, [4, 5, 3, 1, 2], [4, 5], [1, 2])
    assert listed(bench) == [moving]
    assert listed(bench, [("t", [0, 1, 1, 9, -1]), ("u", [0])]) == [moving]
    assert listed(bench, [("t", [0])]) == listed(bench, []) == []


def test_new_replicas_keep_out_of_cordoned_directories() -> None:
    bench = cluster(1, 2)
    bench.create("t", assignments=[(0, [2])])
    bench.apply([_cordon(bench, 2)])
    assert moves(bench, ("t", 0, [2, 1])) == [0], "2 has it already"
    bench.create("u", assignments=[(0, [1])])
    assert moves(bench, ("u", 0, [1, 2])) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert bench.create("v", partitions=4, factor=1).error_code == 0
    assert {p.replicas for p in bench.topic("v").partitions} == {(1,)}
    bench.brokers(3, log_dirs=[uuid(901), uuid(902)])
    bench.apply([_cordon(bench, 3, uuid(901))])
    assert moves(bench, ("u", 0, [1, 3])) == [0], "it has another directory"
    refused = bench.create("w", assignments=[(0, [2])])
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def _cordon(bench: Bench, broker_id: int, *some: Uuid) -> BrokerRegistrationChangeRecord:
    broker = bench.image.brokers[broker_id]
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=broker.epoch,
        cordoned_log_dirs=list(some or broker.log_dirs),
    )
