"""A member at rest costs no more than its answer; whatever is new goes the whole way."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group import partitioner
from fencepost.machines.group.consumer.heartbeat import Heartbeats

from .world import ConsumerWorld, image_of, owned_by


@pytest.fixture
def advanced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members whose heartbeats went the whole way."""
    members: list[str] = []
    advance = Heartbeats.advance

    def noted(self: Heartbeats, decision: Any, entered: Any, *rest: Any) -> Any:
        members.append(entered.member_id)
        return advance(self, decision, entered, *rest)

    monkeypatch.setattr(Heartbeats, "advance", noted)
    return members


def at_rest(advanced: list[str]) -> tuple[ConsumerWorld, int]:
    """Member "a" has all partitions, and its epoch."""
    world = ConsumerWorld()
    epoch = world.enter("a").member_epoch
    world.beat("a", epoch)  # looks at the topics, which may have changed since
    advanced.clear()
    return world, epoch


def test_a_heartbeat_that_says_nothing_changes_nothing(advanced: list[str]) -> None:
    world, epoch = at_rest(advanced)
    answers = [world.beat("a", epoch), world.beat("a", epoch, owned={"t": range(4)})]
    assert advanced == []
    assert [(one.error_code, one.member_epoch, one.assignment) for one in answers] == [
        (0, epoch, None)
    ] * 2


@pytest.mark.parametrize(
    "said",
    [
        {"topics": ("t", "u")},
        {"regex": "t.*"},
        {"rack": "r"},
        {"assignor": "range"},
        {"rebalance_ms": 1_000},
        {"instance": "i"},
        {"host": "/127.0.0.2"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_is_new_goes_the_whole_way(said: dict[str, Any], advanced: list[str]) -> None:
    world, epoch = at_rest(advanced)
    error = world.beat("a", epoch, **said).error_code
    assert advanced == ["a"] or ("instance" in said and error)


def test_other_members_and_topics_are_seen(advanced: list[str]) -> None:
    world, epoch = at_rest(advanced)
    world.change_image(image_of(1, t=6))
    answer = world.beat("a", epoch)
    assert advanced == ["a"]
    world.advance(1_000)
    answer = world.beat("a", answer.member_epoch)
    assert owned_by(answer) == {"t": [0, 1, 2, 3, 4, 5]}
    world.enter("b")
    advanced.clear()
    world.advance(1_000)
    world.beat("b", 1)
    world.beat("a", answer.member_epoch)
    assert "a" in advanced


def test_the_hash_of_an_id_is_kept_where_the_id_is_short() -> None:
    long = "x" * 1_000
    assert partitioner.partition_for(long, 50) == partitioner.partition_for(long, 50)
    before = partitioner._hash_of_short.cache_info()
    for _ in range(3):
        assert partitioner.partition_for("kept", 50) == 36
    after = partitioner._hash_of_short.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) in ((2, 1), (3, 0))
    partitioner.partition_for(long, 50)
    assert partitioner._hash_of_short.cache_info().currsize == after.currsize
