"""Share groups: the rules of heartbeats in order, initialization, targets, administration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.memory import group_bytes
from fencepost.machines.group.share.assignor import ShareMemberSpec, assign_simple
from fencepost.machines.group.share.group import ShareGroup
from fencepost.machines.group.share.member import partitions_from
from fencepost.machines.group.share.state import (
    DeleteStates,
    InitializeStates,
    NamedPartitions,
    StatePartitions,
)
from fencepost.machines.image import ClusterImage
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group_share import TopicPartitions
from fencepost.wire.types import Uuid

from .share_group_world import ShareWorld, altered, assigned, batches_of, check, topic_id

T, U = topic_id("t"), topic_id("u")


def group_of(world: ShareWorld, group: str = "g") -> ShareGroup:
    found = world.coordinator.groups[group]
    assert isinstance(found, ShareGroup)
    return found


# -- heartbeats ------------------------------------------------------------------------------------


def test_a_new_group_begins_in_epoch_two_and_has_its_state_initialized() -> None:
    world = ShareWorld()
    answer = world.beat("m", 0, "t")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5_000)
    assert assigned(answer) == {}, "nothing has a state yet"
    assert [kind for kind, _ in batches_of(world, 0)] == [
        "ShareGroupMemberMetadataKey",
        "ShareGroupMetadataKey",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupStatePartitionMetadataKey",
    ]
    assert world.sends == [InitializeStates("g", 2, {T: {0: -1, 1: -1}})]
    world.answer_sends()
    answer = world.beat("m", 2)
    assert answer.member_epoch == 2 and answer.assignment is None, "a target a second at most"
    world.advance(1_000)
    answer = world.beat("m", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, {"t": [0, 1]})
    assert world.beat("m", 3).assignment is None
    assert assigned(world.beat("m", 3, "t")) == {"t": [0, 1]}, "it has named its topics"
    check(world)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        pytest.param(0, ErrorCode.NONE, id="joins-again"),
        pytest.param(3, ErrorCode.NONE, id="its-own"),
        pytest.param(2, ErrorCode.NONE, id="the-one-before"),
        pytest.param(1, ErrorCode.FENCED_MEMBER_EPOCH, id="older"),
        pytest.param(4, ErrorCode.FENCED_MEMBER_EPOCH, id="newer"),
    ],
)
def test_a_member_names_its_epoch_or_the_one_before(epoch: int, error: ErrorCode) -> None:
    world = ShareWorld()
    assert world.joined() == 3
    answer = world.beat("m", epoch, *(("t",) if epoch == 0 else ()))
    assert answer.error_code == error
    assert answer.member_epoch == (0 if error else 3)


@pytest.mark.parametrize(
    ("member", "epoch", "error", "words"),
    [
        pytest.param("n", 5, 25, "Member n is not a member of group g.", id="unknown-member"),
        pytest.param("n", -1, 25, "Member n is not a member of group g.", id="unknown-leaves"),
        pytest.param("n", 0, 81, "maximum capacity of 1 members", id="full"),
        pytest.param("m", 0, 0, None, id="full-but-known"),
    ],
)
def test_members_are_known_and_not_too_many(
    member: str, epoch: int, error: int, words: str | None
) -> None:
    world = ShareWorld(share_max_size=1)
    world.joined()
    before = len(world.log)
    if error == 25 and epoch > 0:
        world = ShareWorld(share_max_size=2)
        world.joined()
        before = len(world.log)
    answer = world.beat(member, epoch, *(("t",) if epoch == 0 else ()))
    assert answer.error_code == error
    assert (words or "") in (answer.error_message or "")
    assert len(world.log) == before


def test_a_full_group_is_told_before_an_unknown_member() -> None:
    world = ShareWorld(share_max_size=1)
    world.joined()
    assert world.beat("n", 5).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_other_groups_are_not_found() -> None:
    world = ShareWorld()
    world.form(group="classic")
    for epoch in (0, 3, -1):
        answer = world.beat("m", epoch, "t", group="classic")
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == "Group classic is not a share group."
    assert world.beat("m", 3, group="x").error_message == "Share group x not found."
    assert world.beat("m", -1, group="x").error_message == "Group x not found."
    assert world.describe("classic").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_wall_clock_that_was_set_back_does_not_hold_up_the_target() -> None:
    world = ShareWorld()
    world.joined()
    world.wall_ahead -= 3_600_000
    answer = world.beat("n", 0, "t")
    assert assigned(answer) == {"t": [1]}
    check(world)


def test_the_last_member_that_leaves_takes_both_epochs_along() -> None:
    world = ShareWorld()
    epoch = world.joined()
    before = len(world.log)
    assert world.beat("m", -1).member_epoch == -1
    assert batches_of(world, before) == [
        ("ShareGroupCurrentMemberAssignmentKey", False),
        ("ShareGroupTargetAssignmentMemberKey", False),
        ("ShareGroupMemberMetadataKey", False),
        ("ShareGroupMetadataKey", True),
        ("ShareGroupTargetAssignmentMetadataKey", True),
    ]
    group = group_of(world)
    assert (group.epoch, group.target_epoch, group.target_timestamp_ms) == (epoch + 1, epoch + 1, 0)
    assert group.is_empty and world.describe().group_state == "Empty"
    answer = world.beat("n", 0, "t")
    assert assigned(answer) == {"t": [0, 1]}, "the next member waits for no interval"
    check(world)


def test_a_member_that_is_silent_is_removed() -> None:
    world = ShareWorld()
    world.joined("m")
    world.advance(30_000)
    world.beat("n", 0, "t")
    world.advance(20_000)
    assert list(group_of(world).members) == ["n"]
    assert world.beat("m", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.restart()
    world.advance(40_000)
    assert list(group_of(world).members) == ["n"], "its session begins again with the load"
    world.advance(10_000)
    assert group_of(world).is_empty
    check(world)


def test_members_with_other_topics_are_assigned_by_topic() -> None:
    world = ShareWorld()
    world.create("u", 1)
    world.joined("a", "t", "u")
    epoch = world.beat("b", 0, "u").member_epoch
    world.advance(1_000)
    answer = world.beat("b", epoch)
    assert assigned(answer) == {"u": [0]}
    assert assigned(world.beat("a", 0, "t", "u")) == {"t": [0, 1], "u": [0]}
    answer = world.beat("a", answer.member_epoch, "t")
    assert assigned(answer) == {"t": [0, 1]}, "what it does not subscribe to is gone at once"
    check(world)


@pytest.mark.parametrize("how", ["says less", "leaves"])
def test_a_topic_that_loses_its_last_reader_raises_the_epoch_once(how: str) -> None:
    world = ShareWorld()
    world.create("u", 1)
    world.joined("a", "t")
    world.joined("b", "t", "u")
    for member in "ab":
        world.beat(member, group_of(world).progress_of(member).epoch)
    epoch = group_of(world).epoch
    if how == "leaves":
        world.beat("b", -1)
    else:
        world.beat("b", group_of(world).progress_of("b").epoch, "t")
    for _ in range(3):
        world.advance(1_000)
        world.beat("a", group_of(world).progress_of("a").epoch)
        assert group_of(world).epoch == epoch + 1


# -- initialization --------------------------------------------------------------------------------


def test_partitions_that_are_added_while_a_topic_is_initialized_begin_at_their_start() -> None:
    world = ShareWorld()
    epoch = world.beat("m", 0, "t").member_epoch
    world.sends.clear()
    world.create("t", 4, first=2)
    world.beat("m", epoch)
    (message,) = world.sends
    assert message.starts == {T: {2: 0, 3: 0}}


def test_partitions_that_are_added_to_a_known_topic_begin_at_their_start() -> None:
    world = ShareWorld()
    epoch = world.joined()
    world.create("t", 4, first=2)
    world.beat("m", epoch)
    (message,) = world.answer_sends()
    assert message.starts == {T: {2: 0, 3: 0}}
    world.advance(1_000)
    answer = world.beat("m", epoch)
    assert assigned(answer) == {"t": [0, 1, 2, 3]}


def test_what_share_coordinators_refuse_is_begun_again_with_the_next_heartbeat() -> None:
    world = ShareWorld()
    world.beat("m", 0, "t")
    world.answer_sends(succeeded=False)
    assert group_of(world).states == StatePartitions()
    world.beat("m", 2)
    (again,) = world.answer_sends()
    assert again == InitializeStates("g", 2, {T: {0: -1, 1: -1}})
    assert group_of(world).states.initialized == {T: NamedPartitions("t", frozenset((0, 1)))}


def test_share_coordinators_that_do_not_answer_are_asked_again_after_a_while() -> None:
    world = ShareWorld()
    world.beat("m", 0, "t")
    world.sends.clear()
    world.advance(29_000)
    world.beat("m", 2)
    assert world.sends == []
    world.advance(1_000)
    for _ in range(2):
        world.beat("m", 2)
        assert len(world.sends) == 1, "once, and then they have their time again"
    world.restart()
    world.sends.clear()
    world.advance(29_000)
    world.beat("m", 2)
    assert world.sends == [], "a new coordinator gives them their time, too"
    world.advance(1_000)
    world.beat("m", 2)
    assert len(world.sends) == 1


def test_an_answer_that_comes_late_begins_nothing_that_is_deleted() -> None:
    world = ShareWorld()
    world.beat("m", 0, "t")
    world.beat("m", -1)
    reply = world.forget()
    assert reply.message == DeleteStates("g", {T: NamedPartitions("t", frozenset((0, 1)))})
    world.answer_sends()
    states = group_of(world).states
    assert states == StatePartitions(deleting={T: "t"})


def test_a_refused_write_leaves_no_trace_and_sends_nothing() -> None:
    world = ShareWorld()
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.beat("m", 0, "t") is None
    assert world.sends == [] and "g" not in world.coordinator.groups
    world.refusing = None
    assert world.beat("m", 0, "t").error_code == 0
    check(world)


def test_a_deleted_topic_leaves_all_lists_and_targets() -> None:
    world = ShareWorld()
    world.create("u", 1)
    epoch = world.joined("m", "t", "u")
    world.delete_topic("t")
    assert set(group_of(world).states.initialized) == {U}
    world.advance(1_000)
    answer = world.beat("m", epoch)
    assert assigned(answer) == {"u": [0]}
    check(world)


def test_a_topic_that_is_deleted_while_the_coordinator_moves_is_forgotten_with_the_load() -> None:
    world = ShareWorld()
    world.joined()
    world.image = ClusterImage()
    world.restart()
    assert group_of(world).states == StatePartitions()


def test_deleted_topics_of_many_groups_need_not_be_forgotten_in_one_batch() -> None:
    world = ShareWorld()
    world.joined()
    assert world.coordinator.decide_loaded(world.wall).records == []
    world.image = ClusterImage()
    decision = world.coordinator.decide_loaded(world.wall)
    assert len(decision.records) == 1 and not decision.is_atomic


def test_partitions_of_one_topic_may_be_in_two_rows_of_a_record() -> None:
    rows = [
        TopicPartitions(topic_id=T, partitions=[0]),
        TopicPartitions(topic_id=U, partitions=[]),
        TopicPartitions(topic_id=T, partitions=[2]),
    ]
    assert partitions_from(rows) == {T: frozenset((0, 2))}


def test_a_member_may_say_less_in_a_group_that_has_more_than_it_may() -> None:
    """A later limit is lower than what the group has."""
    world = ShareWorld()
    epoch = world.joined("m", "t", "nowhere")
    world.config = GroupConfig(max_bytes=group_bytes("g"))
    world.restart()
    assert world.beat("m", epoch, "t").error_code == 0
    more = world.beat("m", group_of(world).progress_of("m").epoch, "t", "nowhere", "else")
    assert more.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_topic_that_is_deleted_is_not_described() -> None:
    world = ShareWorld()
    world.joined()
    ((told,),) = [one.assignment.topic_partitions for one in world.describe().members]
    assert (told.topic_name, told.partitions) == ("t", [0, 1])
    world.delete_topic("t")
    assert [one.assignment.topic_partitions for one in world.describe().members] == [[]]


def test_a_topic_that_is_created_again_begins_from_the_start() -> None:
    world = ShareWorld()
    epoch = world.joined()
    world.delete_topic("t")
    world.create("t", 1)
    world.advance(1_000)
    world.beat("m", epoch)
    (message,) = world.answer_sends()
    assert message.starts == {T: {0: -1}}


# -- administration --------------------------------------------------------------------------------


def test_offsets_of_a_group_with_members_stay() -> None:
    world = ShareWorld()
    world.joined()
    assert world.alter(p0=3).response.error_code == ErrorCode.NON_EMPTY_GROUP
    assert world.delete_offsets("t").response.error_code == ErrorCode.NON_EMPTY_GROUP
    assert world.forget().error is ErrorCode.NON_EMPTY_GROUP
    assert world.delete_group() == ErrorCode.NON_EMPTY_GROUP


def test_altering_raises_the_epoch_of_the_state_each_time() -> None:
    world = ShareWorld()
    first, second = world.alter(p0=3, p1=4), world.alter(p0=1)
    assert first.message == InitializeStates("g", 2, {T: {0: 3, 1: 4}})
    assert second.message == InitializeStates("g", 3, {T: {0: 1}})
    group = group_of(world)
    assert (group.epoch, group.target_epoch, group.target_timestamp_ms) == (3, 3, 0)
    check(world)


def test_a_topic_may_be_named_twice_when_offsets_are_altered() -> None:
    world = ShareWorld()
    asked = [altered("t", p0=3), altered("t", p1=4)]
    token = world.ask(lambda token: world.shares.offsets.alter("g", asked, token))
    assert world.replies[token].message == InitializeStates("g", 2, {T: {0: 3, 1: 4}})
    assert group_of(world).states.initializing == {T: NamedPartitions("t", frozenset((0, 1)))}
    world.answer_sends()
    check(world)


def test_what_is_noted_of_states_is_counted_and_given_back() -> None:
    world = ShareWorld()
    world.beat("m", 0, "t")
    world.beat("m", -1)
    sizes = [world.memory.used_bytes]
    world.answer_sends()
    sizes.append(world.memory.used_bytes)
    message = world.delete_offsets("t").message
    sizes.append(world.memory.used_bytes)
    world.carry_out(lambda: world.shares.offsets.deleted(message, [T]))
    sizes.append(world.memory.used_bytes)
    assert sizes[0] == sizes[1] > sizes[2] > sizes[3] == group_bytes("g"), sizes
    check(world)


def test_altering_what_does_not_exist_changes_nothing() -> None:
    world = ShareWorld()
    for topic, partition in (("t", "p2"), ("nowhere", "p0")):
        reply = world.alter(topic=topic, **{partition: 1})
        ((row,),) = [one.partitions for one in reply.response.responses]
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert reply.message is None
    assert "g" not in world.coordinator.groups


def test_deleted_offsets_are_noted_until_share_coordinators_have_answered() -> None:
    world = ShareWorld()
    world.create("u", 1)
    world.joined("m", "t", "u")
    world.beat("m", -1)
    reply = world.delete_offsets("t", "nowhere")
    assert [one.topic_name for one in reply.response.responses] == ["nowhere"]
    assert reply.message == DeleteStates("g", {T: NamedPartitions("t", frozenset((0, 1)))})
    assert group_of(world).states.deleting == {T: "t"}
    again = world.delete_offsets("t")
    assert again.message == reply.message
    world.carry_out(lambda: world.shares.offsets.deleted(again.message, [T]))
    assert group_of(world).states == StatePartitions(
        initialized={U: NamedPartitions("u", frozenset((0,)))}
    )
    (row,) = world.delete_offsets("t").response.responses
    assert row.error_message == "There is no offset information to delete."
    assert world.delete_offsets("t", group="x").response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    check(world)


def test_deleting_a_group_forgets_its_state_first() -> None:
    world = ShareWorld()
    world.joined()
    world.beat("m", -1)
    reply = world.forget()
    assert reply.message == DeleteStates("g", {T: NamedPartitions("t", frozenset((0, 1)))})
    assert world.forget().message == reply.message, "asked again, it is deleted again"
    assert world.delete_group() == 0
    assert world.coordinator.groups == {}
    assert world.forget() == (ErrorCode.NONE, None)
    assert not [name for name in world.timers if name[0] == "share"]
    check(world)


# -- the assignor ----------------------------------------------------------------------------------

TOPICS = tuple(Uuid(bytes([one]) * 16) for one in range(1, 5))


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, ShareMemberSpec], dict[Uuid, frozenset[int]], bool]:
    counts = {one: draw(st.integers(1, 6)) for one in TOPICS}
    is_same = draw(st.booleans())
    some = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    common = draw(some)
    members = {}
    for number in range(draw(st.integers(1, 9))):
        had: dict[Uuid, frozenset[int]] = {}
        for topic, count in counts.items():
            indexes = draw(st.frozensets(st.integers(0, count), max_size=count))
            if indexes:
                had[topic] = indexes
        members[f"m{number}"] = ShareMemberSpec(common if is_same else draw(some), had)
    assignable = {topic: frozenset(range(count)) for topic, count in counts.items()}
    return members, assignable, is_same


@given(groups())
def test_the_assignor_spreads_partitions_over_those_that_subscribe(drawn: Any) -> None:
    members, assignable, is_same = drawn
    targets = assign_simple(members, assignable, is_homogeneous=is_same)
    assert targets.keys() == members.keys()
    deals = [set(next(iter(members.values())).topic_ids)] if is_same else [{one} for one in TOPICS]
    for topics in deals:
        users = [one for one, spec in sorted(members.items()) if topics <= spec.topic_ids]
        pairs = [(topic, index) for topic in topics for index in assignable[topic]]
        if not users:
            continue
        sharing = -(-len(users) // len(pairs))
        quotas = (sharing * len(pairs) // len(users), -(-sharing * len(pairs) // len(users)))
        for user in users:
            had = sum(len(targets[user].get(topic, ())) for topic in topics)
            assert 1 <= had <= quotas[1]
        for topic, index in pairs:
            shared = sum(index in targets[user].get(topic, ()) for user in users)
            assert 1 <= shared <= sharing
    for member, target in targets.items():
        assert target.keys() <= members[member].topic_ids
        assert all(indexes <= assignable[topic] for topic, indexes in target.items())


@given(groups())
def test_the_assignor_keeps_what_it_has_dealt(drawn: Any) -> None:
    members, assignable, is_same = drawn
    targets = assign_simple(members, assignable, is_homogeneous=is_same)
    again = {one: ShareMemberSpec(members[one].topic_ids, targets[one]) for one in members}
    assert assign_simple(again, assignable, is_homogeneous=is_same) == targets


def test_members_that_join_one_after_the_other_are_spread_evenly() -> None:
    partitions = {TOPICS[0]: frozenset(range(6))}
    members: dict[str, ShareMemberSpec] = {}
    for number in range(12):
        members[f"m{number:02}"] = ShareMemberSpec(frozenset(TOPICS[:1]), {})
        targets = assign_simple(members, partitions, is_homogeneous=True)
        members = {
            one: ShareMemberSpec(spec.topic_ids, targets[one]) for one, spec in members.items()
        }
    assert {len(spec.target[TOPICS[0]]) for spec in members.values()} == {1}


# -- histories -------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from("abc"), st.sampled_from(("t", "u", "tu"))),
        st.tuples(st.just("beat"), st.sampled_from("abc")),
        st.tuples(st.just("leave"), st.sampled_from("abc")),
        st.tuples(st.just("refused"), st.sampled_from("abc")),
        st.tuples(st.just("answer"), st.booleans()),
        st.tuples(st.just("time"), st.integers(100, 50_000)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("alter"), st.integers(-1, 9)),
        st.tuples(st.just("forget"), st.booleans()),
        st.tuples(st.just("delete-topic"), st.sampled_from("tu")),
        st.tuples(st.just("create"), st.sampled_from("tu"), st.integers(1, 4)),
    ),
    max_size=30,
)


def take(world: ShareWorld, epochs: dict[str, int], step: tuple[Any, ...]) -> None:
    what, *rest = step
    if what in ("join", "beat", "leave", "refused"):
        member = rest[0]
        topics = tuple(rest[1]) if what == "join" else ("t",) if what == "refused" else ()
        epoch = {"join": 0, "refused": 0, "leave": -1}.get(what, epochs.get(member, 1))
        world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS if what == "refused" else None
        answer = world.beat(member, epoch, *topics)
        world.refusing = None
        if answer is not None and not answer.error_code:
            epochs[member] = answer.member_epoch
    elif what == "answer":
        world.answer_sends(succeeded=rest[0])
    elif what == "time":
        world.advance(rest[0])
    elif what == "restart":
        world.restart()
    elif what == "alter":
        reply = world.alter(p0=rest[0])
        if reply.message is not None:
            world.sends.append(reply.message)
    elif what == "forget":
        reply = world.forget()
        if reply.message is not None and rest[0]:
            world.carry_out(lambda: world.shares.offsets.deleted(reply.message, [T, U]))
            world.delete_group()
    elif what == "delete-topic" and rest[0] in world.image.topics_by_name:
        world.delete_topic(rest[0])
    elif what == "create":
        topic = world.image.topics_by_name.get(rest[0])
        first = 0 if topic is None else len(topic.partitions)
        if first < rest[1]:
            world.create(rest[0], rest[1], first=first)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_whatever_happens_the_log_has_it_and_members_are_assigned_in_the_end(
    script: list[tuple[Any, ...]],
) -> None:
    world, epochs = ShareWorld(), dict[str, int]()
    for step in script:
        take(world, epochs, step)
        check(world)
    if "t" not in world.image.topics_by_name:
        world.create("t", 1)
    partitions = list(range(len(world.image.topics_by_name["t"].partitions)))
    world.advance(60_000)  # every session is over
    epoch = world.beat("z", 0, "t").member_epoch
    for _ in range(3):
        world.answer_sends()
        world.advance(31_000)
        epoch = world.beat("z", epoch).member_epoch
    assert assigned(world.beat("z", epoch, "t")) == {"t": partitions}
    check(world)
