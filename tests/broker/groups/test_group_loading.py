"""A coordinator of groups loads while other clients are served, however large its log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.runtime.coordinator import CoordinatorState
from fencepost.runtime.coordinator.loader import RECORDS_PER_PIECE
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import INLINE_BYTES_MAX
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

from ...waiting import eventually
from ..conftest import RunningNode, stopped_threads
from ..slow_disk import SlowDisk
from ..topic_requests import batch, make_topic, produce
from .group_requests import (
    begin_load,
    coordinated,
    coordinator_of,
    fetched,
    hosted_of,
    loaded,
)


def committed(partition: int, offset: int, metadata: str = "") -> tuple[bytes, bytes]:
    """The record of a commit for topic t by group g."""
    key = OffsetCommitKey(group="g", topic="t", partition=partition)
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=1)
    return encode_key(key), encode_value(value, 3)


def large(*records: tuple[bytes, bytes]) -> bytes:
    """A batch with these records that grows beyond what the event loop decompresses."""
    padding = committed(9, 0, "x" * 10_000)
    rest = [padding] * (INLINE_BYTES_MAX // 10_000 + 1)
    return bytes(build_batch([*records, *rest], timestamp_ms=1, compression="zstd"))


def append(running: RunningNode, hosted: HostedPartition, *batches: bytes) -> None:
    """Write into the partition, behind its coordinator's back."""

    def write() -> None:
        for data in batches:
            hosted.log.append_as_leader(RecordBatch.parse(bytearray(data)), 0, 1)
        running.node.ports.request_flush(hosted.key)

    running.call(write)


def waits_for_a_thread(running: RunningNode) -> Callable[[], bool]:
    """Whether a batch waits for the first decompression thread."""
    return lambda: running.node.broker.decompression._medium._work_queue.qsize() > 0


@pytest.fixture
def running(node_factory: Callable[..., RunningNode]) -> RunningNode:
    return node_factory(offsets_topic_num_partitions=1)


@pytest.fixture
def hosted(running: RunningNode) -> HostedPartition:
    with running.connect() as client:
        coordinated(client)
        make_topic(client, partitions=10, name="t")
    return hosted_of(running, "g")


def test_others_are_served_while_a_large_batch_is_loaded(
    running: RunningNode, hosted: HostedPartition
) -> None:
    before = build_batch([committed(0, 1), committed(1, 1)], timestamp_ms=1)
    behind = build_batch([committed(1, 3)], timestamp_ms=1)
    with running.connect() as client:
        topic = make_topic(client)
        append(running, hosted, before, large(committed(0, 2), committed(1, 2)), behind)
        with stopped_threads(running) as go_on:
            begin_load(running, "g")
            eventually(waits_for_a_thread(running), "the large batch")
            for number in range(10):
                assert produce(client, topic, batch(b"a")).base_offset == number
            assert coordinator_of(running, "g").state is CoordinatorState.LOADING
            go_on.set()
            loaded(running, "g")
        assert fetched(client, "g") == {("t", 0): 2, ("t", 1): 3, ("t", 9): 0}


def test_others_are_served_while_a_disk_that_hangs_is_loaded_from(
    running: RunningNode, hosted: HostedPartition, disk: SlowDisk
) -> None:
    with running.connect() as client:
        topic = make_topic(client)
        append(running, hosted, build_batch([committed(0, 2)], timestamp_ms=1))
        disk.hung_dir = Path(hosted.log.directory).name
        begin_load(running, "g")
        eventually(lambda: disk.asked, "the thread of the disk that hangs is asked")
        for number in range(10):
            assert produce(client, topic, batch(b"a")).base_offset == number
        assert coordinator_of(running, "g").state is CoordinatorState.LOADING
        disk.go.set()
        loaded(running, "g")
        assert fetched(client, "g") == {("t", 0): 2}


def test_a_thread_that_ends_after_loading_began_anew_changes_nothing(
    running: RunningNode, hosted: HostedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(running, hosted, large(committed(0, 2)), build_batch([committed(0, 3)], timestamp_ms=1))
    applied: list[Any] = []
    apply = GroupCoordinator.apply

    def noted(self: GroupCoordinator, *said: Any) -> None:
        applied.append(said)
        apply(self, *said)

    monkeypatch.setattr(GroupCoordinator, "apply", noted)
    with stopped_threads(running) as go_on, running.connect() as client:
        for _ in range(5):
            begin_load(running, "g")
            eventually(waits_for_a_thread(running), "the large batch")
        go_on.set()
        loaded(running, "g")
        assert fetched(client, "g") == {("t", 0): 3, ("t", 9): 0}
    records = running.call(lambda: hosted.log.end_offset)
    assert len(applied) == records, "each once, by the last load"


def test_a_thread_that_ends_after_leadership_is_lost_changes_nothing(
    running: RunningNode, hosted: HostedPartition
) -> None:
    append(running, hosted, large(committed(0, 2)))
    with stopped_threads(running) as go_on:
        begin_load(running, "g")
        eventually(waits_for_a_thread(running), "the large batch")
        coordinator = coordinator_of(running, "g")
        running.call(running.node.broker.coordinators.groups.lost_leadership, hosted, None)
        go_on.set()
        done = threading.Event()
        running.node.broker.decompression._medium.submit(done.set)
        eventually(done.is_set, "the thread")
    for _ in range(10):
        assert running.call(lambda: coordinator.state) is CoordinatorState.CLOSED
    assert running.call(lambda: coordinator.machine.durable_view()) == ({}, {})


def test_a_large_batch_that_does_not_decompress_takes_the_groups_out_of_service(
    running: RunningNode, hosted: HostedPartition
) -> None:
    data = bytearray(large(committed(0, 2)))
    data[-40:] = bytes(40)
    append(running, hosted, data)
    begin_load(running, "g")
    coordinator = coordinator_of(running, "g")
    failed = CoordinatorState.FAILED
    eventually(lambda: running.call(lambda: coordinator.state) is failed, "giving up")


def test_a_few_bytes_that_are_many_records_are_applied_in_pieces(
    running: RunningNode, hosted: HostedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.node.ports.scheduler
    scheduler.turn_s = scheduler.first_turn_s = 0.0
    count = 30 * RECORDS_PER_PIECE
    append(running, hosted, build_batch([committed(0, 1)] * count, timestamp_ms=1))
    applied = [0]
    most = [0]

    def noted(self: GroupCoordinator, *said: Any) -> None:
        applied[0] += 1
        most[0] = max(most[0], applied[0])

    def tick() -> None:
        applied[0] = 0
        coordinator = running.node.broker.coordinators.groups.coordinator_of("g")
        if isinstance(coordinator, ErrorCode) or coordinator.state is CoordinatorState.LOADING:
            running.node.ports.loop.call_soon(tick)

    monkeypatch.setattr(GroupCoordinator, "apply", noted)
    running.call(running.node.broker.coordinators.groups.lost_leadership, hosted, None)
    running.call(tick)
    begin_load(running, "g")
    loaded(running, "g")
    assert 0 < most[0] <= 2 * RECORDS_PER_PIECE, "in one turn of the event loop"
