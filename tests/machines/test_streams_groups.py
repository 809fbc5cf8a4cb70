"""Streams groups over time: members that leave and come back, timers, offsets, loading, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.streams import target
from fencepost.machines.group.streams.group import StreamsState
from fencepost.machines.group.streams.records import group_record
from fencepost.machines.group.streams.timers import (
    assign_work,
    initial_delay_timer,
    rebalance_timer,
    session_timer,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import decode_key, decode_value, encode_key, encode_value
from fencepost.wire.records.group_streams import (
    StreamsGroupCurrentMemberAssignmentKey as CurrentKey,
    StreamsGroupMemberMetadataKey as MemberKey,
    StreamsGroupMetadataKey as GroupKey,
    StreamsGroupTargetAssignmentMemberKey as TargetKey,
    StreamsGroupTargetAssignmentMetadataKey as TargetEpochKey,
    StreamsGroupTopologyKey as TopologyKey,
)

from .group_world import compact, replay
from .streams_groups.world import Client, StreamsWorld, said, settle, subtopology, topology

NONE = ErrorCode.NONE
STATEFUL = topology(subtopology("0", ["in"], changelogs=["log"]))


def keys_of(world: StreamsWorld, since: int) -> list[tuple[type, bool]]:
    """The kinds of records from that place of the log on, and whether they are tombstones."""
    return [(type(decode_key(key)), value is None) for key, value in world.log[since:]]


# Records


def test_a_new_group_writes_its_records_in_the_order_of_kafka() -> None:
    world = StreamsWorld()
    world.beat()
    kinds = [MemberKey, TopologyKey, GroupKey, TargetKey, TargetEpochKey, CurrentKey]
    assert keys_of(world, 0) == [(kind, False) for kind in kinds]


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    world = StreamsWorld()
    world.beat()
    size = len(world.log)
    world.beat(epoch=2)
    assert len(world.log) == size


def test_a_deleted_group_is_gone_with_all_its_records() -> None:
    world = StreamsWorld()
    world.beat()
    world.beat(epoch=-1)
    delete = world.coordinator.decide_delete_groups
    answer = world.replies[world.ask(lambda token: delete(["g"], token))]
    assert [one.error_code for one in answer] == [NONE]
    assert not world.coordinator.groups and compact(world.log) == []
    assert world.memory.used_bytes == 0


def test_a_group_with_members_is_not_deleted() -> None:
    world = StreamsWorld()
    world.beat()
    delete = world.coordinator.decide_delete_groups
    answer = world.replies[world.ask(lambda token: delete(["g"], token))]
    assert [one.error_code for one in answer] == [ErrorCode.NON_EMPTY_GROUP]


def test_the_group_is_listed_and_is_no_classic_one() -> None:
    world = StreamsWorld()
    world.beat()
    ask = world.coordinator.decide_list_groups
    (listed,) = world.replies[world.ask(lambda token: ask((), ("Streams",), token))]
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "streams",
        "streams",
        "Stable",
    )
    for name, found in {"stable": 1, "NotReady": 0, "not_ready": 0, "Empty": 0}.items():
        token = world.ask(lambda token, name=name: ask((name,), (), token))  # type: ignore[misc]
        assert len(world.replies[token]) == found
    describe = world.coordinator.decide_describe_groups
    (answer,) = world.replies[world.ask(lambda token: describe(["g"], 6, token))]
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "Group g is not a classic group."


@pytest.mark.parametrize("state", ["NotReady", "not_ready"])
def test_a_group_that_is_not_ready_is_listed_by_either_name(state: str) -> None:
    world = StreamsWorld()
    world.beat(sent=STATEFUL)
    ask = world.coordinator.decide_list_groups
    (listed,) = world.replies[world.ask(lambda token: ask((state,), (), token))]
    assert listed.group_state == "NotReady"


def test_a_description_has_the_topology_and_the_members() -> None:
    world = StreamsWorld()
    world.change_topics(log=4, **{"in": 4})
    world.beat(
        sent=STATEFUL, rack="r", process="p", endpoint=("h", 1), tags=[("z", "1"), ("a", "2")],
        offsets={("0", 1): 5}, end_offsets={("0", 1): 9},
    )  # fmt: skip
    group = world.describe()
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", 2)
    assert (group.assignment_epoch, group.assignor_name) == (2, "sticky")
    assert group.topology is not None and group.topology.subtopologies is not None
    (one,) = group.topology.subtopologies
    assert (one.source_topics, one.state_changelog_topics[0].partitions) == (["in"], 4)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.rack_id) == ("a", 2, "r")
    assert (member.process_id, member.client_id, member.client_host) == (
        "p",
        "client",
        "/127.0.0.1",
    )
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("a", "2"), ("z", "1")]
    assert [(t.subtopology_id, t.partition, t.offset) for t in member.task_offsets] == [("0", 1, 5)]
    assert [t.offset for t in member.task_end_offsets] == [9]
    assert said(member.assignment.active_tasks) == said(member.target_assignment.active_tasks)


def test_only_streams_groups_are_described() -> None:
    world = StreamsWorld()
    world.form(1)
    assert (world.describe().error_code, world.describe().error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )
    assert world.describe("h").error_message == "Group h not found."


# Leaving


def test_a_member_that_leaves_gives_its_tasks_to_the_others() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a"), Client(world, "b")
    settle(first, second)
    size = len(world.log)
    answer = world.beat("a", -1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", -1)
    assert keys_of(world, size) == [
        (CurrentKey, True),
        (TargetKey, True),
        (MemberKey, True),
        (GroupKey, False),
    ]
    settle(second)
    assert second.active == {"0": [0, 1, 2, 3]}
    assert session_timer("g", "a") not in world.timers


def test_the_last_member_leaves_equal_epochs_behind() -> None:
    world = StreamsWorld()
    world.beat()
    world.beat(epoch=-1)
    assert world.group.state is StreamsState.EMPTY
    assert (world.group.epoch, world.group.target_epoch) == (3, 3)
    assert world.group.target_timestamp_ms == 0
    assert not world.timers.keys() - {("expiry",)}


def test_static_members_leave_for_a_while_and_take_their_tasks_back() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a", instance="i"), Client(world, "b")
    first.beat()
    second.beat()
    for _ in range(3):
        answer = world.beat(
            "a", first.epoch, instance="i", active=first.active, standby={}, warmup={}
        )
        first.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            first.owned[0] = said(answer.active_tasks) or {}
        second.beat()
    before, epoch = first.active, world.group.epoch
    left = world.beat("a", -2, instance="i")
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "a", -2)
    assert world.group.state is StreamsState.RECONCILING
    second.beat()
    assert second.active == {"0": [2, 3]}
    back = world.beat("c", instance="i", process="p-a")
    assert (back.error_code, said(back.active_tasks)) == (0, before)
    assert world.group.epoch == epoch and set(world.group.metadata) == {"b", "c"}
    assert world.group.static_members == {"i": "c"}
    assert world.group.state is StreamsState.STABLE
    world.restart()
    assert world.group.state is StreamsState.STABLE


def test_a_static_member_that_left_may_commit_in_whatever_epoch_it_had() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    left = world.group.current["a"]
    assert (left.member_epoch, set(left.assigned.active.values())) == (-2, {0})


def test_a_static_member_that_comes_back_is_told_of_its_own_endpoint_once() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i", endpoint=("old", 1))
    world.beat("a", -2, instance="i")
    told = world.beat("b", instance="i", process="p-a", endpoint=("new", 2), endpoint_epoch=-1)
    assert told.partitions_by_user_endpoint is not None
    assert [one.user_endpoint.port for one in told.partitions_by_user_endpoint] == [2]


def test_a_static_member_in_another_process_calls_for_a_new_target() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    size = len(world.log)
    answer = world.beat("c", instance="i", process="elsewhere")
    written = [decode_key(key) for key, _ in world.log[size:]]
    targets = [key.member_id for key in written if isinstance(key, TargetKey)]
    assert targets == ["a", "c"], "its target is taken over, and is the same afterwards"
    assert (answer.member_epoch, world.group.epoch) == (3, 3)
    assert said(answer.active_tasks) == {"0": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("change", "raises"),
    [
        ({}, False),
        ({"rack": "r"}, True),
        ({"process": "q"}, True),
        ({"tags": [("zone", "z")]}, True),
        ({"endpoint": ("h", 1)}, False),
        ({"rebalance_ms": 7}, False),
        ({"host": "/10.0.0.1"}, False),
    ],
)
def test_what_a_static_member_changes_calls_for_a_new_target_where_tasks_depend_on_it(
    change: dict[str, Any], raises: bool
) -> None:
    world = StreamsWorld()
    world.beat(instance="i")
    world.beat(epoch=2, instance="i", **change)
    assert world.group.epoch == (3 if raises else 2)


STATIC: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "the instance id is in use": (
        {"member": "c"},
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member c with instance id i cannot join the group because the instance id is owned"
        " by a member.",
    ),
    "another member has the instance id": (
        {"member": "c", "epoch": 2},
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member c with instance id i was fenced by member a.",
    ),
    "another member leaves": (
        {"member": "c", "epoch": -1},
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member c with instance id i was fenced by member a.",
    ),
    "the same member joins again": (
        {"member": "a"},
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member a with instance id i cannot join the group because the instance id is owned"
        " by a member.",
    ),
    "an epoch that is too high": (
        {"epoch": 9},
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The streams group member has a greater member epoch (9) than the one known by the group"
        " coordinator (2). The member must abandon all its partitions and rejoin.",
    ),
}


@pytest.mark.parametrize(("given", "error", "words"), STATIC.values(), ids=STATIC)
def test_an_instance_id_belongs_to_one_member(
    given: dict[str, Any], error: ErrorCode, words: str
) -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    assert world.refusal(**given, instance="i") == (error, words)


def test_a_static_member_may_leave_altogether() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    world.beat("a", -1, instance="i")
    assert world.group.is_empty and not world.group.static_members


def test_a_static_member_that_left_is_removed_when_its_session_ends() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    world.advance(44_999)
    assert not world.group.is_empty
    world.advance(1)
    assert world.group.is_empty


def test_a_member_that_gets_an_instance_id_keeps_no_other() -> None:
    world = StreamsWorld()
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    world.beat("a", instance="i")
    assert world.group.static_members == {"i": "a"}
    world.beat("b")
    world.beat("b", instance="k")
    world.beat("b", instance="m")
    assert world.group.static_members == {"i": "a", "m": "b"}


# Timers


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a"), Client(world, "b")
    settle(first, second)
    world.advance(30_000)
    second.beat()
    world.advance(15_000)
    assert set(world.group.metadata) == {"b"}
    assert "group g: the session of a expired" in world.notes


def test_a_member_that_keeps_tasks_is_removed_after_its_rebalance_timeout() -> None:
    world = StreamsWorld()
    first = Client(world, "a", rebalance_ms=5_000)
    first.beat()
    second = Client(world, "b")
    second.beat()
    world.beat("a", first.epoch, active=first.active, standby={}, warmup={})
    assert rebalance_timer("g", "a") in world.timers
    world.advance(4_999)
    assert "a" in world.group.metadata
    world.advance(1)
    assert set(world.group.metadata) == {"b"}
    settle(second)
    assert second.active == {"0": [0, 1, 2, 3]}


def test_a_revocation_in_time_cancels_the_timer() -> None:
    world = StreamsWorld()
    first = Client(world, "a", rebalance_ms=5_000)
    first.beat()
    second = Client(world, "b")
    settle(second, first, second)
    assert rebalance_timer("g", "a") not in world.timers
    world.advance(6_000)
    assert set(world.group.metadata) == {"a", "b"}


def test_a_static_member_that_left_while_it_revoked_has_its_session_alone() -> None:
    world = StreamsWorld()
    first = Client(world, "a", instance="i", rebalance_ms=5_000)
    first.beat()
    Client(world, "b").beat()
    world.beat("a", 2, instance="i", active=first.active, standby={}, warmup={})
    assert rebalance_timer("g", "a") in world.timers
    world.beat("a", -2, instance="i")
    assert rebalance_timer("g", "a") not in world.timers
    world.restart()
    assert rebalance_timer("g", "a") not in world.timers
    assert session_timer("g", "a") in world.timers


def test_after_loading_members_have_their_timeouts_again() -> None:
    world = StreamsWorld(delay_ms=3_000)
    first = Client(world, "a", rebalance_ms=5_000)
    first.beat()
    world.advance(3_000)
    first.beat()
    Client(world, "b").beat()
    world.beat("a", first.epoch, active=first.active, standby={}, warmup={})
    world.restart()
    expected = {session_timer("g", "a"), session_timer("g", "b"), rebalance_timer("g", "a")}
    assert world.timers.keys() - {("expiry",)} == expected
    world.advance(45_000)
    assert world.group.is_empty


def test_a_group_that_is_loaded_while_it_waits_gets_its_target_from_the_next_heartbeat() -> None:
    world = StreamsWorld(delay_ms=3_000)
    world.beat()
    assert initial_delay_timer("g") in world.timers
    world.restart()
    assert initial_delay_timer("g") not in world.timers
    assert said(world.beat(epoch=1).active_tasks) == {"0": [0, 1, 2, 3]}


# Offsets


COMMITS = [
    # (member, epoch, partition, version, error); member "a" is in epoch 3, has task 0 since epoch 2
    # and has task 1 since epoch 2
    ("a", 3, 0, 9, NONE),
    ("a", 3, 3, 9, NONE),
    ("a", 4, 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("a", 2, 0, 9, NONE),
    ("a", 1, 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("a", 2, 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("b", 2, 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ("a", 3, 0, 8, ErrorCode.UNSUPPORTED_VERSION),
    ("c", 3, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ("", -1, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member", "epoch", "partition", "version", "error"), COMMITS)
def test_members_commit_in_their_epoch_or_for_tasks_that_they_had(
    member: str, epoch: int, partition: int, version: int, error: ErrorCode
) -> None:
    world = StreamsWorld()
    clients = Client(world, "a"), Client(world, "b")
    settle(*clients)
    assert [one.active for one in clients] == [{"0": [0, 1]}, {"0": [2, 3]}]
    assert clients[0].epoch == 3
    given = world.commit_error(
        topic="in", partition=partition, member_id=member, generation=epoch, version=version
    )
    assert given is error


def test_a_task_that_is_being_revoked_may_be_committed_for() -> None:
    world = StreamsWorld()
    first = Client(world, "a")
    first.beat()
    Client(world, "b").beat()
    world.beat("a", 2, active=first.active, standby={}, warmup={})
    assert world.group.current["a"].pending.active
    for partition in range(4):
        assert (
            world.commit_error(topic="in", partition=partition, member_id="a", generation=2) is NONE
        )


def test_a_task_that_is_being_revoked_may_be_committed_for_since_it_was_given() -> None:
    world = StreamsWorld()
    settle(Client(world, "a"), Client(world, "b"))
    for member in "cd":
        world.beat(member)
    world.beat("a", 3, active={"0": [0, 1]}, standby={}, warmup={})
    current = world.group.current["a"]
    assert current.member_epoch == 3 and set(current.pending.active.values()) == {2}
    for partition, error in ((0, NONE), (1, NONE), (2, ErrorCode.STALE_MEMBER_EPOCH)):
        given = world.commit_error(topic="in", partition=partition, member_id="a", generation=2)
        assert given is error


def test_a_topic_that_the_topology_does_not_read_is_stale_in_an_older_epoch() -> None:
    world = StreamsWorld()
    clients = Client(world, "a"), Client(world, "b")
    settle(*clients)
    error = world.commit_error(topic="other", member_id="a", generation=2)
    assert error is ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_takes_commits_without_members() -> None:
    world = StreamsWorld()
    world.beat()
    world.beat(epoch=-1)
    assert world.commit_error(topic="in", offset=4) is NONE
    assert world.commit_error(topic="in", member_id="a", generation=2) is not NONE


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, None),
        ("a", 2, None),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_fetch_offsets_in_their_epoch(
    member: str | None, epoch: int, error: ErrorCode | None
) -> None:
    world = StreamsWorld()
    world.beat()
    assert world.group.refuse_fetch(member, epoch) is error


def test_a_group_reads_the_sources_of_its_topology_while_it_has_members() -> None:
    world = StreamsWorld()
    world.change_topics(log=4, **{"in": 4})
    world.beat(sent=STATEFUL)
    group = world.group
    assert group.is_subscribed("in") and not group.is_subscribed("log")
    world.beat(epoch=-1)
    assert not group.is_subscribed("in") and group.may_expire


# Loading


def history() -> StreamsWorld:
    """A group that has seen members come and go, standbys, static members and a revocation."""
    world = StreamsWorld()
    world.change_topics(log=4, **{"in": 4})
    world.set(num_standby_replicas=1)
    clients = [Client(world, one, sent=STATEFUL) for one in "abc"]
    settle(*clients)
    world.beat("c", -1)
    settle(*clients[:2])
    world.beat("s", instance="i", sent=STATEFUL)
    world.beat("s", -2, instance="i")
    world.beat("t", instance="i", sent=STATEFUL)
    clients[0].beat()
    return world


def view(groups: Any) -> Any:
    return groups.durable_view()[0]


def test_a_group_is_the_same_when_it_is_loaded_from_the_whole_or_the_compacted_log() -> None:
    world = history()
    for log in (world.log, compact(world.log)):
        loaded = replay(list(log), world.config, GroupMemory())
        assert view(loaded) == view(world.coordinator)
        group: Any = loaded.groups["g"]
        assert group.active_holders == world.group.active_holders
        assert group.standby_holders == world.group.standby_holders
        assert group.static_members == world.group.static_members
        assert group.counted_bytes == world.group.counted_bytes


@pytest.mark.parametrize("rotate", range(1, 12))
def test_a_compacted_log_may_begin_anywhere(rotate: int) -> None:
    """Records come in another order when segments are cleaned at different times."""
    world = history()
    log = compact(world.log)
    turned = log[rotate % len(log) :] + log[: rotate % len(log)]
    loaded = replay(turned, world.config, GroupMemory())
    assert view(loaded) == view(world.coordinator)
    group: Any = loaded.groups["g"]
    assert group.active_holders == world.group.active_holders
    assert group.counted_bytes == world.group.counted_bytes


@pytest.mark.parametrize("missing", [GroupKey, TopologyKey, TargetEpochKey, MemberKey, CurrentKey])
def test_pieces_of_a_group_are_loaded_described_and_deleted(missing: type) -> None:
    world = history()
    log = [(k, v) for k, v in compact(world.log) if not isinstance(decode_key(k), missing)]
    world.log, world.committed = log, len(log)
    world.restart()
    assert world.describe().error_code == NONE
    group = world.group
    tombstones = [(encode_key(key), None) for key in group.record_keys()]
    loaded = replay([*log, *tombstones], world.config, memory := GroupMemory())
    assert not loaded.groups and memory.used_bytes == 0


def test_tombstones_of_what_is_not_there_change_nothing() -> None:
    world = history()
    tombstones = [(encode_key(key), None) for key in world.group.record_keys()]
    loaded = replay(list(tombstones), world.config, memory := GroupMemory())
    assert not loaded.groups and memory.used_bytes == 0


def test_the_records_of_a_group_of_a_later_type_replace_those_of_an_earlier_one() -> None:
    world = StreamsWorld()
    world.form(1)
    classic = list(world.log)
    other = StreamsWorld()
    other.beat()
    loaded = replay([*classic, *other.log], world.config, GroupMemory())
    assert loaded.groups["g"].group_type == "streams"
    assert view(loaded) == view(other.coordinator)


def test_epochs_that_are_missing_or_too_few_are_that_of_the_member() -> None:
    world = StreamsWorld()
    world.beat()
    entries = []
    for key, value in world.log:
        decoded = decode_key(key)
        if isinstance(decoded, CurrentKey) and value is not None:
            current: Any = decode_value(decoded, value)
            current.active_tasks[0].assignment_epochs = [1]
            value = encode_value(current, 0)
        entries.append((key, value))
    group: Any = replay(entries, world.config, GroupMemory()).groups["g"]
    assert set(group.current["a"].assigned.active.values()) == {2}


def test_a_topology_that_was_not_valid_when_it_was_written_is_validated_again() -> None:
    world = StreamsWorld()
    world.beat()
    for place, (key, value) in enumerate(world.log):
        decoded = decode_key(key)
        if isinstance(decoded, GroupKey) and value is not None:
            group: Any = decode_value(decoded, value)
            group.validated_topology_epoch = -1
            world.log[place] = key, encode_value(group, 0)
    world.restart()
    assert world.group.state is StreamsState.NOT_READY
    assert world.beat(epoch=2).member_epoch == 3
    assert world.group.state is StreamsState.STABLE


def test_what_a_later_version_calls_the_state_is_unknown_and_ends_with_a_new_beginning() -> None:
    world = StreamsWorld()
    client = Client(world, "a")
    client.beat()
    for place, (key, value) in enumerate(world.log):
        decoded = decode_key(key)
        if isinstance(decoded, CurrentKey) and value is not None:
            current: Any = decode_value(decoded, value)
            current.state = 9
            world.log[place] = key, encode_value(current, 0)
    world.restart()
    error, words = world.refusal("a", 2)
    assert error is ErrorCode.FENCED_MEMBER_EPOCH and words is not None and "unknown state" in words
    assert world.beat("a", 2, active={}, standby={}, warmup={}).member_epoch == 2


# Sizes


def test_memory_is_counted_and_returned() -> None:
    world = history()
    assert world.memory.used_bytes == world.group.counted_bytes
    for member in sorted(world.group.metadata):
        instance = world.group.metadata[member].instance_id
        world.beat(member, -1, instance=instance)
    delete = world.coordinator.decide_delete_groups
    world.ask(lambda token: delete(["g"], token))
    assert world.memory.used_bytes == 0


def test_what_members_report_is_counted_and_returned() -> None:
    world = StreamsWorld()
    world.beat()
    before = world.memory.used_bytes
    world.beat(epoch=2, offsets={("0", 0): 1, ("0", 1): 2}, end_offsets={("0", 0): 3})
    assert world.memory.used_bytes == world.group.counted_bytes > before
    world.beat(epoch=2, offsets={}, end_offsets={})
    assert world.memory.used_bytes == before
    world.beat(epoch=2, offsets={("0", 0): 1})
    world.beat(epoch=-1)
    assert world.memory.used_bytes == world.group.counted_bytes < before
    assert not world.group.offsets


def test_what_a_member_reported_is_returned_when_it_leaves() -> None:
    sizes = []
    for offsets in ({}, {("0", 0): 1, ("0", 1): 2}):
        world = StreamsWorld()
        world.beat(offsets=offsets, end_offsets=offsets)
        world.beat(epoch=-1)
        assert world.memory.used_bytes == world.group.counted_bytes
        sizes.append(world.memory.used_bytes)
    assert sizes[0] == sizes[1]


def test_what_members_say_is_bounded_by_the_size_of_a_group() -> None:
    world = StreamsWorld(max_bytes=40_000)
    world.beat()
    tags = [(f"tag{number}", "x" * 100) for number in range(200)]
    error, _ = world.refusal("b", tags=tags)
    assert error is ErrorCode.GROUP_MAX_SIZE_REACHED
    offsets = {("0", number): 1 for number in range(400)}
    assert world.refusal("a", 2, offsets=offsets)[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("a", 2).error_code == NONE


def test_a_member_may_say_less_in_a_group_that_has_more_than_it_may() -> None:
    """A later limit is lower than what the group has."""
    world = StreamsWorld()
    world.beat(tags=[("zone", "z" * 1_000)])
    world.config = GroupConfig(max_bytes=1_000)
    world.restart()
    assert world.refusal(epoch=2, tags=[]) == (NONE, None)
    error, _ = world.refusal(epoch=world.group.epoch, tags=[("zone", "z" * 1_000)])
    assert error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_plugins_made_of_descriptions_is_kept() -> None:
    """KIP-1331: by a broker of Kafka that has one, and for the next."""
    world = StreamsWorld()
    world.beat()
    world.log.append(GroupCodec.encode(group_record("g", 3, 0, 0, {}, (4, 5))))
    world.commit()
    world.restart()
    for epoch in (2, -1):
        world.beat(epoch=epoch)
        assert world.group.descriptions == (4, 5) and world.group.epoch > 3


def test_a_topology_counts_too() -> None:
    world = StreamsWorld(max_bytes=40_000)
    large = topology(subtopology("0", [f"in{number}" for number in range(200)]))
    assert world.refusal(sent=large)[0] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_groups_of_a_node_share_its_memory() -> None:
    world = StreamsWorld(memory=GroupMemory(4_000))
    world.beat()
    error, _ = world.refusal("b", group="h")
    assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "h" not in world.coordinator.groups


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> StreamsWorld:
    """A group of which every target is computed elsewhere."""
    monkeypatch.setattr(target, "INLINE_MAX", 0)
    return StreamsWorld()


def test_the_target_of_a_large_group_is_computed_elsewhere(large: StreamsWorld) -> None:
    first = large.beat("a")
    assert first.status is not None
    assert [one.status_detail for one in first.status] == [target.BEING_COMPUTED]
    large.beat("b")
    large.finish_work(assign_work("g"))
    assert (large.group.epoch, large.group.target_epoch) == (3, 2)
    assert said(large.beat("a", 1).active_tasks) == {"0": [0, 1, 2, 3]}
    large.finish_work(assign_work("g"))
    clients = [Client(large, one) for one in "ab"]
    for one, epoch in zip(clients, (2, 1), strict=True):
        one.epoch = epoch
    clients[0].owned[0] = {"0": [0, 1, 2, 3]}
    settle(*clients)
    assert [one.active for one in clients] == [{"0": [0, 2]}, {"0": [1, 3]}]


def test_the_target_of_members_that_are_gone_is_not_written(large: StreamsWorld) -> None:
    large.beat("a")
    large.beat("b")
    large.finish_work(assign_work("g"))
    large.beat("a", 1)
    large.beat("b", -1)
    large.finish_work(assign_work("g"))
    assert set(large.group.targets) == {"a"}


@pytest.mark.parametrize("end", ["emptied", "deleted"])
def test_a_result_that_comes_too_late_is_ignored(large: StreamsWorld, end: str) -> None:
    large.beat("a")
    work = large.works[assign_work("g")]
    large.beat("a", -1)
    if end == "deleted":
        delete = large.coordinator.decide_delete_groups
        large.ask(lambda token: delete(["g"], token))
        assert not large.works
        large.works[assign_work("g")] = work
    size = len(large.log)
    large.finish_work(assign_work("g"))
    assert len(large.log) == size


def test_a_failed_computation_is_noted_and_begun_again(large: StreamsWorld) -> None:
    large.beat("a")
    large.finish_work(assign_work("g"), RuntimeError("no threads"))
    assert large.notes == ["group g: no assignment: no threads"]
    large.beat("a", 1)
    large.finish_work(assign_work("g"))
    assert said(large.beat("a", 1).active_tasks) == {"0": [0, 1, 2, 3]}


def test_a_refused_target_is_computed_again(large: StreamsWorld) -> None:
    large.beat("a")
    large.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    large.finish_work(assign_work("g"))
    large.refusing = None
    large.works.clear()
    large.beat("a", 1)
    assert assign_work("g") in large.works


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_group_of_some_hundred_members_settles(standbys: int) -> None:
    world = StreamsWorld()
    world.change_topics(log=60, **{"in": 60})
    world.set(num_standby_replicas=standbys)
    clients = [
        Client(world, f"m{number:03}", f"p{number % 10}", sent=STATEFUL) for number in range(40)
    ]
    for one in clients:
        one.beat()
    settle(*clients)
    active = sorted(task for one in clients for task in one.active.get("0", []))
    assert active == list(range(60))
    copies = sorted(task for one in clients for task in one.standby.get("0", []))
    assert copies == sorted([*range(60)] * standbys)


@pytest.mark.parametrize("refused", range(6))
def test_a_write_that_is_refused_leaves_all_as_it_was(refused: int) -> None:
    """The world compares the state before and after each refused decision."""
    world = history()
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    asks: list[dict[str, Any]] = [
        {"member": "n", "sent": STATEFUL},
        {"member": "a", "epoch": -1},
        {"member": "t", "epoch": -2, "instance": "i"},
        {"member": "n", "sent": STATEFUL, "group": "h"},
        {"member": "a", "epoch": world.group.current["a"].member_epoch, "rack": "z"},
        {"member": "n", "sent": STATEFUL, "group": "h", "offsets": {("0", 0): 1}},
    ]
    token = world.ask_beat(**asks[refused])
    assert world.refused[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "h" not in world.coordinator.groups
