"""Membership of a consumer group without I/O (KIP-848): what is said when, error by error."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.consumer_membership import (
    ConsumerMembership,
    ConsumerMembershipConfig,
    IdPartition,
    State,
)
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

TOPIC = Uuid(bytes(range(16)))
CONFIG = ConsumerMembershipConfig(
    "g", ("t",), max_poll_interval_ms=60_000, remote_assignor="range", retry_backoff_ms=70
)


def target(*numbers: int) -> Assignment:
    partitions = [TopicPartitions(topic_id=TOPIC, partitions=list(numbers))] if numbers else []
    return Assignment(topic_partitions=partitions)


def named(*numbers: int) -> dict[IdPartition, TopicPartition]:
    return {IdPartition(TOPIC, number): TopicPartition("t", number) for number in numbers}


def answer(epoch: int = 1, **said: Any) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=500, **said)


def beat(
    member: ConsumerMembership, response: ConsumerGroupHeartbeatResponse, now_ms: float = 0
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat and its answer."""
    request = member.heartbeat()
    member.on_response(request, response, now_ms)
    return request


def owning(*numbers: int, config: ConsumerMembershipConfig = CONFIG) -> ConsumerMembership:
    """A member in epoch 3 that owns these, as its coordinator knows."""
    member = ConsumerMembership(config, "me")
    beat(member, answer(3, assignment=target(*numbers)))
    if numbers:
        member.acknowledge(named(*numbers))
        beat(member, answer(3))
    assert member.state is State.STABLE
    return member


def test_the_first_heartbeat_joins_and_says_everything():
    member = ConsumerMembership(CONFIG, "me")
    assert member.next_request(0) == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        server_assignor="range",
        topic_partitions=[],
    )
    assert not member.may_commit


def test_a_heartbeat_leaves_out_what_has_not_changed():
    member = owning(0, 1)
    request = member.heartbeat()
    assert request == ConsumerGroupHeartbeatRequest(group_id="g", member_id="me", member_epoch=3)


def test_an_assignment_is_reconciled_and_acknowledged_at_once():
    member = owning(0, 1)
    beat(member, answer(3, assignment=target(1)), now_ms=100)
    assert (member.state, member.wait_ms(100)) == (State.RECONCILING, 500)
    assert member.revoked(frozenset(named(1))) == (TopicPartition("t", 0),)
    assert member.heartbeat().topic_partitions is None  # it still owns them
    member.acknowledge(named(1))
    assert (member.state, member.wait_ms(100)) == (State.STABLE, 0)
    assert member.assignment == (TopicPartition("t", 1),)
    member = owning(0, 1)
    beat(member, answer(3, assignment=target(1)))
    member.acknowledge(named(1))
    assert beat(member, answer(4)).topic_partitions == target(1).topic_partitions
    assert member.heartbeat().topic_partitions is None
    assert member.commit_epoch == 4


def test_what_is_added_is_what_is_not_owned():
    member = owning(1)
    beat(member, answer(4, assignment=target(0, 1, 2)))
    assert member.added(named(0, 1, 2)) == (TopicPartition("t", 0), TopicPartition("t", 2))
    assert member.revoked(frozenset(named(0, 1, 2))) == ()


def test_another_assignment_while_the_first_is_reconciled_comes_next():
    member = owning(0, 1)
    beat(member, answer(3, assignment=target(1)))
    beat(member, answer(3, assignment=target()))
    member.acknowledge(named(1))  # of the first
    beat(member, answer(3))
    assert member.state is State.RECONCILING
    assert member.revoked(frozenset()) == (TopicPartition("t", 1),)


def test_partitions_of_a_topic_without_a_name_are_tried_again_with_the_next_answer():
    member = ConsumerMembership(CONFIG, "me")
    beat(member, answer(1, assignment=target(0)))
    member.acknowledge({})
    assert (member.state, member.assignment) == (State.STABLE, ())
    beat(member, answer(1))
    assert member.state is State.RECONCILING


def test_after_an_answer_that_did_not_come_everything_is_said():
    member = owning(0)
    member.heartbeat()
    assert member.heartbeat() == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="me",
        member_epoch=3,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        server_assignor="range",
        topic_partitions=target(0).topic_partitions,
    )


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND],
)
def test_a_member_that_was_put_out_joins_again_with_its_id(code: ErrorCode):
    member = owning(0)
    beat(member, ConsumerGroupHeartbeatResponse(error_code=code), now_ms=10)
    assert (member.state, member.assignment, member.may_commit) == (State.UNJOINED, (), False)
    assert member.commit_epoch == 3  # what it commits late is refused
    assert member.next_request(79) is None
    request = member.next_request(80)
    assert request is not None
    assert (request.member_id, request.member_epoch) == ("me", 0)
    assert (request.topic_partitions, request.subscribed_topic_names) == ([], ["t"])


@pytest.mark.parametrize(
    ("code", "joins"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, True),  # there is a group of another type
        (ErrorCode.UNRELEASED_INSTANCE_ID, True),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, True),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
        (ErrorCode.FENCED_INSTANCE_ID, False),
    ],
)
def test_what_joining_again_cannot_help_is_raised(code: ErrorCode, joins: bool):
    member = ConsumerMembership(CONFIG, "me") if joins else owning(0)
    refused = ConsumerGroupHeartbeatResponse(error_code=code, error_message="no, because")
    with pytest.raises(BrokerError, match=r"group g: no, because") as raised:
        beat(member, refused, now_ms=10)
    assert raised.value.code == code
    assert member.wait_ms(10) == 70
    assert member.heartbeat().subscribed_topic_names == ["t"]  # it may be another one by then


def test_another_subscription_is_said_at_once_and_once():
    member = owning(0)
    beat(member, answer(3), now_ms=100)
    assert member.wait_ms(100) == 500
    member.subscribe(("u", "v"), "w.*")
    assert member.wait_ms(100) == 0
    request = beat(member, answer(3), now_ms=100)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["u", "v"], "w.*")
    assert request.topic_partitions is None
    assert member.heartbeat().subscribed_topic_names is None
    member.subscribe(("u", "v"), None)
    assert member.next_request(0) is not None


def test_what_changes_while_a_heartbeat_is_on_its_way_is_said_by_the_next():
    member = owning(0)
    request = member.heartbeat()
    member.subscribe(("u",), None)
    member.on_response(request, answer(3), 100)
    assert member.wait_ms(100) == 0
    assert member.heartbeat().subscribed_topic_names == ["u"]


def test_an_answer_to_a_member_that_has_left_meanwhile_is_ignored():
    member = owning(0)
    request = member.heartbeat()
    member.forget()
    member.on_response(request, answer(3, assignment=target(0)), 0)
    assert (member.state, member.target) == (State.UNJOINED, frozenset())


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_static_member_leaves_for_a_while(instance_id: str | None, epoch: int):
    config = ConsumerMembershipConfig("g", ("t",), group_instance_id=instance_id)
    member = owning(0, config=config)
    assert member.has_to_leave
    assert member.leave_request() == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="me", member_epoch=epoch, instance_id=instance_id
    )
    assert not ConsumerMembership(config, "other").has_to_leave
