"""Members of consumer groups in few words: heartbeats, descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from .stage import MAIN, Stage

LATEST = 1
Owned = dict[str, list[int]]


def owned_of(stage: Stage, owned: Owned) -> list[TopicPartitions]:
    """Partitions by the names of their topics, as a heartbeat has them."""
    return [
        TopicPartitions(topic_id=stage.topic_id(name), partitions=numbers)
        for name, numbers in owned.items()
    ]


def beat(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    *,
    owned: Owned | None = None,
    error: int | None = 0,
    by: str = MAIN,
    version: int = LATEST,
    **said: Any,
) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat with these fields; the others are absent ("unchanged")."""
    request = heartbeat(stage, group, member, epoch, owned=owned, **said)
    return stage.ask(request, version, error=error, by=by)


def heartbeat(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    *,
    owned: Owned | None = None,
    **said: Any,
) -> ConsumerGroupHeartbeatRequest:
    """The request of `beat`."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        topic_partitions=None if owned is None else owned_of(stage, owned),
        **said,
    )


def beat_until_assigned(stage: Stage, group: str, member: str, epoch: int) -> Any:
    """Heartbeats of a member until one brings an assignment, which alone is compared."""

    def is_given(answer: ConsumerGroupHeartbeatResponse) -> bool:
        request.member_epoch = answer.member_epoch or request.member_epoch
        return answer.assignment is not None

    request = heartbeat(stage, group, member, epoch)
    return stage.until(request, is_given, "an assignment", LATEST)


def wait_until(stage: Stage, group: str, is_wanted: Callable[[Any], bool], what: str) -> None:
    """Describe the group until the description is as wanted."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    stage.until(request, lambda answer: is_wanted(answer.groups[0]), what, LATEST)


def join(
    stage: Stage,
    group: str,
    label: str,
    *names: str,
    error: int | None = 0,
    regex: str | None = None,
    **said: Any,
) -> ConsumerGroupHeartbeatResponse:
    """The first heartbeat of a member, subscribed to these topics; the member is named so."""
    said.setdefault("rebalance_timeout_ms", 30_000)
    if regex is not None:
        said["subscribed_topic_regex"] = regex
    if names or regex is None:
        said["subscribed_topic_names"] = list(names)
    return beat(stage, group, stage.member(label), 0, owned={}, error=error, **said)


def assigned(stage: Stage, answer: Any) -> Owned | None:
    """The partitions in an answer, by names; None where it has no assignment."""
    if answer.assignment is None:
        return None
    return {
        stage.topic_name(one.topic_id): sorted(one.partitions)
        for one in answer.assignment.topic_partitions
    }


def describe(stage: Stage, group: str, *, error: int | None = 0, version: int = LATEST) -> Any:
    """ConsumerGroupDescribe of one group, compared whole."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    return stage.ask(request, version, error=error).groups[0]


def states(described: Any) -> tuple[Any, ...]:
    """State and epochs of a description, and each member's epoch."""
    members = {one.member_id: one.member_epoch for one in described.members}
    return (
        described.group_state,
        described.group_epoch,
        described.assignment_epoch,
        members,
    )
