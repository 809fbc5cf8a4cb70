"""Coordinators of groups on a node: loading, lost leads, refused writes, what others wrote."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.log_limit import BURST_LINES, NOTE_CHARACTERS
from fencepost.machines.coordinator import WorkResult
from fencepost.machines.group.classic.groups import ClassicGroups
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.memory import MEMBER_BYTES
from fencepost.machines.group.shard import Decision
from fencepost.runtime.coordinator import CoordinatorState
from fencepost.runtime.coordinator.loader import BATCHES_PER_READ
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from fencepost.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import make_topic
from .group_requests import (
    begin_load,
    commit,
    coordinated,
    coordinator_of,
    fetched,
    held_loading,
    hosted_of,
    join_request,
    loaded,
    reload,
    stable,
    sync,
    sync_request,
)

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_while_a_coordinator_loads_clients_are_told_to_wait(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 2)
        joined = stable(client, "g")
        with held_loading(running, "g"):
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
            assert client.ask(beat, 4).error_code == 0, "no member is missed yet"
            assert client.ask(join_request("g"), 9).error_code == LOADING
            assert sync(client, "g", joined).error_code == LOADING
            assert client.ask(LeaveGroupRequest(group_id="g"), 5).error_code == LOADING
            assert commit(client, "g", topic, 1) == LOADING
            assert client.ask(ListGroupsRequest(), 5).error_code == LOADING
            assert (
                client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == LOADING
            )
            deleted = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
            assert deleted.results[0].error_code == LOADING
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            old = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 1)
            assert old.topics[0].partitions[0].error_code == LOADING
            new = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 7)
            assert (new.error_code, new.topics) == (LOADING, [])
            wanted = [OffsetFetchRequestGroup(group_id="g", topics=None)]
            assert client.ask(OffsetFetchRequest(groups=wanted), 9).groups[0].error_code == LOADING
        assert sync(client, "g", joined).error_code == 0


def test_without_a_topic_nobody_is_the_coordinator(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    with running.connect() as client:
        refused = client.ask(join_request("g"), 9)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        assert client.ask(ListGroupsRequest(), 5).groups == []


def test_losing_leadership_answers_who_waits(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=60_000)
    with running.connect() as client:
        coordinated(client)
        answer = client.ask(join_request("g"), 9)
        client.send(join_request("g", answer.member_id), 9)
        waiting(running, "g")
        groups: GroupHost = running.node.broker.coordinators.groups
        hosted = hosted_of(running, "g")
        epoch = hosted.machine.leader_epoch
        running.call(groups.lost_leadership, hosted, epoch + 1)
        _, refused = client.receive(11, 9)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        running.call(groups.became_leader, hosted, epoch)
        assert client.ask(join_request("g"), 9).error_code == LOADING, "that epoch is over"
        running.call(groups.lost_leadership, hosted, None)
        running.call(groups.became_leader, hosted, epoch)
        coordinated(client)


def waiting(running: RunningNode, group: str) -> None:
    """Wait until one request for the group has no answer yet."""
    coordinator = coordinator_of(running, group)
    eventually(lambda: running.call(lambda: coordinator.waiting_count) == 1, "the request")


@contextlib.contextmanager
def too_few_in_sync(running: RunningNode, hosted: HostedPartition) -> Iterator[None]:
    """The partition machine refuses every batch with NOT_ENOUGH_REPLICAS."""

    def set_isr(*members: int) -> None:
        leader = hosted.machine.leader_state
        assert leader is not None
        leader.isr = frozenset(members)

    running.call(set_isr)
    yield
    running.call(set_isr, 1)


def test_a_write_that_fails_has_not_happened(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 2)
        assert commit(client, "g", topic, 1) == 0
        with too_few_in_sync(running, hosted_of(running, "g")):
            refused = commit(client, "g", topic, 2)
            assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        coordinated(client)
        assert fetched(client, "g") == {(topic.name, 0): 1}
        assert commit(client, "g", topic, 3) == 0


def test_a_mistake_of_ours_costs_only_who_asked(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 2)
        commit(client, "g", topic, 1)
        coordinator = coordinator_of(running, "g")
        heard: list[Any] = []

        def decide(coordinator: Any, token: Any) -> Any:
            raise AssertionError("a mistake")

        running.call(coordinator.submit, decide, lambda error, reply: heard.append((error, reply)))
        assert heard == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)]
        coordinated(client)
        assert fetched(client, "g") == {(topic.name, 0): 1}


def test_a_mistake_of_ours_is_told_to_everybody_whom_the_decision_was_to_answer(
    node_factory: Callable[..., RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision takes who waits out of the coordinator, and may then come to nothing."""
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as leader, running.connect() as follower:
        coordinated(leader)
        joined = stable(leader, "g")
        new = follower.ask(join_request("g"), 9)
        follower.send(join_request("g", new.member_id), 9)
        waiting(running, "g")
        rejoined = leader.ask(join_request("g", joined.member_id), 9)
        assert follower.receive(11, 9)[1].generation_id == rejoined.generation_id == 2
        follower.send(sync_request("g", rejoined, new.member_id), 5)
        waiting(running, "g")

        def apply(*said: Any) -> Any:
            raise AssertionError("a mistake")

        monkeypatch.setattr(GroupCoordinator, "apply", apply)
        assert sync(leader, "g", rejoined).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert follower.receive(14, 5)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_requests_that_arrive_while_one_is_answered_come_after_it(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1, log_flush_before_ack="false")
    with running.connect() as client:
        coordinated(client)
        make_topic(client, 2, name="t")
        coordinator = coordinator_of(running, "g")
        order: list[str] = []

        def ask(name: str, then: Callable[[], None] = lambda: None) -> None:
            wanted = OffsetFetchRequestGroup(group_id=name, topics=None)

            def decide(coordinator: Any, token: Any) -> Any:
                order.append(f"decide {name}")
                return coordinator.decide_offset_fetch(wanted, False, token)

            def on_reply(error: ErrorCode, reply: Any) -> None:
                then()
                order.append(f"answered {name}")

            coordinator.submit(decide, on_reply)

        running.call(lambda: ask("a", lambda: ask("b")))
        assert order == ["decide a", "answered a", "decide b", "answered b"]


def test_a_coordinator_reads_what_others_wrote(node_factory: Callable[..., RunningNode]) -> None:
    """Other kinds of groups, transactions, tombstones, and more than one turn's worth of them."""
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        make_topic(client, partitions=3, name="t")
        hosted = hosted_of(running, "g")

        def offset(group: str, number: int, partition: int = 0) -> tuple[bytes, bytes]:
            key = OffsetCommitKey(group=group, topic="t", partition=partition)
            value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=1)
            return encode_key(key), encode_value(value, 3)

        def tx(producer_id: int) -> dict[str, Any]:
            return {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": 0,
                "transactional": True,
            }

        def end(producer_id: int, *, committed: bool) -> bytearray:
            return build_end_txn_marker(
                producer_id=producer_id,
                producer_epoch=0,
                committed=committed,
                coordinator_epoch=0,
                timestamp_ms=1,
            )

        batches = [
            *(build_batch([offset("g", number)]) for number in range(2 * BATCHES_PER_READ + 3)),
            build_batch(
                [
                    (b"\0\x12 given up", b"\0\0"),
                    (b"\x03\xe7 unheard of", None),
                    offset("g", 77, 1),
                ]
            ),
            build_batch([offset("gone", 1)]),
            build_batch([(offset("gone", 1)[0], None)]),
            build_batch([offset("done", 5)], **tx(1)),
            end(1, committed=True),
            build_batch([offset("undone", 5)], **tx(2)),
            end(2, committed=False),
            build_batch([offset("open", 5, 2)], **tx(3)),
        ]

        def append() -> None:
            for batch in batches:
                hosted.log.append_as_leader(RecordBatch.parse(batch), 0, 1)
            running.node.ports.request_flush(hosted.key)

        running.call(append)
        reload(running, "g")
        assert fetched(client, "g") == {("t", 0): 2 * BATCHES_PER_READ + 2, ("t", 1): 77}
        assert fetched(client, "done") == {("t", 0): 5}
        assert fetched(client, "gone") == fetched(client, "undone") == {}
        wanted = OffsetFetchRequestGroup(
            group_id="open",
            topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[2])],
        )
        request = OffsetFetchRequest(groups=[wanted], require_stable=True)
        (answer,) = client.ask(request, 9).groups
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_log_that_makes_no_sense_takes_its_groups_out_of_service(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        hosted = hosted_of(running, "g")
        batch = build_batch([(b"\0\x01garbage", b"\0\0")])

        def append() -> None:
            hosted.log.append_as_leader(RecordBatch.parse(batch), 0, 1)
            running.node.ports.request_flush(hosted.key)

        running.call(append)
        begin_load(running, "g")
        coordinator = coordinator_of(running, "g")
        failed = CoordinatorState.FAILED
        eventually(lambda: running.call(lambda: coordinator.state) is failed, "giving up")
        refused = client.ask(join_request("g"), 9)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_was_read_and_not_yet_flushed_is_waited_for(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        make_topic(client, 2, name="t")
        hosted = hosted_of(running, "g")
        key = OffsetCommitKey(group="g", topic="t", partition=0)
        value = OffsetCommitValue(offset=4, metadata="", commit_timestamp=1)
        batch = build_batch([(encode_key(key), encode_value(value, 3))])

        def append() -> None:
            hosted.log.append_as_leader(RecordBatch.parse(batch), 0, 1)

        running.call(append)
        begin_load(running, "g")
        for _ in range(5):
            assert client.ask(join_request("g"), 9).error_code == LOADING
        running.call(lambda: running.node.ports.request_flush(hosted.key))
        loaded(running, "g")
        assert fetched(client, "g") == {("t", 0): 4}


def test_a_large_commit_is_written_in_several_batches(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, partitions=400)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index, committed_metadata="x" * 4_000
            )
            for index in range(400)
        ]
        request = OffsetCommitRequest(
            group_id="g",
            topics=[OffsetCommitRequestTopic(name=topic.name, partitions=partitions)],
        )
        answer = client.ask(request, 9)
        assert {p.error_code for p in answer.topics[0].partitions} == {0}
        hosted = hosted_of(running, "g")
        limit = hosted.log.config.max_message_bytes

        def sizes() -> list[int]:
            source = hosted.log
            batches = source.read_all_batches(source.start_offset, source.end_offset)
            return [header.size_bytes for header, _ in batches]

        assert max(running.call(sizes)) <= limit and sum(running.call(sizes)) > limit
        reload(running, "g")
        assert len(fetched(client, "g")) == 400


def test_acknowledging_from_the_page_cache_works_the_same(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(log_flush_before_ack="false")
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 2)
        stable(client, "g")
        assert commit(client, "h", topic, 3) == 0
        assert fetched(client, "h") == {(topic.name, 0): 3}


def test_notes_about_groups_fill_no_log(
    node_factory: Callable[..., RunningNode], caplog: pytest.LogCaptureFixture
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
    caplog.set_level(logging.INFO, logger="fencepost")
    coordinator = coordinator_of(running, "g")
    notes = [f"note {number} of {'g' * 32_000}" for number in range(BURST_LINES + 100)]
    running.call(coordinator.tell, lambda _: Decision(notes=notes))
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("note ")]
    assert BURST_LINES <= len(lines) < len(notes)
    assert max(map(len, lines)) < NOTE_CHARACTERS + 100


def test_groups_of_a_node_share_one_bound_and_one_that_is_loaded_again_counts_once(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=3, fencepost_groups_max_bytes=100_000)
    memory = running.node.broker.coordinators.groups.memory
    with running.connect() as client:
        coordinated(client)
        for number in range(6):
            stable(client, f"g{number}")
        used_bytes = memory.used_bytes
        assert used_bytes > 6 * MEMBER_BYTES
        reload(running, "g0")
        assert memory.used_bytes == used_bytes
        large = join_request("large", version=3)
        large.protocols[0].metadata = bytes(80_000)
        assert client.ask(large, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    running.call(running.node.broker.coordinators.groups.close)
    assert memory.used_bytes == 0


def test_work_elsewhere_is_done_by_a_thread_and_decided_about_in_the_loop(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    computed: list[str] = []
    decided: list[tuple[str, Any]] = []

    def compute(spec: str) -> str:
        computed.append(threading.current_thread().name)
        if spec == "fail":
            raise ValueError(spec)
        return spec.upper()

    def on_done(result: WorkResult, wall_ms: int) -> Decision:
        decided.append((threading.current_thread().name, result.value or str(result.error)))
        return Decision()

    def decide(machine: GroupCoordinator) -> Decision:
        decision = Decision()
        for spec in ("fail", "work"):
            decision.begin_work(("made up", spec), compute, spec, on_done)
        return decision

    with running.connect() as client:
        coordinated(client)
        coordinator = coordinator_of(running, "g")
        loop_thread = running.call(lambda: threading.current_thread().name)
        running.call(lambda: coordinator.tell(decide))
        eventually(lambda: len(decided) == 2)
    assert sorted(decided) == [(loop_thread, "WORK"), (loop_thread, "fail")]
    assert all(name.startswith("groups") for name in computed), computed


def test_groups_see_the_metadata_of_the_cluster(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        coordinator = coordinator_of(running, "g")
        image = running.call(lambda: coordinator.machine.of_type(ClassicGroups)._shard.image)
        assert "__consumer_offsets" in image.topics_by_name
        topic = make_topic(client, 3)

        def partitions() -> int:
            image = coordinator.machine.of_type(ClassicGroups)._shard.image
            return len(image.topics_by_name[topic.name].partitions)

        assert running.call(partitions) == 3
