"""Share state: the five APIs between brokers, and what administrators do with start offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summing,
    write_share_group_state as writing,
)
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.errors import ErrorCode as E
from fencepost.wire.types import Uuid

from . import consumer_words as consumers
from .classic_words import form
from .conftest import Performance
from .share_words import (
    ACCEPT,
    RELEASE,
    UNKNOWN_TOPIC,
    acknowledge,
    alter_offsets,
    beat,
    delete_offsets,
    describe,
    describe_offsets,
    fetch_some,
    join_until_assigned,
    produce,
    ready_group,
    topic_id_of,
)
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
INVALID = E.INVALID_REQUEST
ZERO = Uuid.ZERO
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
Batches = list[tuple[int, int, int, int]]
"""First offset, last offset, state, delivery count."""


def initialize(
    stage: Stage, group: str, topic: Uuid, epoch: int, start: int, partition: int = 0, **how: Any
) -> Any:
    row = initializing.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
    topics = [initializing.InitializeStateData(topic_id=topic, partitions=[row])]
    request = initializing.InitializeShareGroupStateRequest(group_id=group, topics=topics)
    return stage.ask(request, 0, **how)


def read(
    stage: Stage, group: str, topic: Uuid, leader_epoch: int = 0, partition: int = 0, **how: Any
) -> Any:
    row = reading.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topics = [reading.ReadStateData(topic_id=topic, partitions=[row])]
    return stage.ask(reading.ReadShareGroupStateRequest(group_id=group, topics=topics), 0, **how)


def summarize(
    stage: Stage, group: str, topic: Uuid, leader_epoch: int = 0, partition: int = 0, **how: Any
) -> Any:
    row = summing.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topics = [summing.ReadStateSummaryData(topic_id=topic, partitions=[row])]
    request = summing.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)
    return stage.ask(request, 1, **how)


def write(
    stage: Stage,
    group: str,
    topic: Uuid,
    batches: Batches,
    *,
    epoch: int = 1,
    leader_epoch: int = 0,
    start: int = 0,
    complete: int = 0,
    partition: int = 0,
    **how: Any,
) -> Any:
    row = writing.PartitionData(
        partition=partition,
        state_epoch=epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=[
            writing.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topics = [writing.WriteStateData(topic_id=topic, partitions=[row])]
    return stage.ask(writing.WriteShareGroupStateRequest(group_id=group, topics=topics), 1, **how)


def delete(stage: Stage, group: str, topic: Uuid, partition: int = 0, **how: Any) -> Any:
    row = deleting.PartitionData(partition=partition)
    topics = [deleting.DeleteStateData(topic_id=topic, partitions=[row])]
    request = deleting.DeleteShareGroupStateRequest(group_id=group, topics=topics)
    return stage.ask(request, 0, **how)


def state_of(stage: Stage) -> tuple[str, Uuid]:
    """A group and a topic whose partition 0 has an initialised state; the coordinator is there."""
    topic = stage.topic_id(stage.topic("t", 2))
    group = stage.name("g")
    key = f"{group}:{topic}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    stage.until(request, lambda answer: not answer.coordinators[0].error_code, "a coordinator", 6)
    stage.entries.pop()
    row = initializing.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topics = [initializing.InitializeStateData(topic_id=topic, partitions=[row])]
    request_ = initializing.InitializeShareGroupStateRequest(group_id=group, topics=topics)
    stage.until(
        request_, lambda answer: not answer.results[0].partitions[0].error_code, "a state", 0
    )
    return group, topic


CHECKS: list[tuple[str, Any, dict[str, Any], int | None]] = [
    ("initialize-lower-epoch", initialize, {"epoch": 0, "start": 0}, E.FENCED_STATE_EPOCH),
    ("initialize-same-epoch", initialize, {"epoch": 1, "start": 5}, None),
    ("initialize-higher-epoch", initialize, {"epoch": 2, "start": 5}, 0),
    ("initialize-epoch-minus-1", initialize, {"epoch": -1, "start": 0}, None),
    ("initialize-start-minus-1", initialize, {"epoch": 2, "start": -1}, 0),
    ("initialize-start-minus-2", initialize, {"epoch": 2, "start": -2}, None),
    ("initialize-partition-minus-1", initialize, {"epoch": 2, "start": 0, "partition": -1}, None),
    ("initialize-unknown-partition", initialize, {"epoch": 2, "start": 0, "partition": 9}, None),
    ("initialize-unknown-topic", initialize, {"epoch": 2, "start": 0, "topic": None}, None),
    ("initialize-no-topic", initialize, {"epoch": 2, "start": 0, "topic": ZERO}, None),
    ("read", read, {}, 0),
    ("read-higher-leader-epoch", read, {"leader_epoch": 3}, 0),
    ("read-leader-epoch-minus-1", read, {"leader_epoch": -1}, None),
    ("read-uninitialised", read, {"partition": 1}, None),
    ("read-unknown-partition", read, {"partition": 9}, None),
    ("read-partition-minus-1", read, {"partition": -1}, None),
    ("read-unknown-topic", read, {"topic": None}, None),
    ("summary", summarize, {}, 0),
    ("summary-leader-epoch-minus-1", summarize, {"leader_epoch": -1}, None),
    ("summary-uninitialised", summarize, {"partition": 1}, None),
    ("summary-partition-minus-1", summarize, {"partition": -1}, None),
    ("summary-unknown-topic", summarize, {"topic": None}, None),
    ("write", write, {"batches": [(0, 9, ACKNOWLEDGED, 1)]}, 0),
    ("write-nothing", write, {"batches": []}, 0),
    ("write-lower-state-epoch", write, {"batches": [], "epoch": 0}, E.FENCED_STATE_EPOCH),
    ("write-higher-state-epoch", write, {"batches": [], "epoch": 2}, None),
    ("write-state-epoch-minus-1", write, {"batches": [], "epoch": -1}, INVALID),
    ("write-leader-epoch-minus-1", write, {"batches": [], "leader_epoch": -1}, INVALID),
    ("write-uninitialised", write, {"batches": [], "partition": 1}, INVALID),
    ("write-unknown-partition", write, {"batches": [], "partition": 9}, None),
    ("write-partition-minus-1", write, {"batches": [], "partition": -1}, None),
    ("write-unknown-topic", write, {"batches": [], "topic": None}, None),
    ("write-start-minus-1", write, {"batches": [], "start": -1}, None),
    ("write-odd-state", write, {"batches": [(0, 9, 7, 1)]}, None),
    ("delete", delete, {}, 0),
    ("delete-uninitialised", delete, {"partition": 1}, 0),
    ("delete-partition-minus-1", delete, {"partition": -1}, None),
    ("delete-unknown-topic", delete, {"topic": None}, None),
]


def check(stage: Stage, send: Any, said: dict[str, Any], error: int | None) -> None:
    group, topic = state_of(stage)
    said = dict(said)
    if "topic" in said:
        chosen = said.pop("topic")
        topic = topic_id_of(stage, UNKNOWN_TOPIC) if chosen is None else chosen
        stage.side.recognise("topic_id", topic, "another id")
    send(stage, group, topic, error=error, **said)
    read(stage, group, stage.topic_id(stage.name("t")), leader_epoch=said.get("leader_epoch", 0))


@pytest.mark.parametrize(
    ("name", "send", "said", "error"), CHECKS, ids=[name for name, *_ in CHECKS]
)
def test_a_check(
    perform: Performance, name: str, send: Any, said: dict[str, Any], error: int | None
) -> None:
    perform(f"state-{name}", partial(check, send=send, said=said, error=error))


@scene
def leader_epochs(stage: Stage) -> None:
    group, topic = state_of(stage)
    read(stage, group, topic, leader_epoch=5, error=0)
    summarize(stage, group, topic, leader_epoch=5)
    write(stage, group, topic, [], leader_epoch=4, error=E.FENCED_LEADER_EPOCH)
    write(stage, group, topic, [(0, 4, ACKNOWLEDGED, 1)], leader_epoch=5, error=0)
    write(stage, group, topic, [(5, 9, ACKNOWLEDGED, 1)], leader_epoch=6, error=0)
    read(stage, group, topic, leader_epoch=3, error=None)
    summarize(stage, group, topic, leader_epoch=3, error=None)
    write(stage, group, topic, [], leader_epoch=5, error=None)


MERGES: list[list[Batches]] = [
    [[(0, 9, ACKNOWLEDGED, 1)], [(10, 19, ACKNOWLEDGED, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(3, 5, ACKNOWLEDGED, 1)]],
    [[(0, 9, AVAILABLE, 2)], [(3, 5, ACKNOWLEDGED, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(3, 5, AVAILABLE, 2)], [(0, 9, AVAILABLE, 3)]],
    [[(0, 4, AVAILABLE, 1), (10, 14, AVAILABLE, 1)], [(2, 12, ARCHIVED, 2)]],
    [[(0, 9, ACKNOWLEDGED, 1)], [(0, 9, AVAILABLE, 1)]],
    [[(0, 9, ACKNOWLEDGED, 1)], [(5, 15, AVAILABLE, 2)]],
    [[(0, 2, AVAILABLE, 1), (3, 5, AVAILABLE, 1), (6, 8, AVAILABLE, 2)]],
    [[(5, 5, AVAILABLE, 1)], [(4, 4, AVAILABLE, 1)], [(6, 6, AVAILABLE, 1)]],
    [[(0, 9, ARCHIVED, 5)], [(0, 9, ACKNOWLEDGED, 5)], [(0, 9, AVAILABLE, 5)]],
]


@scene
def merged_batches(stage: Stage) -> None:
    """The batch with the higher delivery count wins, then the higher state; equals are joined."""
    group, topic = state_of(stage)
    for epoch, writes in enumerate(MERGES, 2):
        initialize(stage, group, topic, epoch, 0, error=0)
        for batches in writes:
            write(stage, group, topic, batches, epoch=epoch, error=0)
        read(stage, group, topic, error=0)


@scene
def start_offsets(stage: Stage) -> None:
    """They never go back; batches below are cut; complete counts of equal start offsets."""
    group, topic = state_of(stage)
    write(stage, group, topic, [(0, 9, ACKNOWLEDGED, 1)], complete=10, error=0)
    write(stage, group, topic, [(10, 19, AVAILABLE, 1)], start=5, complete=5, error=0)
    read(stage, group, topic)
    summarize(stage, group, topic)
    write(stage, group, topic, [(10, 12, ACKNOWLEDGED, 1)], start=3, complete=9, error=0)
    summarize(stage, group, topic)
    write(stage, group, topic, [], start=5, complete=4, error=0)
    summarize(stage, group, topic)
    write(stage, group, topic, [], start=5, complete=8, error=0)
    summarize(stage, group, topic)
    write(stage, group, topic, [], start=13, complete=0, error=0)
    read(stage, group, topic)
    summarize(stage, group, topic)
    write(stage, group, topic, [], start=-1, complete=0, error=None)
    read(stage, group, topic)
    initialize(stage, group, topic, 2, 7, error=0)
    read(stage, group, topic)
    summarize(stage, group, topic)


@scene
def many_updates(stage: Stage) -> None:
    """More than fit before the next snapshot."""
    group, topic = state_of(stage)
    for number in range(0, 60, 2):
        write(stage, group, topic, [(number, number, ACKNOWLEDGED, 1)], error=0)
    read(stage, group, topic)
    delete(stage, group, topic)
    read(stage, group, topic, error=None)
    write(stage, group, topic, [], error=INVALID)
    initialize(stage, group, topic, 0, 3, error=0)
    read(stage, group, topic)


@scene
def coordinators_are_found(stage: Stage) -> None:
    topic = stage.topic_id(stage.topic("t", 1))
    stage.side.recognise("topic_id", topic, "id")
    good = f"g:{topic}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[good])

    def nodes(seen: Any) -> Any:
        return [(one["error_code"], one["node_id"] >= 0) for one in seen["coordinators"]]

    stage.until(request, lambda answer: not answer.coordinators[0].error_code, "one", 6)
    stage.entries.pop()
    stage.ask(request, 6, only=nodes)
    stage.ask(request, 5, only=nodes, error=None)
    stage.ask(request, 4, only=nodes, error=None)
    for key in ("g", "", "g:x:0", f"g:{topic}", f"g:{topic}:x", f":{topic}:0", f"a:b:{topic}:0"):
        bad = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        stage.ask(bad, 6, only=nodes, error=None)
    stage.ask(FindCoordinatorRequest(key_type=3, coordinator_keys=["g"]), 6, error=None, only=nodes)


# Administrators


@scene
def offsets_are_described(stage: Stage) -> None:
    """Ours stores the start offset with the acknowledgements that move it, Kafka 4.4.0 with the
    next write: here with a release, which moves none."""
    topic, group = ready_group(stage, "m", partitions=2)
    describe_offsets(stage, group)
    produce(stage, topic, b"0", b"1", b"2")
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]}})
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: [(1, 1, [RELEASE])]}})
    for version in (0, 1):
        describe_offsets(stage, group, version=version)
        describe_offsets(stage, group, {topic: [0]}, version=version)
        describe_offsets(stage, group, {topic: [7], stage.name("none"): [0]}, error=None)
    describe_offsets(stage, group, {})
    describe_offsets(stage, stage.name("none"), error=None)
    describe_offsets(stage, stage.name("none"), {topic: [0]}, error=None)


@scene
def offsets_are_altered(stage: Stage) -> None:
    """Epochs are not compared: ours is raised by it, which Apache Kafka does after 4.4.0 only
    (KAFKA-20910)."""
    topic, group = ready_group(stage, "m", partitions=2)
    produce(stage, topic, *(b"%d" % number for number in range(5)))
    alter_offsets(stage, group, {topic: {0: 3}}, error=E.NON_EMPTY_GROUP)
    beat(stage, group, "m", -1)
    alter_offsets(stage, group, {topic: {0: 3}})
    describe_offsets(stage, group)
    alter_offsets(stage, group, {topic: {7: 3}, stage.name("none"): {0: 1}}, error=None)
    describe_offsets(stage, group)
    join_until_assigned(stage, group, "n", topic)
    stage.entries.pop()
    fetch_some(stage, group, "n", 0, topic)


@scene
def offsets_of_an_unknown_group_are_altered(stage: Stage) -> None:
    """The group is made."""
    topic, group = stage.topic("t", 1), stage.name("g")
    alter_offsets(stage, group, {topic: {0: 2}})
    stage.note("state", describe(stage, group).group_state)
    stage.entries.pop(-2)
    describe_offsets(stage, group)


@scene
def offsets_are_deleted(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", partitions=2)
    delete_offsets(stage, group, topic, error=E.NON_EMPTY_GROUP)
    beat(stage, group, "m", -1)
    delete_offsets(stage, group, stage.name("none"), error=None)
    other = stage.topic("u", 1)
    delete_offsets(stage, group, other, error=None)
    delete_offsets(stage, group, topic)
    describe_offsets(stage, group)
    delete_offsets(stage, group, topic, error=None)
    delete_offsets(stage, stage.name("none"), topic, error=E.GROUP_ID_NOT_FOUND)


@scene
def offsets_of_groups_of_other_types(stage: Stage) -> None:
    topic = stage.topic("t", 1)
    classic, consumer = stage.name("classic"), stage.name("consumer")
    form(stage, classic, {})
    consumers.join(stage, consumer, "a", topic)
    for group in (classic, consumer):
        describe_offsets(stage, group, error=None)
        alter_offsets(stage, group, {topic: {0: 1}}, error=None)
        delete_offsets(stage, group, topic, error=None)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"state-{name}", scene[name])
