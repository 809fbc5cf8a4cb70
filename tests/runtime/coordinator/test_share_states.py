"""Share coordinators over a real log: pruning, and leaders that are replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.group.partitioner import partition_for
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.coordinator import PruneLog, ShareStateCoordinator
from fencepost.machines.share_state.records import ShareStateCodec
from fencepost.runtime.coordinator import CoordinatorKind
from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.runtime.share_states import ShareStateCoordinators
from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    write_share_group_state as writing,
)
from fencepost.wire.errors import ErrorCode

from ...machines.test_share_state import IMAGE, TOPIC
from .coordinator_world import INDEX, CoordinatorWorld

PARTITIONS = 4


def keys_here() -> list[SharePartitionKey]:
    """Share partitions whose coordinator is the partition's that the world has."""
    keys = (SharePartitionKey(f"g{number}", TOPIC, 0) for number in range(100))
    return [one for one in keys if partition_for(one.coordinator_key, PARTITIONS) == INDEX]


KEY, OTHER = keys_here()[:2]


class ShareStates(CoordinatorWorld):
    """The share coordinators of a node, over the one partition that it may lead."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        config = ShareStateConfig(updates_per_snapshot=2, cold_snapshot_interval_ms=10_000_000)
        topic = SimpleNamespace(partitions=[SimpleNamespace(leader=1)] * PARTITIONS)
        image = SimpleNamespace(
            topics_by_name={SHARE_STATE_TOPIC: topic}, topics_by_id=IMAGE.topics_by_id
        )
        metadata: Any = SimpleNamespace(image=image, on_image=lambda watch: None)
        kind: Any = replace(
            self.kind,
            make_machine=lambda: ShareStateCoordinator(config, lambda: IMAGE),
            codec=ShareStateCodec(),
        )
        ports: Any = self.ports
        ports.scheduler = self.scheduler
        checked: CoordinatorKind[ShareStateCoordinator] = kind
        self.states = ShareStateCoordinators(1, ports, metadata, checked)
        self.runtime: Any = self.states.runtime

    @property
    def machine_of_states(self) -> ShareStateCoordinator:
        machine: Any = self.coordinator.machine
        assert isinstance(machine, ShareStateCoordinator)
        return machine

    def answer(self, request: Any) -> list[Any]:
        """The answer, once there is one."""
        answers: list[Any] = []
        for _ in self.states.answer(request, answers.append):
            pass
        return answers

    def initialize(self, *keys: SharePartitionKey) -> list[list[Any]]:
        return [
            self.answer(
                initializing.InitializeShareGroupStateRequest(
                    group_id=key.group_id,
                    topics=[
                        initializing.InitializeStateData(
                            topic_id=key.topic_id,
                            partitions=[
                                initializing.PartitionData(
                                    partition=0, state_epoch=1, start_offset=0
                                )
                            ],
                        )
                    ],
                )
            )
            for key in keys
        ]

    def write_state(
        self, key: SharePartitionKey = KEY, first: int = 0, *more: int, start_offset: int = 0
    ) -> list[Any]:
        batches = [
            writing.StateBatch(
                first_offset=one, last_offset=one, delivery_state=2, delivery_count=1
            )
            for one in (first, *more)
        ]
        data = writing.PartitionData(
            partition=0,
            state_epoch=1,
            leader_epoch=0,
            start_offset=start_offset,
            state_batches=batches,
        )
        topic = writing.WriteStateData(topic_id=key.topic_id, partitions=[data])
        return self.answer(
            writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        )


def error_of(answers: list[Any]) -> ErrorCode:
    ((row,),) = [topic.partitions for topic in answers[0].results]
    return ErrorCode(row.error_code)


def begun(world: ShareStates) -> ShareStates:
    world.start()
    world.initialize(KEY, OTHER)
    world.commit()
    return world


def test_an_answer_waits_until_its_records_are_committed() -> None:
    world = ShareStates()
    world.start()
    (answers,) = world.initialize(KEY)
    assert answers == []
    world.commit()
    assert error_of(answers) is ErrorCode.NONE


def test_rows_of_other_coordinators_are_refused() -> None:
    world = begun(ShareStates())
    elsewhere = next(
        one
        for number in range(100)
        if partition_for(
            (one := SharePartitionKey(f"h{number}", TOPIC, 0)).coordinator_key, PARTITIONS
        )
        != INDEX
    )
    refused = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert error_of(world.write_state(elsewhere)) in refused
    rows = [deleting.PartitionData(partition=number) for number in (7, 3)]
    topic = deleting.DeleteStateData(topic_id=TOPIC, partitions=rows)
    request = deleting.DeleteShareGroupStateRequest(group_id=elsewhere.group_id, topics=[topic])
    world.follow(2)
    (answer,) = world.answer(request)
    told = [(one.partition, one.error_code) for one in answer.results[0].partitions]
    assert [number for number, _ in told] == [7, 3], "rows are in the order of the request"
    assert {error for _, error in told} <= {int(one) for one in refused}


def test_a_write_of_a_lost_epoch_ends_and_is_not_in_the_state() -> None:
    """KAFKA-20635: the coordinator's answer does not wait for a commit that never comes."""
    world = begun(ShareStates(followers=1))
    answers = world.write_state()
    assert answers == []
    world.follow(2)
    assert error_of(answers) is ErrorCode.NOT_COORDINATOR
    assert error_of(world.write_state()) is ErrorCode.NOT_COORDINATOR or not world.runtime.get(
        INDEX
    )


def test_what_is_appended_is_loaded_by_the_next_coordinator() -> None:
    world = begun(ShareStates())
    for first in range(7):
        world.write_state(first=first)
    world.commit()
    before = dict(world.machine_of_states.states)
    world.follow(2)
    world.lead(4)
    world.commit()
    world.run()
    assert world.machine_of_states.states == before


def test_the_log_is_pruned_below_the_oldest_snapshot_that_is_needed() -> None:
    world = begun(ShareStates())
    for first in range(3):
        world.write_state(first=first)
    world.commit()
    world.advance(300_000)
    world.commit()
    assert world.log.start_offset == 1, "the other's snapshot is needed"
    before = dict(world.machine_of_states.states)
    world.follow(2)
    world.lead(4)
    world.commit()
    world.run()
    assert world.machine_of_states.states == before


def test_pruning_that_was_decided_in_a_lost_epoch_deletes_nothing() -> None:
    """KAFKA-20710: another coordinator may have been loaded since."""
    world = begun(ShareStates())
    for first in range(5):
        world.write_state(first=first)
    world.commit()
    start_offset = world.log.start_offset
    world.states._prune(PruneLog(KEY, 1), leader_epoch=0)
    assert world.log.start_offset == start_offset
    world.follow(2)
    world.states._prune(PruneLog(KEY, 1), leader_epoch=1)
    assert world.log.start_offset == start_offset
    world.lead(4)
    world.commit()
    world.run()
    world.states._prune(PruneLog(KEY, 1), leader_epoch=1)
    assert world.log.start_offset == start_offset
    world.states._prune(PruneLog(KEY, 1), leader_epoch=4)
    assert world.log.start_offset == 1


def test_timers_of_a_lost_epoch_do_not_fire() -> None:
    world = begun(ShareStates())
    for first in range(5):
        world.write_state(first=first)
    world.commit()
    world.follow(2)
    world.advance(1_000_000)
    assert world.log.start_offset == 0


def test_a_large_write_is_decided_in_parts() -> None:
    """Merging tens of thousands of batches would hold up the event loop."""
    world = begun(ShareStates(max_message_bytes=10_000_000))
    sizes: list[tuple[int, int]] = []
    machine = world.machine_of_states
    decide = machine.decide_write

    def decide_write(key: Any, asked: Any, *rest: Any) -> Any:
        sizes.append((len(asked.state_batches), asked.start_offset))
        return decide(key, asked, *rest)

    world.coordinator.machine.decide_write = decide_write  # type: ignore[method-assign]
    offsets = range(7, 10_007, 2)
    answers = world.write_state(KEY, *offsets, start_offset=7)
    assert answers == []
    world.commit()
    world.run()
    assert error_of(answers) is ErrorCode.NONE
    assert sizes == [(2_000, -1), (2_000, -1), (1_000, 7)]
    state = machine.states[KEY]
    assert [one.first_offset for one in state.batches] == list(offsets)
    assert state.start_offset == 7


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_a_large_write_of_which_a_part_fails_is_answered_once(parts: int) -> None:
    world = begun(ShareStates(max_message_bytes=10_000_000))
    machine = world.machine_of_states
    decide, count = machine.decide_write, 0

    def decide_write(key: Any, asked: Any, *rest: Any) -> Any:
        nonlocal count
        count += 1
        if count == parts + 1:
            asked.leader_epoch = -1
        return decide(key, asked, *rest)

    world.coordinator.machine.decide_write = decide_write  # type: ignore[method-assign]
    answers = world.write_state(KEY, *range(0, 10_000, 2), start_offset=3)
    world.commit()
    world.run()
    assert error_of(answers) is ErrorCode.INVALID_REQUEST
    assert len(answers) == 1
    assert machine.states[KEY].start_offset == 0, "it moves with the last part alone"
    world.follow(2)
    world.lead(4)
    world.commit()
    world.run()
    again = world.write_state(KEY, *range(0, 10_000, 2), start_offset=3)
    world.commit()
    world.run()
    assert error_of(again) is ErrorCode.NONE
    assert len(world.machine_of_states.states[KEY].batches) == 4_998


@pytest.mark.parametrize("offsets", [range(0, 2 * 50_001, 2), [*range(0, 4_000, 2), -5]])
def test_a_large_write_that_is_refused_anyhow_leaves_nothing(offsets: list[int]) -> None:
    world = begun(ShareStates(max_message_bytes=10_000_000))
    answers: list[Any] = []
    batches = [
        writing.StateBatch(
            first_offset=abs(one), last_offset=one, delivery_state=2, delivery_count=1
        )
        for one in offsets
    ]
    data = writing.PartitionData(partition=0, state_epoch=1, state_batches=batches)
    topic = writing.WriteStateData(topic_id=KEY.topic_id, partitions=[data])
    request = writing.WriteShareGroupStateRequest(group_id=KEY.group_id, topics=[topic])
    for _ in world.states.answer(request, answers.append):
        pass
    world.commit()
    assert error_of(answers) is ErrorCode.INVALID_REQUEST
    assert world.machine_of_states.states[KEY].batches == ()


def test_requests_without_rows_are_answered_without_rows() -> None:
    world = begun(ShareStates())
    for request in (
        writing.WriteShareGroupStateRequest(group_id="g"),
        writing.WriteShareGroupStateRequest(
            group_id="g", topics=[writing.WriteStateData(topic_id=TOPIC)]
        ),
        initializing.InitializeShareGroupStateRequest(
            group_id="",
            topics=[
                initializing.InitializeStateData(
                    topic_id=TOPIC, partitions=[initializing.PartitionData(partition=0)]
                )
            ],
        ),
    ):
        (answer,) = world.answer(request)
        assert answer.results == []
