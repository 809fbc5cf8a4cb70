"""Heartbeats of epoch 0 and more: every rule of KIP-848 in its order, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.consumer.group import ConsumerGroup, ConsumerGroupState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
)

from .world import Client, ConsumerWorld, image_of, owned_by

NONE = ErrorCode.NONE
FULL: dict[str, Any] = {"topics": ("t",), "rebalance_ms": 60_000}


def two_members() -> tuple[ConsumerWorld, Client, Client]:
    """A stable group in epoch 3; each member has two partitions."""
    world = ConsumerWorld()
    first, second = Client(world, "a"), Client(world, "b")
    first.beat()
    first.settle()
    second.beat()
    world.advance(1_000)
    settle(first, second)
    assert world.group.state is ConsumerGroupState.STABLE
    assert (first.epoch, second.epoch) == (3, 3)
    return world, first, second


def settle(*clients: Client) -> None:
    """Three heartbeats of each, and what they are told to have."""
    for _ in range(3):
        for client in clients:
            assert client.beat() is NONE
            client.settle()


def test_the_first_member_has_everything_in_its_first_answer() -> None:
    world = ConsumerWorld()
    answer = world.enter("a")
    assert (answer.member_id, answer.member_epoch) == ("a", 2)
    assert (answer.heartbeat_interval_ms, owned_by(answer)) == (5_000, {"t": [0, 1, 2, 3]})
    assert world.kinds() == [5, 3, 7, 6, 8]
    assert world.group.state is ConsumerGroupState.STABLE


def test_who_joins_within_the_interval_waits_for_the_next_target() -> None:
    world = ConsumerWorld()
    world.enter("a")
    answer = world.enter("b")
    assert (answer.member_epoch, owned_by(answer)) == (2, {})
    assert (world.group.epoch, world.group.target_epoch) == (3, 2)
    assert world.group.state is ConsumerGroupState.ASSIGNING
    world.advance(999)
    assert world.beat("b", 2).member_epoch == 2
    world.advance(1)
    answer = world.beat("b", 2)
    assert (answer.member_epoch, world.group.target_epoch) == (3, 3)
    assert world.group.state is ConsumerGroupState.RECONCILING


def test_a_partition_goes_over_in_three_steps() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.advance(1_000)
    world.beat("b", 2)
    told = world.beat("a", 2)
    assert (told.member_epoch, owned_by(told)) == (2, {"t": [0, 1]})
    assert owned_by(world.beat("b", 3)) is None
    assert owned_by(world.beat("a", 2)) is None, "it has not said that it gave them up"
    done = world.beat("a", 2, owned={"t": [0, 1]})
    assert (done.member_epoch, owned_by(done)) == (3, None)
    given = world.beat("b", 3)
    assert (given.member_epoch, owned_by(given)) == (3, {"t": [2, 3]})
    assert world.group.state is ConsumerGroupState.STABLE


def test_a_member_of_no_topics_is_one() -> None:
    world = ConsumerWorld()
    answer = world.enter("a", topics=())
    assert (answer.member_epoch, owned_by(answer)) == (1, {})
    assert world.kinds() == [5, 8], "nothing is to be assigned"
    world.restart()
    assert world.beat("a", 1).error_code == NONE


def test_topics_that_do_not_exist_are_none() -> None:
    world = ConsumerWorld()
    assert owned_by(world.enter("a", topics=("missing",))) == {}
    world.change_image(image_of(t=4, missing=1))
    answer = world.beat("a", 2)
    assert owned_by(answer) is None
    world.advance(1_000)
    assert owned_by(world.beat("a", 2)) == {"missing": [0]}


def test_at_rest_nothing_is_written_and_nothing_said() -> None:
    world, _, second = two_members()
    end = len(world.log)
    answer = world.beat("a", 3)
    assert (answer.member_epoch, answer.assignment, answer.error_code) == (3, None, 0)
    assert world.beat("b", 3, owned=second.owned).assignment is None
    assert len(world.log) == end


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ({}, False),
        ({"owned": {"t": [0, 1]}}, False),
        ({"topics": ("t",), "rebalance_ms": 60_000}, False),
        ({"topics": ("t",), "owned": {"t": [0, 1]}}, False),
        ({"rebalance_ms": 60_000, "owned": {"t": [0, 1]}}, False),
        ({"topics": ("t",), "rebalance_ms": 60_000, "owned": {"t": [0, 1]}}, True),
        ({"regex": "", "rebalance_ms": 60_000, "owned": {"t": [0, 1]}}, True),
    ],
)
def test_a_full_request_is_told_the_assignment(said: dict[str, Any], is_told: bool) -> None:
    world, _, _ = two_members()
    assert owned_by(world.beat("a", 3, **said)) == ({"t": [0, 1]} if is_told else None)


# -- the group and the member ----------------------------------------------------------------------


def refusals() -> list[Any]:
    """(what was before, the heartbeat, its error), rule by rule."""
    unknown, other = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND
    fenced, held = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID
    static = {"instance": "i"}
    return [
        pytest.param("nothing", ("a", 1), {}, other, id="no-group"),
        pytest.param("nothing", ("a", -1), {}, other, id="no-group-to-leave"),
        pytest.param("classic", ("a", 0), FULL, other, id="a-classic-group-with-members"),
        pytest.param("classic", ("a", 1), {}, other, id="a-classic-group"),
        pytest.param("classic", ("a", -1), {}, other, id="a-classic-group-to-leave"),
        pytest.param("offsets", ("a", 1), {}, other, id="an-empty-classic-group-and-no-join"),
        pytest.param("two", ("x", 1), {}, unknown, id="unknown-member"),
        pytest.param("two", ("x", -1), {}, unknown, id="unknown-member-leaves"),
        pytest.param("two", ("a", 4), {}, fenced, id="epoch-ahead"),
        pytest.param("two", ("a", 1), {"owned": {}}, fenced, id="epoch-of-long-ago"),
        pytest.param("two", ("a", 2), {}, fenced, id="previous-epoch-without-owned"),
        pytest.param(
            "two", ("a", 2), {"owned": {"t": [0, 3]}}, fenced, id="previous-epoch-with-too-much"
        ),
        pytest.param(
            "two", ("a", 2), {"owned": {"u": [0]}}, fenced, id="previous-epoch-with-another-topic"
        ),
        pytest.param("two", ("a", 2), {"owned": {"t": [0]}}, NONE, id="a-lost-answer"),
        pytest.param("two", ("a", 2), {"owned": {}}, NONE, id="a-lost-answer-owning-nothing"),
        pytest.param("two", ("a", 0), {**FULL, "owned": {}}, NONE, id="rejoins"),
        pytest.param("static", ("s", 1), static, fenced, id="static-epoch-behind"),
        pytest.param("static", ("s", 2), {"instance": "j"}, unknown, id="unknown-instance"),
        pytest.param("static", ("x", 2), static, ErrorCode.FENCED_INSTANCE_ID, id="fenced"),
        pytest.param("static", ("x", 0), {**FULL, **static}, held, id="instance-is-held"),
        pytest.param("static", ("s", 0), {**FULL, **static}, held, id="its-own-instance-is-held"),
        pytest.param("static", ("s", -1), {"instance": "j"}, unknown, id="leaves-unknown"),
        pytest.param("static", ("s", -2), {"instance": "j"}, unknown, id="rests-unknown"),
        pytest.param(
            "static", ("x", -1), static, ErrorCode.FENCED_INSTANCE_ID, id="leaves-for-another"
        ),
        pytest.param(
            "static", ("x", -2), static, ErrorCode.FENCED_INSTANCE_ID, id="rests-for-another"
        ),
        pytest.param(
            "two", ("a", 3), {"assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR, id="assignor"
        ),
        pytest.param(
            "nothing",
            ("a", 0),
            {**FULL, "regex": "("},
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            id="no-regex",
        ),
        pytest.param(
            "two", ("a", 3), {"regex": "a(?=b)"}, ErrorCode.INVALID_REGULAR_EXPRESSION, id="no-re2"
        ),
    ]


def world_with(what: str) -> ConsumerWorld:
    """A shard with the group "g" of that kind."""
    if what == "two":
        return two_members()[0]
    world = ConsumerWorld()
    if what == "classic":
        world.form(1)
    elif what == "offsets":
        world.offset_commit(5)
    elif what == "static":
        assert world.enter("s", instance="i").member_epoch == 2
        world.advance(1_000)
    return world


@pytest.mark.parametrize(("what", "who", "said", "error"), refusals())
def test_refusals(what: str, who: tuple[str, int], said: Any, error: ErrorCode) -> None:
    world = world_with(what)
    end = len(world.log)
    answer = world.beat(*who, **said)
    assert answer.error_code == error
    if error is not NONE:
        assert answer.error_message
        assert (answer.member_epoch, answer.assignment) == (0, None)
        assert len(world.log) == end, "a refusal writes nothing"


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = ConsumerWorld()
    (member_id,) = world.form(1)
    world.offset_commit(7, member_id=member_id, generation=1)
    world.leave(member_id)
    start = len(world.log)
    assert world.enter("a").member_epoch == 2
    assert world.kinds(start) == [-2, 5, 3, 7, 6, 8]
    assert isinstance(world.group, ConsumerGroup)
    world.restart()
    assert world.offset_fetch()["t", 0][0] == 7
    assert world.beat("a", 2).error_code == NONE
    (tombstone,) = [v for k, v in world.records(start) if isinstance(k, GroupMetadataKey)]
    assert tombstone is None


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.offset_commit(7, member_id="a", generation=2)
    world.beat("a", -1)
    assert world.group.state is ConsumerGroupState.EMPTY
    world.form(1)
    assert world.coordinator.groups["g"].group_type == "classic"
    world.restart()
    assert world.coordinator.groups["g"].group_type == "classic"
    assert world.offset_fetch()["t", 0][0] == 7


def test_a_group_that_is_full_takes_whom_it_knows() -> None:
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    world = ConsumerWorld(consumer_max_size=2)
    world.enter("a")
    world.enter("s", instance="i")
    assert world.enter("b").error_code == full
    assert world.enter("", version=0).error_code == full
    assert world.enter("a").error_code == NONE
    assert world.enter("x", instance="j").error_code == full
    world.beat("s", -2, instance="i")
    assert world.enter("s2", instance="i").error_code == NONE
    assert world.group.member_count == 2
    world.beat("a", -1)
    assert world.enter("b").error_code == NONE


def test_v0_members_are_given_their_id() -> None:
    world = ConsumerWorld()
    answer = world.enter("", version=0)
    assert answer.member_id == "u1"
    assert world.beat("u1", answer.member_epoch, version=0).error_code == NONE


# -- what members say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ({}, []),
        ({"topics": ("t",)}, []),
        ({"rack": "r"}, [5]),
        ({"rebalance_ms": 1}, [5]),
        ({"host": "/127.0.0.2"}, [5]),
        ({"assignor": "uniform"}, [5]),
        ({"assignor": "range"}, [5, 3, 6, 8]),
        ({"topics": ("t", "u")}, [5, 3, 7, 6, 8]),
        ({"topics": ()}, [5, 3, 7, 7, 6, 8]),
    ],
)
def test_what_changes_is_written_and_raises_the_epoch_if_it_matters(
    said: dict[str, Any], kinds: list[int]
) -> None:
    world, _, _ = two_members()
    world.image = image_of(t=4, u=1)
    world.advance(1_000)
    epoch = world.group.epoch
    assert world.written(lambda: world.beat("a", 3, **said)) == kinds
    assert world.group.epoch == epoch + (3 in kinds)


def test_what_is_left_out_is_as_before() -> None:
    world = ConsumerWorld()
    world.enter("a", rack="r", assignor="range", rebalance_ms=7)
    world.beat("a", 2, rack="s")
    (record,) = [
        value for key, value in world.records(5) if isinstance(key, ConsumerGroupMemberMetadataKey)
    ]
    assert (record.rack_id, record.server_assignor, record.rebalance_timeout_ms) == (
        "s",
        "range",
        7,
    )
    assert record.subscribed_topic_names == ["t"]
    assert (record.client_id, record.client_host) == ("c", "/127.0.0.1")


def test_the_epoch_rises_by_one_however_much_changes() -> None:
    world, _, _ = two_members()
    world.change_image(image_of(t=8, u=1))
    world.advance(1_000)
    start = len(world.log)
    world.beat("a", 3, topics=("t", "u"), assignor="range")
    epochs = [v.epoch for k, v in world.records(start) if isinstance(k, ConsumerGroupMetadataKey)]
    assert epochs == [4]


def test_unsubscribed_topics_are_given_up_at_once() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=2, u=2)
    world.enter("a", topics=("t", "u"))
    answer = world.beat("a", 2, topics=("t",))
    assert owned_by(answer) == {"t": [0, 1]}, "long before there is another target"
    assert answer.member_epoch == 2
    world.advance(1_000)
    answer = world.beat("a", 2, owned={"t": [0, 1]})
    assert (answer.member_epoch, owned_by(answer)) == (3, None)


def test_a_lost_answer_is_heard_again() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "a"), Client(world, "b")
    first.beat()
    first.settle()
    second.beat()
    world.advance(1_000)
    second.beat()
    first.beat()  # is told to give up two
    first.settle()
    assert first.beat(is_lost=True) is NONE  # is in epoch 3 and does not know
    assert first.epoch == 2
    assert first.beat(**FULL) is NONE
    assert first.epoch == 3
    assert first.told == {"t": {0, 1}}


def test_a_member_that_joins_again_has_what_it_had() -> None:
    world, _, _ = two_members()
    answer = world.enter("a")
    assert (answer.member_epoch, owned_by(answer)) == (3, {"t": [0, 1]})


# -- the record of a refused write -----------------------------------------------------------------


def test_a_heartbeat_that_the_log_refuses_has_not_been() -> None:
    world, _, _ = two_members()
    world.advance(1_000)
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    token = world.ask_beat("c", 0, **FULL, owned={})
    assert world.refused[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.group.member_count == 2
    world.refusing = None
    assert world.enter("c").member_epoch == 4
