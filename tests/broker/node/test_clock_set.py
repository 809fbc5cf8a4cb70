"""A served node whose wall clock is set by an hour: nobody is late for it, or waits an hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runtime import clock
from fencepost.wire.api import (
    DescribeGroupsRequest,
    FetchRequest,
    HeartbeatRequest,
)
from fencepost.wire.api.fetch import FetchPartition, FetchTopic

from ...waiting import eventually
from ..conftest import RunningNode
from ..groups.group_requests import coordinated, stable
from ..listener_fixtures import Client
from ..topic_requests import make_topic

HOUR_MS = 3_600_000
JUMPS_MS = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunningNode, int], None]:
    """Sets the wall clock that nodes see."""
    jumped_ns = 0
    wall = SimpleNamespace(
        time_ns=lambda: time.time_ns() + jumped_ns, monotonic_ns=time.monotonic_ns
    )
    monkeypatch.setattr(clock, "time", wall)

    def jump(running: RunningNode, by_ms: int) -> None:
        nonlocal jumped_ns
        before_ms = running.node.wall_ms()
        jumped_ns += by_ms * 1_000_000
        assert abs(running.node.wall_ms() - before_ms) > abs(by_ms) // 2, "the node sees it"

    return jump


def heartbeat(client: Client, group: str, joined: Any) -> int:
    request = HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    code: int = client.ask(request, 4).error_code
    return code


def members(client: Client, group: str) -> int:
    (answer,) = client.ask(DescribeGroupsRequest(groups=[group]), 5).groups
    return len(answer.members)


@JUMPS_MS
def test_members_stay(
    node_factory: Callable[..., RunningNode],
    set_clock: Callable[[RunningNode, int], None],
    by_ms: int,
) -> None:
    running = node_factory()
    with running.connect() as client:
        coordinated(client)
        joined = stable(client, "g", session_ms=300_000)
        set_clock(running, by_ms)
        assert heartbeat(client, "g", joined) == 0
        assert members(client, "g") == 1


@pytest.mark.slow
@JUMPS_MS
def test_a_member_that_is_silent_goes_all_the_same(
    node_factory: Callable[..., RunningNode],
    set_clock: Callable[[RunningNode, int], None],
    by_ms: int,
) -> None:
    running = node_factory(group_min_session_timeout_ms=1)
    with running.connect() as client:
        coordinated(client)
        stable(client, "g", session_ms=5_000)
        set_clock(running, by_ms)
        eventually(lambda: members(client, "g") == 0, "the end of the session")


@pytest.mark.slow
@JUMPS_MS
def test_a_fetch_that_waits_is_answered_in_its_time(
    node_factory: Callable[..., RunningNode],
    set_clock: Callable[[RunningNode, int], None],
    by_ms: int,
) -> None:
    running = node_factory()
    with running.connect() as client:
        topic = make_topic(client, 1)
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        client.send(
            FetchRequest(
                max_wait_ms=5_000,
                min_bytes=1,
                topics=[FetchTopic(topic_id=topic.topic_id, partitions=[partition])],
            ),
            13,
        )
        waiting = partial(running.call, lambda: len(running.node.broker.fetches))
        eventually(lambda: waiting() == 1, "the fetch waits")
        set_clock(running, by_ms)
        _, answer = client.receive(1, 13)
        assert answer.error_code == answer.responses[0].partitions[0].error_code == 0
