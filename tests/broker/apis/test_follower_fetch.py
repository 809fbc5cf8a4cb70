"""Fetch as followers send it: what they may read, what the leader learns, how they wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys.replication import RACK_AWARE
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.fetch import FetchTerms, FetchWanted
from fencepost.machines.partition import AlterPartition
from fencepost.runtime.fetch_arrival import look_on_arrival
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from fencepost.wire.errors import ErrorCode

from .harness import answer_of, broker, register, send, to_its_end, topic_id
from .partitions import PartitionNode

register("fetch")

FOLLOWER = 2
EPOCH = 20
"""The broker epoch under which the follower is registered."""


@pytest.fixture
def node(tmp_path: Any) -> PartitionNode:
    config = BrokerConfig.load(None, {})
    return PartitionNode(config, directory=tmp_path).learn(broker(1), broker(2), broker(3))


@pytest.fixture
def hosted(node: PartitionNode) -> HostedPartition:
    return node.host("t", replicas=(1, 2))


def fetch(
    node: PartitionNode,
    offset: int,
    *,
    version: int = 18,
    replica_id: int = FOLLOWER,
    broker_epoch: int = EPOCH,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
    indexes: tuple[int, ...] = (0,),
    rack_id: str = "",
    offsets: Sequence[int] | None = None,
    epochs: Sequence[int] | None = None,
    start: Callable[..., Any] = send,
    **asked: int,
) -> Any:
    """Send a follower's fetch, by `start`; `offsets` and `epochs` are those of all partitions."""
    asked = {"current_leader_epoch": 0, "log_start_offset": 0, **asked}
    partitions = []
    for index in indexes:
        if epochs is not None:
            asked["current_leader_epoch"] = epochs[index]
        partitions.append(
            FetchPartition(
                partition=index,
                fetch_offset=offset if offsets is None else offsets[index],
                partition_max_bytes=1 << 20,
                **asked,
            )
        )
    replica: dict[str, Any] = (
        {"replica_state": ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)}
        if version >= 15
        else {"replica_id": replica_id}
    )
    named = {"topic_id": topic_id("t")} if version >= 13 else {"topic": "t"}
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(partitions=partitions, **named)] if partitions else [],
        rack_id=rack_id,
        **replica,
    )
    return start(node, request, version)


def response_of(context: PendingRequest) -> FetchResponse:
    pieces = context.take_pieces()
    if pieces is not None:
        to_its_end(pieces)
    response = answer_of(context)
    assert isinstance(response, FetchResponse)
    return response


def part_of(context: PendingRequest) -> PartitionData:
    (topic,) = response_of(context).responses
    (part,) = topic.partitions
    return part


@pytest.mark.parametrize("version", range(4, 19))
def test_a_follower_reads_to_the_end_and_its_progress_raises_the_high_watermark(
    node: PartitionNode, hosted: HostedPartition, version: int
) -> None:
    node.produce(hosted, [1, 2, 3])
    part = part_of(fetch(node, 0, version=version))
    assert len(part.records) > 0
    assert (part.error_code, part.high_watermark) == (0, 0)
    part = part_of(fetch(node, 3, version=version))
    assert (part.error_code, part.high_watermark, len(part.records)) == (0, 3, 0)
    assert hosted.machine.high_watermark == 3


def test_what_is_told_on_arrival_is_what_holds_after_it(
    node: PartitionNode, hosted: HostedPartition
) -> None:
    node.produce(hosted, [1, 2, 3])
    terms = FetchTerms(1, 1 << 20, replica_id=FOLLOWER, broker_epoch=EPOCH)
    wanted = FetchWanted("t", 3, 1 << 20, 0)
    look = look_on_arrival(node.driver, hosted, wanted, terms)
    assert look.bounds is not None
    assert look.bounds.high_watermark == 3


def test_a_fetch_that_waits_counts_on_arrival_and_is_answered_when_the_log_grows(
    node: PartitionNode, hosted: HostedPartition
) -> None:
    node.produce(hosted, [1])
    waiting = fetch(node, 1, max_wait_ms=500)
    assert not waiting.answered
    assert hosted.machine.high_watermark == 1
    node.produce(hosted, [2])
    part = part_of(waiting)
    assert (part.error_code, part.high_watermark) == (0, 1)
    assert len(part.records) > 0


def test_what_waits_counts_once(node: PartitionNode, hosted: HostedPartition) -> None:
    """The follower has not fetched again when its fetch is looked at again."""
    waiting = fetch(node, 0, max_wait_ms=500)
    part = part_of(fetch(node, 0, replica_id=9))
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    node.timers.advance(400)
    node.produce(hosted, [1])
    assert len(part_of(waiting).records) > 0
    state = hosted.machine.follower_state(FOLLOWER)
    assert state is not None
    assert (state.last_fetch_ms, state.last_fetch_leader_end) == (0, 0)


def test_the_deadline_of_a_follower(node: PartitionNode, hosted: HostedPartition) -> None:
    waiting = fetch(node, 0, max_wait_ms=500)
    node.timers.advance(499)
    assert not waiting.answered
    node.timers.advance(1)
    assert part_of(waiting).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 3, "current_leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"broker_epoch": EPOCH - 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
        # the epoch before the replica, the replica before the offset
        ({"replica_id": 3, "offset": 4, "current_leader_epoch": 1}, 75),
        ({"broker_epoch": 1, "offset": 4}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_refused_fetch_tells_the_leader_nothing(
    node: PartitionNode, hosted: HostedPartition, asked: dict[str, int], error: int
) -> None:
    node.produce(hosted, [1, 2, 3])
    asked = {"offset": 3, **asked}
    part = part_of(fetch(node, **asked))  # type: ignore[arg-type]
    assert part.error_code == error
    assert hosted.machine.high_watermark == 0
    state = hosted.machine.follower_state(FOLLOWER)
    assert state is not None
    assert state.offset == -1


def test_a_fetch_that_diverges_is_told_and_counts_for_nothing(
    node: PartitionNode, hosted: HostedPartition
) -> None:
    node.produce(hosted, [1, 2])
    node.lead(hosted, 2, (1, 2))
    node.produce(hosted, [3])
    part = part_of(fetch(node, 3, current_leader_epoch=2, last_fetched_epoch=0))
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 2)
    assert len(part.records) == 0
    assert hosted.machine.high_watermark == 0


def test_a_waiting_follower_hears_at_once_that_leadership_has_gone(
    node: PartitionNode, hosted: HostedPartition
) -> None:
    waiting = fetch(node, 0, max_wait_ms=500)
    node.follow(hosted, 1)
    part = part_of(waiting)
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_session_goes_on_counting_what_it_does_not_name(
    node: PartitionNode, hosted: HostedPartition
) -> None:
    """An empty incremental request stands for everything that the session has."""
    session_id = response_of(fetch(node, 0, session=(0, 0))).session_id
    assert session_id
    node.timers.advance(1_000)
    again = fetch(node, 0, session=(session_id, 1), indexes=())
    assert response_of(again).responses == []
    state = hosted.machine.follower_state(FOLLOWER)
    assert state is not None
    assert state.last_fetch_ms == 1_000


def test_a_follower_that_caught_up_is_proposed_with_its_broker_epoch(node: PartitionNode) -> None:
    hosted = node.host("t", replicas=(1, 2))
    node.lead(hosted, 1, (1, 2), isr=(1,))
    node.produce(hosted, [1])
    part = part_of(fetch(node, 1, current_leader_epoch=1))
    assert (part.error_code, part.high_watermark) == (0, 1)
    (proposal,) = node.ports.sent
    assert isinstance(proposal, AlterPartition)
    assert proposal.new_isr == ((1, 10), (FOLLOWER, EPOCH))


# -- throttles (KIP-73) ---------------------------------------------------------------------------


def throttled(
    node: PartitionNode, rate: int, replicas: str = "*", isr: tuple[int, ...] = (1,)
) -> HostedPartition:
    """A partition whose follower is not in sync, throttled to a rate."""
    hosted = node.host("t", replicas=(1, 2), leader_replication_throttled_replicas=replicas)
    node.lead(hosted, 1, (1, 2), isr=isr)
    node.throttle.limit(rate)
    node.produce(hosted, [1, 2, 3])
    return hosted


def test_a_follower_out_of_sync_gets_nothing_while_the_rate_is_exceeded(
    node: PartitionNode,
) -> None:
    hosted = throttled(node, 1)
    first = part_of(fetch(node, 0, current_leader_epoch=1))
    assert len(first.records) > 0, "nothing is cut short"
    held = part_of(fetch(node, 0, current_leader_epoch=1))
    assert (held.error_code, len(held.records)) == (0, 0)
    waiting = fetch(node, 0, current_leader_epoch=1, max_wait_ms=500)
    assert not waiting.answered, "what is held back counts for nothing"
    node.produce(hosted, [4])
    assert not waiting.answered
    node.timers.advance(500)
    assert len(part_of(waiting).records) == 0
    node.timers.advance(20_000)
    assert len(part_of(fetch(node, 0, current_leader_epoch=1)).records) > 0


@pytest.mark.parametrize(
    ("replicas", "isr", "rate"),
    [("*", (1, 2), 1), ("0:2", (1,), 1), ("", (1,), 1), ("*", (1,), 1 << 40)],
)
def test_others_are_not_held_back(
    node: PartitionNode, replicas: str, isr: tuple[int, ...], rate: int
) -> None:
    throttled(node, rate, replicas, isr)
    for _ in range(3):
        assert len(part_of(fetch(node, 0, current_leader_epoch=1)).records) > 0


def test_a_consumer_is_never_held_back(node: PartitionNode) -> None:
    hosted = throttled(node, 1)
    assert len(part_of(fetch(node, 0, current_leader_epoch=1)).records) > 0
    assert node.throttle.is_exceeded()
    assert hosted.machine.high_watermark == 3
    assert len(part_of(fetch(node, 0, current_leader_epoch=1, replica_id=-1)).records) > 0


# -- consumers on the nearest replica (KIP-392) ---------------------------------------------------


def near(tmp_path: Any, selector: str = RACK_AWARE) -> PartitionNode:
    """Broker 1 is in rack east, 2 and 3 in west; 3 is fenced."""
    config = BrokerConfig.load(None, {"replica.selector.class": selector})
    brokers = broker(1, rack="east"), broker(2, rack="west"), broker(3, rack="west", fenced=True)
    node = PartitionNode(config, directory=tmp_path).learn(*brokers)
    hosted = node.host("t", replicas=(1, 2, 3))
    node.produce(hosted, [1, 2, 3])
    for follower in (2, 3):
        node.follower_fetched(hosted, follower, 3, log_start_offset=0)
    return node


def consume(node: PartitionNode, rack: str, version: int = 18, **asked: Any) -> PartitionData:
    return part_of(fetch(node, 0, replica_id=-1, rack_id=rack, version=version, **asked))


@pytest.mark.parametrize("version", range(11, 19))
def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Any, version: int) -> None:
    part = consume(near(tmp_path), "west", version)
    assert (part.error_code, part.preferred_read_replica, len(part.records)) == (0, 2, 0)
    assert part.high_watermark == 3


@pytest.mark.parametrize("rack", ["", "east", "north"])
def test_others_read_from_the_leader(tmp_path: Any, rack: str) -> None:
    part = consume(near(tmp_path), rack)
    assert (part.error_code, part.preferred_read_replica) == (0, -1)
    assert len(part.records) > 0


def test_without_a_selector_the_leader_serves_all(tmp_path: Any) -> None:
    assert consume(near(tmp_path, ""), "west").preferred_read_replica == -1


def test_a_follower_is_never_sent_elsewhere(tmp_path: Any) -> None:
    part = part_of(fetch(near(tmp_path), 0, rack_id="west"))
    assert (part.preferred_read_replica, len(part.records) > 0) == (-1, True)


def test_a_follower_serves_consumers_up_to_its_own_high_watermark(tmp_path: Any) -> None:
    node = near(tmp_path)
    hosted = node.replicas.hosted["t", 0]
    node.produce(hosted, [4])
    node.follow(hosted, 1)
    part = consume(node, "west", current_leader_epoch=1)
    assert (part.error_code, part.high_watermark, part.preferred_read_replica) == (0, 3, -1)
    assert len(part.records) > 0
    old = consume(node, "", 10, current_leader_epoch=1)
    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
