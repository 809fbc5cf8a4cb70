"""Offsets of consumer groups: in which member epochs they are taken and given (KIP-1251)."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.coordinator import Producer
from fencepost.machines.group.commits import TxnOffset
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from fencepost.wire.errors import ErrorCode

from .world import ConsumerWorld, id_of, image_of

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def world_of_epoch_4() -> ConsumerWorld:
    """ "a" is in epoch 4: partition 0 since epoch 2, partition 1 pending since 2, and 4 since 4."""
    world = ConsumerWorld()
    world.image = image_of(t=2)
    world.enter("a")
    world.enter("b")
    world.advance(1_000)
    world.beat("b", 2)
    world.beat("a", 2)
    world.beat("a", 2, owned={"t": [0]})
    world.beat("b", 3)
    world.change_image(image_of(t=4))
    world.advance(1_000)
    for _ in range(2):
        world.beat("a", world.group.progress_of("a").epoch)
        world.beat("b", world.group.progress_of("b").epoch)
    progress = world.group.progress_of("a")
    assert progress.epoch == 4
    assert progress.assigned == {id_of("t"): {0: 2, 2: 4}}
    return world


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"member_id": "a", "generation": 4}, NONE),
        ({"member_id": "a", "generation": 5}, STALE),
        ({"member_id": "a", "generation": 3, "partition": 0}, NONE),
        ({"member_id": "a", "generation": 2, "partition": 0}, NONE),
        ({"member_id": "a", "generation": 1, "partition": 0}, STALE),
        ({"member_id": "a", "generation": 3, "partition": 2}, STALE),
        ({"member_id": "a", "generation": 3, "partition": 1}, STALE),
        ({"member_id": "a", "generation": -1}, STALE),
        ({"member_id": "a", "generation": 4, "version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ({"member_id": "x", "generation": 4}, UNKNOWN),
        ({"member_id": "x", "generation": 4, "version": 8}, UNKNOWN),
        ({"member_id": "", "generation": -1}, UNKNOWN),
    ],
)
def test_commits(said: dict[str, Any], error: ErrorCode) -> None:
    world = world_of_epoch_4()
    assert world.commit_error(topic_id=id_of("t"), **said) is error


def test_what_is_to_be_given_up_may_be_committed() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.advance(1_000)
    world.beat("b", 2)
    world.beat("a", 2)
    assert world.group.progress_of("a").pending == {id_of("t"): {2: 2, 3: 2}}
    said = {"member_id": "a", "topic_id": id_of("t")}
    assert world.commit_error(partition=3, generation=2, **said) is NONE
    assert world.commit_error(partition=3, generation=1, **said) is STALE


def test_an_empty_group_takes_commits_without_a_member_and_none_of_members() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", -1)
    assert world.commit_error() is NONE
    assert world.commit_error(member_id="a", generation=2) is UNKNOWN


def test_a_group_that_is_not_there() -> None:
    world = ConsumerWorld()
    assert world.commit_error(member_id="a", generation=2) is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.commit_error(member_id="a", generation=2, version=8) is (
        ErrorCode.ILLEGAL_GENERATION
    )


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, NONE),
        ("a", 4, NONE),
        ("a", 3, STALE),
        ("a", 5, STALE),
        ("a", -1, STALE),
        ("x", 4, UNKNOWN),
        (None, 4, UNKNOWN),
        ("", -1, UNKNOWN),
    ],
)
def test_fetches(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    world = world_of_epoch_4()
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    wanted = OffsetFetchRequestGroup(
        group_id="g", member_id=member_id, member_epoch=epoch, topics=topics
    )
    token = world.ask(lambda token: world.coordinator.decide_offset_fetch(wanted, True, token))
    answer = world.replies[token]
    assert answer.error_code == error
    assert len(answer.topics) == (error is NONE)


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "error"),
    [
        ("", -1, 0, NONE),
        ("a", 4, 0, NONE),
        ("a", 3, 0, NONE),
        ("a", 3, 2, STALE),
        ("a", 5, 0, STALE),
        ("x", 4, 0, UNKNOWN),
    ],
)
def test_commits_in_transactions(
    member_id: str, epoch: int, partition: int, error: ErrorCode
) -> None:
    world = world_of_epoch_4()
    request = TxnOffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch
    )
    offset = TxnOffset(
        "t",
        id_of("t"),
        TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1),
    )
    token = world.ask(
        lambda token: world.coordinator.decide_txn_offset_commit(
            request, 6, [offset], Producer(1, 0), token, world.wall
        )
    )
    assert world.replies[token] == [error]


def deleted(world: ConsumerWorld, topic: str) -> ErrorCode:
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    token = world.ask(lambda token: world.coordinator.decide_offset_delete(request, token))
    return ErrorCode(world.replies[token].topics[0].partitions[0].error_code)


def test_offsets_of_topics_that_are_read_stay() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1, u=1, v=1)
    world.enter("a", regex="u")
    world.finish_work(("consumer", "g", "regex"))
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert [deleted(world, topic) for topic in "tuv"] == [subscribed, subscribed, NONE]
    world.beat("a", -1)
    assert [deleted(world, topic) for topic in "tuv"] == [NONE] * 3


def test_offsets_expire_and_the_group_with_them() -> None:
    world = ConsumerWorld(offsets_retention_ms=1_000, offsets_retention_check_ms=1_000)
    world.enter("a")
    world.offset_commit(5, member_id="a", generation=2)
    world.offset_commit(5, member_id="a", generation=2, topic="u")
    world.restart()
    for _ in range(3):
        world.advance(1_000)
        world.beat("a", 2)
    assert set(world.offset_fetch()) == {("t", 0)}, "what is read stays"
    world.beat("a", -1)
    world.advance(3_000)
    assert "g" not in world.coordinator.groups
    world.restart()
    assert "g" not in world.coordinator.groups
