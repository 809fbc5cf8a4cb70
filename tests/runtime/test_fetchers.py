"""Fetchers and partitions: real logs and machines, a leader that is a script, flushes by hand."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from fencepost.batch.header import stamp
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.config import LogConfig
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.effects import Append
from fencepost.machines.fetcher import (
    Fetcher,
    FetcherConfig,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
)
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    Fetched,
    Partition,
    StopReplica,
)
from fencepost.runtime.fetchers import FetcherKey, FollowerFetchers
from fencepost.runtime.halted import HaltCause, HaltedReplica
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.disk import SimDisk
from fencepost.wire.api import fetch
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..machines.fakes import batch
from .coordinator.coordinator_world import WALL_MS, WorldPorts

ID = Uuid(b"t" * 16)


def records(base_offset: int, epoch: int) -> bytes:
    data = batch(1)
    stamp(data, 0, base_offset=base_offset, leader_epoch=epoch)
    return bytes(data)


class _Ports(WorldPorts):
    """Also takes what fetchers ask."""

    fetchers: FollowerFetchers

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        if isinstance(message, LeaderRequest):
            self.fetchers.submit(key, to, message)


class _Throttle:
    def __init__(self) -> None:
        self.exceeded = False
        self.recorded = 0

    def is_throttled(self, hosted: HostedPartition) -> bool:
        return hosted.index == 0

    def is_exceeded(self) -> bool:
        return self.exceeded

    def record(self, hosted: HostedPartition, size_bytes: int) -> None:
        self.recorded += size_bytes


class World:
    """Broker 1 follows partitions of one topic; leaders answer when the test does."""

    def __init__(self, count: int = 1) -> None:
        self.ports = _Ports()
        self.disk = SimDisk()
        self.asked: list[tuple[int, int, LeaderRequest, Any]] = []
        self.throttle = _Throttle()
        self.fetchers = FollowerFetchers(
            1, self.ports, self, FetcherConfig(), lambda: 7, count, self.throttle
        )
        self.ports.fetchers = self.fetchers

    def ask(self, leader_id: int, fetcher: int, asked: LeaderRequest, on_outcome: Any) -> None:
        self.asked.append((leader_id, fetcher, asked, on_outcome))

    def host(self, index: int = 0, generation: str = "") -> HostedPartition:
        key = f"t-{index}"
        config = LogConfig.from_props({})
        params = LoadLogParams(wall_ms=WALL_MS)
        log = PartitionLog.open(self.disk, f"d/{key}{generation}", "t", index, config, params)
        machine = Partition(1, log)
        hosted = HostedPartition("t", index, ID, key, log, machine, None)
        self.ports.host(key, machine, log, lambda _: self.fetchers.looked_at(hosted))
        return hosted

    def follow(self, hosted: HostedPartition, leader: int = 2, epoch: int = 1) -> None:
        order = BecomeFollower(leader, epoch, epoch, (1, 2, 3), (1, 2, 3))
        self.ports.driver.feed(hosted.key, order)

    def durable(self, hosted: HostedPartition) -> None:
        """The flush of its log is done."""
        self.ports.driver.persisted(hosted.key, hosted.log.end_offset)

    @property
    def last(self) -> fetch.FetchRequest:
        request = self.asked[-1][2].request
        assert isinstance(request, fetch.FetchRequest)
        return request

    def offsets(self) -> dict[int, int]:
        """What the last Fetch asks for, by partition."""
        return {
            part.partition: part.fetch_offset
            for topic in self.last.topics
            for part in topic.partitions
        }

    def answer(self, *data: tuple[int, bytes], place: int = -1, **fields: Any) -> None:
        parts = [
            fetch.PartitionData(partition_index=index, high_watermark=0, records=some, **fields)
            for index, some in data
        ]
        topic = fetch.FetchableTopicResponse(topic_id=ID, partitions=parts)
        response = fetch.FetchResponse(session_id=9, responses=[topic])
        _, _, asked, on_outcome = self.asked[place]
        on_outcome(LeaderAnswered(asked.number, response))

    def pass_time(self, until_ms: int) -> None:
        while (timer := self.ports.timers.next_due(until_ms)) is not None:
            self.ports.now = max(self.ports.now, timer.deadline_ms)
            callback, timer.callback = timer.callback, None
            callback()
        self.ports.now = until_ms


def test_what_is_appended_is_asked_behind_only_when_it_is_durable() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    assert world.offsets() == {0: 0}
    assert world.asked[0][:2] == (2, 0)
    world.answer((0, records(0, 1)))
    assert hosted.log.end_offset == 1
    assert len(world.asked) == 1
    world.durable(hosted)
    assert world.offsets() == {0: 1}


def test_what_was_written_before_is_durable_before_anything_is_asked() -> None:
    world = World()
    hosted = world.host()
    world.ports.append(
        "t-0", Append([RecordBatch.parse(records(0, 1))], 1, as_leader=False), WALL_MS
    )
    world.follow(hosted)
    assert world.asked == []
    world.durable(hosted)
    assert world.offsets() == {0: 1}


def test_who_leads_is_fetched_for_no_longer_and_late_answers_change_nothing() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    world.ports.driver.feed("t-0", BecomeLeader(2, 2, (1, 2), (1,), {1: 7, 2: 7}))
    world.answer((0, records(0, 1)))
    assert hosted.log.end_offset == 0
    assert world.offsets() == {}


def test_another_leader_is_another_fetcher() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    world.follow(hosted, leader=3, epoch=2)
    assert [asked[0] for asked in world.asked] == [2, 3]
    world.answer((0, records(0, 1)), place=0)
    assert hosted.log.end_offset == 0
    world.answer((0, records(0, 2)), place=1)
    assert hosted.log.end_offset == 1


def test_nobody_is_asked_while_nobody_leads_or_the_replica_has_ended() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted, leader=-1)
    assert world.asked == []
    world.ports.driver.feed("t-0", StopReplica(is_deleted=True))
    world.follow(hosted, epoch=2)
    assert world.asked == []


def test_a_partition_that_is_gone_and_made_anew_begins_from_its_own_log() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    world.fetchers.gone(hosted)
    world.ports.unhost("t-0")
    anew = world.host(generation="-anew")
    world.follow(anew, epoch=2)
    world.answer((0, records(0, 1)), place=0)
    assert anew.log.end_offset == 0
    assert world.offsets() == {0: 0}
    world.answer((0, records(0, 2)))
    world.durable(anew)
    assert world.offsets() == {0: 1}


def test_an_order_for_a_partition_that_is_gone_reaches_nobody() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    machine = world.ports.driver.machine(FetcherKey(2, 0, 1))
    assert isinstance(machine, Fetcher)
    (followed,) = machine.partitions.values()
    world.fetchers.gone(hosted)
    followed.machine.take(Fetched(1, 0, (RecordBatch.parse(records(0, 1)),), 0))
    assert hosted.answers_told == 0
    assert hosted.log.end_offset == 0


def test_partitions_are_shared_out_between_fetchers_that_are_resized() -> None:
    world = World(count=2)
    hosted = [world.host(index) for index in range(4)]
    for one in hosted:
        world.follow(one)
    assert sorted(fetcher for _, fetcher, _, _ in world.asked) == [0, 1]
    world.asked.clear()
    world.fetchers.resize(1)
    assert {fetcher for _, fetcher, _, _ in world.asked} == {0}
    world.answer((world.last.topics[0].partitions[0].partition, b""))
    known = set(world.offsets())
    assert len(known) == 3, "one was asked for at once, the others now"


def test_a_fetcher_that_breaks_down_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    key = FetcherKey(2, 0, 1)
    world.fetchers.broken(key, "a mistake")
    assert "failed: a mistake" in caplog.text
    world.fetchers.broken(key, "again")
    world.pass_time(world.ports.now + 1_000)
    assert len(world.asked) == 2
    machine = world.ports.driver.machine(FetcherKey(2, 0, 2))
    assert isinstance(machine, Fetcher)
    world.answer((0, records(0, 1)), place=0)  # to the one before
    assert hosted.log.end_offset == 0
    world.answer((0, records(0, 1)))
    assert hosted.log.end_offset == 1


def test_a_log_that_refuses_is_fetched_for_no_longer() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    world.ports.driver.disk_failed("t-0", "no space")
    world.answer((0, records(0, 1)))
    assert len(world.asked) == 2
    assert world.last.forgotten_topics_data[0].partitions == [0]


def test_what_there_is_to_say_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.follow(world.host())
    for _ in range(3):
        _, _, asked, on_outcome = world.asked[-1]
        on_outcome(LeaderFailed(asked.number, "nothing listens there"))
        world.pass_time(world.ports.now + 1_000)
    assert caplog.text.count("leader 2: the leader does not answer: nothing listens there") == 1


def test_a_throttle_holds_back_what_is_not_in_sync() -> None:
    world = World()
    world.throttle.exceeded = True
    held, free = world.host(0), world.host(1)
    world.follow(held)
    world.follow(free)
    assert world.offsets() == {1: 0}
    world.answer((1, records(0, 1)))
    assert world.throttle.recorded == len(records(0, 1))
    world.durable(free)
    world.throttle.exceeded = False
    world.pass_time(world.ports.now + 2_000)
    world.answer()
    assert world.offsets() == {0: 0}


def test_nothing_is_asked_after_the_close() -> None:
    world = World()
    hosted = world.host()
    world.follow(hosted)
    world.fetchers.close()
    world.follow(hosted, epoch=2)
    world.answer((0, records(0, 1)))
    assert len(world.asked) == 1


def test_replicas_that_fetching_fails_for_are_halted_with_their_leader_and_its_error() -> None:
    world = World()
    first, second = world.host(0), world.host(1)
    world.follow(first)
    world.follow(second, leader=3)
    assert list(world.fetchers.halted()) == []
    world.answer((0, b""), place=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    world.answer((1, b""), place=1, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    assert list(world.fetchers.halted()) == [
        HaltedReplica(
            "t-0",
            HaltCause.FETCHING_FAILS,
            "fetching from its leader, broker 2, fails: KAFKA_STORAGE_ERROR",
        ),
        HaltedReplica(
            "t-1",
            HaltCause.FETCHING_STOPPED,
            "nothing more is fetched from its leader, broker 3, in this leader epoch:"
            " FENCED_LEADER_EPOCH",
        ),
    ]
    world.follow(first, leader=3, epoch=2)
    world.follow(second, leader=2, epoch=2)
    assert list(world.fetchers.halted()) == []
