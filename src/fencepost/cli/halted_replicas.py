"""Why replicas are not in sync, as far as the brokers' log directories tell (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.replicas import LogDirState

NOT_THERE = "the broker is stopped or fenced"
NO_LOG = (
    "the broker has no log of it: its log directory is gone, or two have one; the broker's log and"
    " /ready say which, and what to do"
)


class HaltedReplica(NamedTuple):
    """A replica that is not in sync."""

    partition: int
    replica: int
    why: str


def halted_replicas(
    admin: Admin,
    topic: str,
    partitions: Sequence[Mapping[str, Any]],
    unreachable: dict[int, str],
) -> list[HaltedReplica]:
    """The replicas of a topic that are not in sync or cannot be used, and why.

    `partitions` are as `topics describe` shows them. Only brokers that have such are asked,
    and none again that has not answered: why is in `unreachable`, by broker.
    """
    wanted: dict[int, list[int]] = {}
    for one in partitions:
        for replica in one["replicas"]:
            if replica not in one["isr"] or replica in one["offline"]:
                wanted.setdefault(replica, []).append(one["partition"])
    leaderless = {one["partition"] for one in partitions if one["leader"] < 0}
    return sorted(
        HaltedReplica(number, broker_id, why)
        for broker_id, numbers in wanted.items()
        for number, why in _of_broker(admin, broker_id, topic, numbers, leaderless, unreachable)
    )


def _of_broker(
    admin: Admin,
    broker_id: int,
    topic: str,
    numbers: list[int],
    leaderless: set[int],
    unreachable: dict[int, str],
) -> Iterator[tuple[int, str]]:
    from fencepost.client.errors import ClientError
    from fencepost.client.metadata import TopicPartition

    if broker_id not in admin.cluster.metadata.nodes:
        unreachable[broker_id] = NOT_THERE
    try:
        if broker_id not in unreachable:
            wanted = [TopicPartition(topic, number) for number in numbers]
            states = admin.describe_log_dirs(broker_id, wanted)
    except ClientError as error:
        unreachable[broker_id] = f"the broker does not answer: {error}"
    if broker_id in unreachable:
        yield from ((number, unreachable[broker_id]) for number in numbers)
        return
    for number in numbers:
        yield number, _why(states, TopicPartition(topic, number), number in leaderless)


def _why(states: list[LogDirState], where: Any, is_leaderless: bool) -> str:
    for state in states:
        replica = state.replicas.get(where)
        if replica is not None and not replica.is_future:
            if is_leaderless:
                return f"its log is in {state.path}; no replica leads"
            return f"its log in {state.path} lacks {replica.offset_lag} records that it knows of"
    offline = [state.path for state in states if state.error_code != ErrorCode.NONE]
    if offline:
        return f"its log directory is offline, or may be: {', '.join(offline)}"
    return NO_LOG
