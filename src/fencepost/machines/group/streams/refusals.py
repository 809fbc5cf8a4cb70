"""Heartbeats that are refused, and the rules that need nothing but the request.

Errors and words are those of Kafka 4.4.0. What Kafka answers with UNKNOWN_SERVER_ERROR, because
its code meets what it does not expect, is answered so here, too: without words.
"""

from __future__ import annotations

from typing import Final, NoReturn

from fencepost.machines.group.refused import RefusedError
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from fencepost.wire.errors import ErrorCode

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2


def refuse(error: ErrorCode, message: str | None = None) -> NoReturn:
    """Answer with the error. RefusedError."""
    raise RefusedError(error, message)


def refused(error: RefusedError) -> StreamsGroupHeartbeatResponse:
    """The answer."""
    return StreamsGroupHeartbeatResponse(error_code=int(error.error), error_message=error.message)


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """The rules that come before any state, in their order. RefusedError."""
    topology = request.topology
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        _invalid("Regular expressions for source topics are not supported yet.")
    for name, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            _invalid(f"{name} can't be empty.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOINS:
        _check_joining(request, tasks)
    elif request.member_epoch == LEAVES_FOR_NOW and request.instance_id is None:
        _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVES_FOR_NOW:
        epoch = request.member_epoch
        _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    given = [one is not None for one in tasks]
    if any(given) and not all(given):
        _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINS and topology is not None:
        _invalid("Topology can only be provided when (re-)joining.")


def _check_joining(
    request: StreamsGroupHeartbeatRequest, tasks: tuple[list[TaskIds] | None, ...]
) -> None:
    if request.rebalance_timeout_ms == -1:
        _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, owned in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), tasks, strict=True):
        if owned is None or owned:
            _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        _invalid("Topology must be non-null when (re-)joining.")
    for one in request.topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions != 0:
                refuse(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it"
                    f" is set to {topic.partitions}.",
                )


def _invalid(message: str) -> NoReturn:
    refuse(ErrorCode.INVALID_REQUEST, message)
