"""Drawn histories of a whole group: clients, lost answers, refused writes, loads, compaction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.consumer.group import ConsumerGroup, ConsumerGroupState
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicPartitions,
    encode_key,
)

from ..group_world import compact, replay
from .world import Client, ConsumerWorld, id_of, image_of, owned_by

SIZES = (1, 4, 6)
SUMS = (
    "static_members",
    "name_sets",
    "topic_users",
    "regex_users",
    "assignor_users",
    "stable_members",
    "holders",
    "size_bytes",
)


def sums_of(coordinator: GroupCoordinator) -> dict[str, Any]:
    """What is kept beside the records, for comparing two ways to come to them."""
    return {
        group_id: {name: getattr(group, name) for name in SUMS}
        for group_id, group in coordinator.groups.items()
        if isinstance(group, ConsumerGroup)
    }


class Story:
    """Clients of one group; `told` has what each of them may read."""

    def __init__(self) -> None:
        self.world = ConsumerWorld()
        self.world.image = image_of(t=4, u=1)
        self.clients: dict[str, Client] = {}
        self.static: dict[str, str] = {}
        self.offset = 0
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(self.world, name)
        return self.clients[name]

    def beat(self, name: str, is_lost: bool, is_refused: bool, **said: Any) -> None:
        world, client = self.world, self.client(name)
        world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS if is_refused else None
        token = world.ask_beat(name, client.epoch, **client.says(**said))
        world.refusing = None
        answer = world.replies.get(token)
        client.says_all = answer is None or is_lost
        if answer is None or is_lost:
            return
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.epoch, client.owned = 0, {}
        elif answer.error_code == ErrorCode.NONE:
            if client.epoch == 0:
                client.owned = {}
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = owned_by(answer) or {}
                client.owned = {topic: set(indexes) for topic, indexes in assigned.items()}

    def check(self) -> None:
        """One reader for each partition, epochs that never go back, and the log says the same."""
        readers: dict[tuple[str, int], str] = {}
        for name, client in self.clients.items():
            for partition in client.partitions:
                assert partition not in readers, f"{partition}: {name}, {readers[partition]}"
                readers[partition] = name
        world = self.world
        group = world.coordinator.groups.get("g")
        for one in (world.log, compact(world.log)):
            loaded = replay(one, world.config, image=lambda: world.image)
            assert loaded.durable_view() == world.coordinator.durable_view()
            assert sums_of(loaded) == sums_of(world.coordinator)
        if isinstance(group, ConsumerGroup):
            assert group.epoch >= self.group_epoch
            assert group.target_epoch <= group.epoch
            self.group_epoch = group.epoch
            for counts in group.holders.values():
                assert set(counts.values()) == {1}


NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("beat"), NAMES, st.booleans(), st.booleans()),
    st.tuples(st.just("beat"), NAMES, st.just(False), st.just(False)),
    st.tuples(st.just("topics"), NAMES, st.sampled_from([("t",), ("u",), ("t", "u"), ()])),
    st.tuples(st.just("regex"), NAMES, st.sampled_from(["", "t", "u.*", "."])),
    st.tuples(st.just("assignor"), NAMES, st.sampled_from(["range", "uniform"])),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("time"), st.sampled_from([500, 1_000, 11_000, 45_000])),
    st.tuples(st.just("image"), st.sampled_from(SIZES), st.booleans()),
    st.tuples(st.just("restart")),
    st.tuples(st.just("work")),
)


def take(story: Story, what: str, *how: Any) -> None:
    world = story.world
    if what == "beat":
        story.beat(*how)
    elif what in ("topics", "regex", "assignor"):
        name, value = how
        story.beat(name, False, False, **{what: value})
        if what == "topics":
            story.client(name).topics = value
    elif what == "leave":
        client = story.client(how[0])
        world.beat(how[0], -1)
        client.epoch, client.owned = 0, {}
    elif what == "time":
        world.advance(how[0])
        for client in story.clients.values():  # one whose session is over reads no more
            group = world.coordinator.groups.get("g")
            if not isinstance(group, ConsumerGroup) or client.name not in group.members:
                client.epoch, client.owned = 0, {}
    elif what == "image":
        story.offset += 1
        topics = {"t": how[0], **({"u": 2} if how[1] else {})}
        world.change_image(image_of(story.offset, **topics))
    elif what == "restart":
        world.restart()
    elif what == "work":
        for name in list(world.works):
            world.finish_work(name)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_whatever_happens(history: list[tuple[Any, ...]]) -> None:
    story = Story()
    for what, *how in history:
        take(story, what, *how)
        story.check()
    world = story.world
    names = [name for name, client in story.clients.items() if client.epoch]
    for round_ in range(6):
        world.advance(1_000 if round_ else 11_000)
        for name in names:
            story.beat(name, False, False)
            take(story, "work")
    story.check()
    group = world.coordinator.groups.get("g")
    if isinstance(group, ConsumerGroup) and group.members.keys() <= set(names):
        assert group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=30), st.data())
def test_a_partly_compacted_log_is_the_same_group(
    history: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Compaction takes from the front what comes again later; tombstones may be kept or gone."""
    story = Story()
    for what, *how in history:
        take(story, what, *how)
    world = story.world
    end = data.draw(st.integers(0, len(world.log)))
    head = world.log[:end]
    last = {key: index for index, (key, _) in enumerate(head)}
    kept = [entry for index, entry in enumerate(head) if last[entry[0]] == index]
    # Read twice where a segment was compacted while it was read (KAFKA-19862).
    again = data.draw(st.integers(0, end))
    for log in (kept + world.log[end:], world.log[:again] + kept + world.log[end:]):
        loaded = replay(log, world.config, image=lambda: world.image)
        assert loaded.durable_view() == world.coordinator.durable_view()
        assert sums_of(loaded) == sums_of(world.coordinator)


@pytest.mark.parametrize("keeps_others", [True, False])
def test_a_tombstone_of_a_member_that_compaction_took_is_no_error(keeps_others: bool) -> None:
    """KAFKA-19862: of a member that has left, a log that is read beside the cleaner may have the
    tombstones alone."""
    world = ConsumerWorld()
    world.image = image_of(t=2)
    world.enter("a")
    world.enter("b")
    before = len(world.log)
    world.beat("b", -1)
    left = world.log[before:]
    assert any(value is None for _, value in left)
    gone = {key for key, value in left if value is None}
    log = [entry for entry in world.log[:before] if keeps_others and entry[0] not in gone] + left
    if keeps_others:
        assert replay(log, image=lambda: world.image).durable_view() == (
            world.coordinator.durable_view()
        )
    else:
        replay([*log, *[(key, None) for key in gone]])


def test_pieces_alone_make_a_group_and_their_tombstones_end_it() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1)
    world.enter("a", regex="t", instance="i")
    world.finish_work(("consumer", "g", "regex"))
    log = list(world.log)
    for key, value in log:
        record = GroupCodec().decode(key, value)
        assert record is not None
        coordinator = replay([])
        coordinator.apply(record, 0)
        assert coordinator.groups["g"].group_type == "consumer"
        coordinator.apply((record[0], None), 1)
        assert "g" not in coordinator.groups
        assert coordinator._shard.memory.used_bytes == 0
        coordinator.apply((record[0], None), 2)
        assert "g" not in coordinator.groups
    backwards = replay(list(reversed(compact(log))))
    assert backwards.durable_view() == world.coordinator.durable_view()
    assert sums_of(backwards) == sums_of(world.coordinator)


@pytest.mark.parametrize("is_old", [True, False])
def test_the_record_of_brokers_before_4_1_is_ignored_and_deleted(is_old: bool) -> None:
    world = ConsumerWorld()
    world.enter("a")
    if is_old:
        record = (
            ConsumerGroupPartitionMetadataKey(group_id="g"),
            ConsumerGroupPartitionMetadataValue(),
        )
        world.log.append(GroupCodec.encode(record))
        world.commit()
        world.restart()
    start = len(world.log)
    tombstones = [(encode_key(key), None) for key in world.group.record_keys()]
    assert not replay([*world.log, *tombstones]).groups, "it ends with the group, too"
    world.beat("a", -1)
    assert (-4 in world.kinds(start)) is is_old
    world.restart()
    assert world.group.has_partition_metadata is False


@pytest.mark.parametrize("epochs", [None, [], [7], [7, 7, 7]])
def test_partitions_without_assignment_epochs_have_the_members(epochs: list[int] | None) -> None:
    """Kafka 4.2 and before wrote none."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    held = TopicPartitions(topic_id=id_of("t"), partitions=[0, 1], assignment_epochs=epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5, previous_member_epoch=4, assigned_partitions=[held]
    )
    coordinator = replay([GroupCodec.encode((key, value))])
    group = coordinator.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.progress_of("a").assigned == {id_of("t"): {0: 5, 1: 5}}
