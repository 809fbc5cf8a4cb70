"""The share coordinator: its merge rules, its checks in order, and its log.

The machine is held against a naive model that has a state and a count for each offset, and against
itself, loaded from what is in its log.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.share.state_batch import (
    STATE_BATCHES_MAX,
    SharePartitionKey,
    StateBatch,
    parse_share_partition_key,
)
from fencepost.machines.share_state import merge
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.coordinator import (
    COLD_TIMER,
    PRUNE_TIMER,
    Decision,
    PruneLog,
    ShareStateCoordinator,
)
from fencepost.machines.share_state.merge import is_merged, merge_batches, merge_into
from fencepost.machines.share_state.records import (
    ShareStateCodec,
    after_update,
    from_snapshot,
    initial_state,
)
from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionRecord, TopicRecord
from fencepost.wire.records.share import (
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatch as StoredBatch,
)
from fencepost.wire.types import Uuid

TOPIC, OTHER, GONE = (Uuid(name.ljust(16).encode()) for name in ("topic", "other", "gone"))
IMAGE = apply_records(
    ClusterImage(),
    [
        *(
            TopicRecord(name=f"t{place}", topic_id=topic)
            for place, topic in enumerate((TOPIC, OTHER))
        ),
        *(
            PartitionRecord(
                partition_id=0,
                topic_id=topic,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for topic in (TOPIC, OTHER)
        ),
    ],
    4,
)
KEY = SharePartitionKey("group", TOPIC, 0)


# -- merging ---------------------------------------------------------------------------------------


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 30))
    last = first + draw(st.integers(0, 12))
    return StateBatch(first, last, draw(st.sampled_from((0, 2, 3, 4))), draw(st.integers(0, 3)))


def by_offset(some: tuple[StateBatch, ...] | list[StateBatch], start_offset: int) -> dict[int, Any]:
    """(count, state) of each offset: the naive model."""
    states: dict[int, tuple[int, int]] = {}
    for one in some:
        for offset in range(max(one.first_offset, start_offset), one.last_offset + 1):
            said = one.delivery_count, one.delivery_state
            states[offset] = max(states.get(offset, said), said)
    return states


@given(st.lists(batches(), max_size=12), st.integers(-1, 40))
def test_merged_batches_say_of_each_offset_what_the_highest_batch_says(
    some: list[StateBatch], start_offset: int
) -> None:
    merged = merge_batches(some, start_offset)
    assert by_offset(merged, -1) == by_offset(some, start_offset)
    for before, after in pairwise(merged):
        assert before.last_offset < after.first_offset
        is_neighbour = before.last_offset + 1 == after.first_offset
        assert not is_neighbour or before[2:] != after[2:], "equal neighbours are one batch"


def test_a_merge_of_many_batches_takes_no_longer_than_sorting_them() -> None:
    nested = [StateBatch(one, 40_000 - one, 0, one % 7) for one in range(20_000)]
    assert by_offset(merge_batches(nested, -1)[:3], -1)[0] == (0, 0)


@given(
    st.lists(batches(), max_size=12),
    st.lists(batches(), max_size=4),
    st.integers(-1, 10),
    st.integers(-1, 40),
)
def test_merging_into_what_is_merged_is_merging_all(
    stored: list[StateBatch], written: list[StateBatch], before: int, start_offset: int
) -> None:
    merged = merge_batches(stored, before)
    assert is_merged(merged)
    assert is_merged(stored) == (merge_batches(stored, -1) == tuple(stored))
    assert merge_into(merged, written, start_offset) == merge_batches(
        (*merged, *written), start_offset
    )


def test_a_write_is_merged_with_no_more_than_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = merge_batches([StateBatch(2 * one, 2 * one, 2, 1) for one in range(50_000)], -1)
    sizes = []

    def counted(batches: Any, start_offset: int) -> tuple[StateBatch, ...]:
        kept = tuple(batches)
        sizes.append(len(kept))
        return merge_batches(kept, start_offset)

    monkeypatch.setattr(merge, "merge_batches", counted)
    written = [StateBatch(one, one + 3, 2, 1) for one in (20, 50_001, 99_000)]
    merged = merge_into(stored, written, 11)
    assert merged == merge_batches((*stored, *written), 11)
    assert sum(sizes) < 30


def test_a_snapshot_that_is_not_merged_is_merged_when_it_is_read() -> None:
    rows = [(4, 8, 0, 1), (0, 5, 2, 2)]
    value = ShareSnapshotValue(
        state_batches=[
            StoredBatch(first_offset=a, last_offset=b, delivery_state=c, delivery_count=d)
            for a, b, c, d in rows
        ]
    )
    assert from_snapshot(None, value, 0).batches == (
        StateBatch(0, 5, 2, 2),
        StateBatch(6, 8, 0, 1),
    )


# -- the log ---------------------------------------------------------------------------------------


class World:
    """A coordinator, and the log that its decisions are appended to."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.config = ShareStateConfig(updates_per_snapshot=updates_per_snapshot)
        self.machine = self.make()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.start = 0
        self.wall_ms = 1_000

    def make(self) -> ShareStateCoordinator:
        return ShareStateCoordinator(self.config, lambda: IMAGE)

    def loaded(self, start: int = 0, end: int | None = None) -> ShareStateCoordinator:
        """Another coordinator, made from the log."""
        machine = self.make()
        for offset, (key, value) in enumerate(self.log[start:end], start):
            record = ShareStateCodec.decode(key, value)
            assert record is not None
            machine.apply(record, offset)
        return machine

    def carry_out(self, decision: Decision, *, is_refused: bool = False) -> Any:
        """Apply and append; the reply. Refused, it is reverted, and there is none."""
        self.machine.undo_log.begin()
        for offset, record in enumerate(decision.records, len(self.log)):
            self.machine.apply(record, offset)
        if is_refused:
            self.machine.undo_log.revert()
            return None
        self.machine.undo_log.commit()
        self.log += [ShareStateCodec.encode(record) for record in decision.records]
        return decision.replies[0][1] if decision.replies else None

    def initialize(self, epoch: int = 1, start: int = 0, key: SharePartitionKey = KEY) -> Any:
        data = initializing.PartitionData(
            partition=key.partition, state_epoch=epoch, start_offset=start
        )
        return self.carry_out(self.machine.decide_initialize(key, data, None, self.wall_ms))

    def write(self, *some: StateBatch, key: SharePartitionKey = KEY, **said: int) -> Any:
        return self.carry_out(self.decide_write(*some, key=key, **said))

    def decide_write(
        self, *some: StateBatch, key: SharePartitionKey = KEY, **said: int
    ) -> Decision:
        fields = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, **said}
        data = writing.PartitionData(
            partition=key.partition,
            state_batches=[writing.StateBatch(**one._asdict()) for one in some],
            **fields,
        )
        return self.machine.decide_write(key, data, None, self.wall_ms)

    def read(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> Any:
        data = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        return self.carry_out(self.machine.decide_read(key, data, None, self.wall_ms))

    def summary(self, key: SharePartitionKey = KEY) -> Any:
        data = summarizing.PartitionData(partition=key.partition, leader_epoch=0)
        return self.carry_out(self.machine.decide_summary(key, data, None))

    def delete(self, key: SharePartitionKey = KEY) -> Any:
        data = deleting.PartitionData(partition=key.partition)
        return self.carry_out(self.machine.decide_delete(key, data, None))

    def fire(self, timer: tuple[str, ...]) -> Decision:
        decision = self.machine.decide_timer(timer, self.wall_ms)
        self.carry_out(decision)
        return decision


KEYS = (KEY, SharePartitionKey("group", OTHER, 0), SharePartitionKey("second", TOPIC, 0))
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("initialize"), st.sampled_from(KEYS), st.integers(0, 3), st.integers(-1, 5)
        ),
        st.tuples(
            st.just("write"),
            st.sampled_from(KEYS),
            st.lists(batches(), max_size=4),
            st.integers(0, 40),
        ),
        st.tuples(st.just("refused"), st.sampled_from(KEYS), st.lists(batches(), max_size=4)),
        st.tuples(st.just("read"), st.sampled_from(KEYS), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from(KEYS)),
        st.tuples(st.just("time"), st.integers(1, 200_000)),
        st.tuples(st.just("cold")),
        st.tuples(st.just("prune")),
    ),
    max_size=40,
)


def take(world: World, step: tuple[Any, ...]) -> None:
    what, *rest = step
    if what == "initialize":
        world.initialize(rest[1], rest[2], rest[0])
    elif what in ("write", "refused"):
        key, some = rest[0], rest[1]
        state = world.machine.states.get(key)
        epochs = {
            "state_epoch": state.state_epoch if state else 0,
            "leader_epoch": state.highest_leader_epoch if state else 0,
        }
        start = rest[2] if what == "write" else 0
        decision = world.decide_write(*some, key=key, start_offset=start, **epochs)
        world.carry_out(decision, is_refused=what == "refused")
    elif what == "read":
        world.read(rest[1], rest[0])
    elif what == "delete":
        world.delete(rest[0])
    elif what == "time":
        world.wall_ms += rest[0]
    elif what == "cold":
        world.fire(COLD_TIMER)
    else:
        for prune in world.fire(PRUNE_TIMER).sends:
            assert isinstance(prune, PruneLog) and prune.offset >= world.start
            world.start = prune.offset


@settings(max_examples=150, deadline=None)
@given(steps)
def test_a_coordinator_that_loads_the_log_has_the_same_state(script: list[tuple[Any, ...]]) -> None:
    """A crash after any step, and pruning at any step."""
    world = World()
    model: dict[SharePartitionKey, tuple[list[StateBatch], int]] = {}
    for step in script:
        before = dict(world.machine.states)
        take(world, step)
        _follow(model, before, world, step)
        for key, state in world.machine.states.items():
            written, start_offset = model[key]
            assert state.start_offset == start_offset
            assert by_offset(state.batches, -1) == by_offset(written, start_offset)
        assert world.loaded().states == world.machine.states
        pruned = world.loaded(world.start).states
        assert pruned.keys() == world.machine.states.keys()
        for key, state in world.machine.states.items():
            # Leaders of before the last snapshot may be forgotten with their records.
            fenced = state.highest_leader_epoch
            assert replace(pruned[key], highest_leader_epoch=fenced) == state


def _follow(
    model: dict[SharePartitionKey, tuple[list[StateBatch], int]],
    before: dict[SharePartitionKey, Any],
    world: World,
    step: tuple[Any, ...],
) -> None:
    """What the naive model has after the step."""
    what, *rest = step
    if what == "initialize":
        known = before.get(rest[0])
        if known is None or rest[1] >= known.state_epoch:
            model[rest[0]] = [], rest[2]
    elif what == "write" and rest[0] in before:
        written, start_offset = model[rest[0]]
        model[rest[0]] = written + rest[1], max(start_offset, rest[2])
    elif what == "delete":
        model.pop(rest[0], None)
    assert model.keys() == world.machine.states.keys()


def test_a_snapshot_follows_after_so_many_updates() -> None:
    world = World(updates_per_snapshot=2)
    world.initialize()
    kinds = []
    for offset in range(6):
        world.write(StateBatch(offset, offset, 2, 1))
        kinds.append(int.from_bytes(world.log[-1][0][:2], "big"))
    assert kinds == [1, 1, 0, 1, 1, 0]
    assert world.machine.states[KEY].snapshot_epoch == 2


def test_the_batches_of_a_share_partition_are_bounded() -> None:
    """Each write merges all of them, on the event loop."""
    world = World(updates_per_snapshot=1_000)
    world.initialize()
    apart = [StateBatch(2 * one, 2 * one, 2, 1) for one in range(STATE_BATCHES_MAX + 1)]
    assert world.write(*apart).error_code == ErrorCode.INVALID_REQUEST
    assert world.write(*apart[:-1]).error_code == ErrorCode.NONE
    assert world.write(apart[-1]).error_code == ErrorCode.INVALID_REQUEST
    assert world.write(apart[0]).error_code == ErrorCode.NONE, "it is stored already"
    assert world.write(apart[-1], start_offset=2).error_code == ErrorCode.NONE, "one leaves"
    assert len(world.machine.states[KEY].batches) == STATE_BATCHES_MAX


def test_the_snapshot_epoch_begins_again_behind_the_largest() -> None:
    """One share partition's record must not keep the timer from the snapshots of all others."""
    world = World(updates_per_snapshot=0)
    world.initialize()
    machine, largest = world.machine, (1 << 31) - 1
    machine.states[KEY] = replace(machine.states[KEY], snapshot_epoch=largest)
    world.wall_ms += world.config.cold_snapshot_interval_ms
    assert len(world.fire(COLD_TIMER).records) == 1
    assert machine.states[KEY].snapshot_epoch == 0
    machine.states[KEY] = replace(machine.states[KEY], snapshot_epoch=largest)
    world.write(StateBatch(0, 0, 2, 1))
    assert machine.states[KEY].snapshot_epoch == 0
    machine.states[KEY] = replace(machine.states[KEY], snapshot_epoch=largest)
    world.initialize()
    assert machine.states[KEY].snapshot_epoch == 0


def test_a_cold_share_partition_gets_another_snapshot_so_that_the_log_can_be_pruned() -> None:
    world = World()
    world.initialize(key=KEYS[1])
    world.wall_ms += world.config.cold_snapshot_interval_ms
    world.initialize()
    assert [one.offset for one in world.fire(PRUNE_TIMER).sends] == [0]
    assert len(world.fire(COLD_TIMER).records) == 1
    assert [one.offset for one in world.fire(PRUNE_TIMER).sends] == [1]
    world.wall_ms += world.config.cold_snapshot_interval_ms
    assert len(world.fire(COLD_TIMER).records) == 2
    world.wall_ms += world.config.cold_snapshot_interval_ms
    assert not world.fire(COLD_TIMER).records, "all last snapshots are repetitions"


@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize("timer", [COLD_TIMER, PRUNE_TIMER], ids=lambda one: one[0])
def test_a_timer_that_has_fired_is_set_again(timer: tuple[str, ...], has_state: bool) -> None:
    world = World()
    if has_state:
        world.initialize()
    config = world.config
    later_ms = {COLD_TIMER: config.cold_snapshot_interval_ms, PRUNE_TIMER: config.prune_interval_ms}
    assert world.fire(timer).timers == [(timer, later_ms[timer])]


def test_a_log_whose_states_are_deleted_is_pruned_to_the_last_tombstone() -> None:
    world = World()
    assert world.fire(PRUNE_TIMER).sends == []
    world.initialize()
    world.delete()
    assert [one.offset for one in world.fire(PRUNE_TIMER).sends] == [1]


def test_the_state_of_deleted_topics_goes() -> None:
    world = World()
    for key in KEYS:
        world.initialize(key=key)
    world.carry_out(world.machine.decide_topics_deleted({TOPIC}))
    assert set(world.machine.states) == {KEYS[1]}


def test_loading_forgets_topics_that_were_deleted_meanwhile() -> None:
    world = World()
    world.initialize()
    without = ShareStateCoordinator(world.config)
    for offset, (key, value) in enumerate(world.log):
        record = ShareStateCodec.decode(key, value)
        assert record is not None
        without.apply(record, offset)
    decision = without.decide_loaded(0)
    assert len(decision.records) == 1 and decision.records[0][1] is None
    assert [name for name, _ in decision.timers] == [COLD_TIMER, PRUNE_TIMER]


# -- the checks, in order --------------------------------------------------------------------------

NEGATIVE = SharePartitionKey("group", TOPIC, -1)
BEYOND = SharePartitionKey("group", TOPIC, 1)
STRANGE = SharePartitionKey("group", GONE, 0)


@pytest.mark.parametrize(
    ("said", "key", "error"),
    [
        pytest.param({}, NEGATIVE, ErrorCode.INVALID_REQUEST, id="partition"),
        pytest.param({"leader_epoch": -1}, KEY, ErrorCode.INVALID_REQUEST, id="leader-epoch"),
        pytest.param({"state_epoch": -1}, KEY, ErrorCode.INVALID_REQUEST, id="state-epoch"),
        pytest.param({}, BEYOND, ErrorCode.INVALID_REQUEST, id="not-initialized"),
        pytest.param(
            {"leader_epoch": 4, "state_epoch": 4}, KEY, ErrorCode.FENCED_LEADER_EPOCH, id="leader"
        ),
        pytest.param(
            {"leader_epoch": 5, "state_epoch": 4}, KEY, ErrorCode.FENCED_STATE_EPOCH, id="state"
        ),
        pytest.param({"leader_epoch": 5, "state_epoch": 5}, KEY, ErrorCode.NONE, id="both-equal"),
        pytest.param({"leader_epoch": 6, "state_epoch": 6}, KEY, ErrorCode.NONE, id="both-newer"),
    ],
)
def test_a_write_is_checked_in_order(
    said: dict[str, int], key: SharePartitionKey, error: ErrorCode
) -> None:
    world = World()
    world.initialize(epoch=5)
    world.read(leader_epoch=5)
    before = len(world.log)
    assert world.write(StateBatch(0, 0, 2, 1), key=key, **said).error_code == error
    assert len(world.log) == before + (error is ErrorCode.NONE)


def test_a_topic_that_is_gone_is_refused_behind_the_epochs() -> None:
    world = World()
    world.initialize(epoch=5)
    machine = ShareStateCoordinator(world.config)
    for offset, (key, value) in enumerate(world.log):
        record = ShareStateCodec.decode(key, value)
        assert record is not None
        machine.apply(record, offset)
    world.machine = machine
    assert world.write(state_epoch=4).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.write(state_epoch=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.read().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.summary().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.delete().error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.initialize(epoch=4).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(epoch=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_read_is_checked_in_order_and_stores_the_leader_epoch() -> None:
    world = World()
    assert world.read(key=NEGATIVE).error_message.startswith("The partition id")
    assert world.read(leader_epoch=-1).error_message.startswith("The leader epoch")
    assert world.read().error_message.startswith("Read operation on uninitialized")
    world.initialize()
    before = len(world.log)
    assert world.read(0).error_code == 0 and len(world.log) == before
    assert world.read(4).error_code == 0 and len(world.log) == before + 1
    assert world.read(4).error_code == 0 and len(world.log) == before + 1
    assert world.read(3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.summary().leader_epoch == 4


def test_initializing_is_checked_in_order_and_begins_again() -> None:
    world = World()
    assert world.initialize(key=NEGATIVE).error_code == ErrorCode.INVALID_REQUEST
    assert world.initialize(epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert world.initialize(key=BEYOND).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.initialize(epoch=2, start=-1).error_code == 0
    assert world.summary().delivery_complete_count == -1
    world.write(StateBatch(3, 8, 2, 1), state_epoch=2)
    assert world.initialize(epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(epoch=2, start=9).error_code == 0
    row = world.read()
    assert (row.start_offset, row.state_epoch, row.state_batches) == (9, 2, [])
    assert world.summary().delivery_complete_count == 0


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_state_that_begins_again_refuses_the_leaders_that_it_refused_before(
    is_loaded: bool,
) -> None:
    world = World()
    world.initialize()
    assert world.read(5).error_code == 0
    world.initialize(epoch=2)
    if is_loaded:
        world.machine = world.loaded()
    assert world.summary().leader_epoch == 0
    size = len(world.log)
    assert world.read(4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(5).error_code == 0 and len(world.log) == size, "it is known already"
    refused = world.write(state_epoch=2, leader_epoch=4)
    assert refused.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(state_epoch=2, leader_epoch=5).error_code == 0


def test_an_update_may_leave_the_leader_epoch_and_the_start_offset_as_they_are() -> None:
    """-1 stands for that, in records of Kafka's brokers."""
    before = initial_state(1, 7, 0, 1_000)
    before = replace(before, leader_epoch=3, highest_leader_epoch=3)
    unchanged = ShareUpdateValue(snapshot_epoch=0, leader_epoch=-1, start_offset=-1)
    after = after_update(before, unchanged, 5)
    assert (after.leader_epoch, after.start_offset) == (3, 7)
    other = ShareUpdateValue(snapshot_epoch=0, leader_epoch=4, start_offset=9)
    after = after_update(before, other, 5)
    assert (after.leader_epoch, after.start_offset, after.highest_leader_epoch) == (4, 9, 4)


def test_deleting_what_is_not_there_is_a_success_without_a_record() -> None:
    world = World()
    assert world.delete().error_code == 0 and world.log == []
    assert world.delete(NEGATIVE).error_code == ErrorCode.INVALID_REQUEST
    assert world.delete(STRANGE).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    row = world.summary()
    assert (row.error_code, row.start_offset, row.delivery_complete_count) == (0, -1, -1)


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    world = World()
    world.initialize()
    assert world.write(StateBatch(5, 4, 2, 1)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("start", "count", "stored"),
    [
        pytest.param(10, 3, (10, 5), id="fewer-for-the-same-start"),
        pytest.param(10, 7, (10, 7), id="more-for-the-same-start"),
        pytest.param(4, 9, (10, 5), id="an-older-start"),
        pytest.param(12, 1, (12, 1), id="a-later-start"),
    ],
)
def test_the_start_offset_never_goes_back_and_the_count_goes_with_it(
    start: int, count: int, stored: tuple[int, int]
) -> None:
    world = World()
    world.initialize()
    world.write(start_offset=10, delivery_complete_count=5)
    world.write(start_offset=start, delivery_complete_count=count)
    row = world.summary()
    assert (row.start_offset, row.delivery_complete_count) == stored


def test_keys_are_texts_and_back() -> None:
    key = SharePartitionKey("a:b:", TOPIC, 7)
    assert parse_share_partition_key(key.coordinator_key) == key
