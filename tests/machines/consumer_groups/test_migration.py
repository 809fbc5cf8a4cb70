"""Groups migrate between the classic and the consumer protocol while they have members."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.consumer.group import ConsumerGroup, ConsumerGroupState
from fencepost.machines.group.consumer.member import MemberState
from fencepost.machines.group.consumer.timers import rebalance_timer
from fencepost.wire.errors import ErrorCode

from .classic_client import ClassicClient, assignment, partitions_in, subscription
from .world import ConsumerWorld, id_of, image_of, owned_by

NONE, AGAIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
MISSING, UNKNOWN = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
ALL = {("t", index) for index in range(4)}


def classic_group(world: ConsumerWorld, count: int = 2, **said: Any) -> list[ClassicClient]:
    """A stable classic group of "t", whose members own all partitions."""
    clients = [ClassicClient(world, **said) for _ in range(count)]
    for _ in range(6):
        for client in clients:
            client.step()
        world.advance(0)
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    assert world.coordinator.groups["g"].state is GroupState.STABLE
    assert set().union(*[client.owned for client in clients]) == ALL
    return clients


def settle(world: ConsumerWorld, clients: list[ClassicClient], rounds: int = 12) -> None:
    for _ in range(rounds):
        for client in clients:
            client.step()


# Upgrade


def test_the_first_consumer_makes_a_classic_group_a_consumer_group() -> None:
    world = ConsumerWorld()
    a, b = classic_group(world)
    world.offset_commit(7, member_id=a.member_id, generation=1)
    start = len(world.log)
    answer = world.enter("x")
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert owned_by(answer) == {}, "its partitions are with the others"
    assert world.kinds(start) == [-2, 5, 5, 3, 7, 7, 6, 8, 8, 5, 3, 7, 7, 6, 8]
    group = world.group
    assert (group.epoch, group.target_epoch, group.classic_count) == (2, 2, 2)
    progress = group.progress_of(a.member_id)
    assert (progress.epoch, progress.previous_epoch, progress.state) == (1, 1, MemberState.STABLE)
    assert progress.assigned == {id_of("t"): {0: 1, 2: 1}}
    assert group.members[a.member_id].classic.session_timeout_ms == 10_000
    assert world.offset_fetch()["t", 0][0] == 7
    described = world.describe_consumer("g")[0]
    assert [one.member_type for one in described.members] == [0, 0, 1]
    # The classic members are told to join again, give up partitions, and the new one has them.
    for client in (a, b):
        assert world.heartbeat(client.member_id, 1) is AGAIN
    settle(world, [a, b])
    assert owned_by(world.beat("x", 2, owned={})) is not None
    assert a.owned | b.owned | {("t", i) for i in owned_by(world.enter("x"))["t"]} == ALL
    assert group.state is ConsumerGroupState.STABLE
    world.restart()
    assert world.group.classic_count == 2
    assert world.heartbeat(a.member_id, a.generation) is NONE


def test_members_that_wait_join_again() -> None:
    world = ConsumerWorld()
    a, _ = classic_group(world)
    c = world.new_id()
    waiting = world.join(c)
    assert world.heartbeat(a.member_id, 1) is AGAIN, "a rebalance is under way"
    assert world.enter("x").error_code == NONE
    assert world.error(waiting) is AGAIN
    assert isinstance(world.group, ConsumerGroup)
    assert world.group.member_count == 4


def bad_group(world: ConsumerWorld, what: str) -> None:
    """A stable classic group of two members, with something in the way."""
    ids = [world.new_id(), world.new_id()]
    data = b"\0" if what == "subscription" else subscription(["t"])
    kind = "other" if what == "type" else "consumer"
    tokens = [world.join(one, protocols={"range": data}, protocol_type=kind) for one in ids]
    world.advance(0)
    generation = world.replies[tokens[0]].generation_id
    given = {one: assignment([("t", number)]) for number, one in enumerate(ids)}
    if what == "assignment":
        given[ids[1]] = b"\0"
    elif what == "user data":
        given[ids[1]] = assignment([("t", 1)], b"x")
    elif what == "twice":
        given[ids[1]] = given[ids[0]]
    for one in (ids[1], ids[0]):
        world.sync(one, generation, given if one == ids[0] else None, protocol_type=kind)
    assert world.coordinator.groups["g"].state is GroupState.STABLE


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("type", "does not use the consumer embedded protocol"),
        ("subscription", "the embedded consumer protocol is malformed"),
        ("assignment", "the embedded consumer protocol is malformed"),
        ("user data", "an unsupported custom assignor is in use"),
        ("twice", "gave a partition to two members"),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_classic(what: str, says: str) -> None:
    world = ConsumerWorld()
    bad_group(world, what)
    start = len(world.log)
    answer = world.enter("x")
    assert (answer.error_code, world.kinds(start)) == (MISSING, [])
    assert says in answer.error_message
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy_says_which_ways_are_open(policy: str, up: bool, down: bool) -> None:
    world = ConsumerWorld(migration_policy=policy)
    classic_group(world)
    answer = world.enter("x")
    assert (answer.error_code == NONE) is up
    if not up:
        assert "online upgrade is disabled" in answer.error_message
    world = ConsumerWorld(migration_policy=policy)
    world.enter("x")
    a = ClassicClient(world)
    token = world.join()
    if policy == "disabled":
        assert world.error(token) is INCONSISTENT
        return
    assert world.error(token) is ErrorCode.MEMBER_ID_REQUIRED
    a.settle(4)
    world.beat("x", -1)
    assert isinstance(world.coordinator.groups["g"], ClassicGroup) is down


def test_a_classic_group_larger_than_consumer_groups_may_be_stays_classic() -> None:
    world = ConsumerWorld(consumer_max_size=1)
    classic_group(world)
    answer = world.enter("x")
    assert answer.error_code == MISSING
    assert "exceeds the consumer group maximum size" in answer.error_message
    world = ConsumerWorld(consumer_max_size=2)
    classic_group(world)
    assert world.enter("x").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(world.coordinator.groups["g"], ClassicGroup), "nothing has changed"


def test_a_group_in_its_first_rebalance_is_upgraded() -> None:
    world = ConsumerWorld(initial_rebalance_delay_ms=3_000)
    a = ClassicClient(world)
    a.settle(3)
    assert world.coordinator.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert world.enter("x").member_epoch == 1
    a.settle()
    world.advance(1_000)
    assert world.beat("x", 1).error_code == NONE
    a.settle()
    assert a.owned == {("t", 0), ("t", 1)} or len(a.owned) == 2


def test_what_a_cooperative_member_owns_is_its_own_whatever_it_was_assigned() -> None:
    """The group went from one rebalance into the next: assignments are gone, owners are not."""
    world = ConsumerWorld()
    a = ClassicClient(world, is_cooperative=True)
    for _ in range(6):
        a.step()
        world.advance(0)
    assert a.owned == ALL
    b = world.new_id()
    world.join(b)
    a.step()  # it joins again, and the second generation begins
    world.join(world.new_id())  # and the next rebalance, before anything is assigned
    assert world.coordinator.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert not world.coordinator.groups["g"].members[a.member_id].assignment
    assert owned_by(world.enter("x")) == {}, "all is with a"
    progress = world.group.progress_of(a.member_id)
    assert set(progress.assigned[id_of("t")]) == {0, 1, 2, 3}


@pytest.mark.parametrize("newest", [0, 1])
def test_of_two_that_say_they_own_a_partition_the_later_generation_counts(newest: int) -> None:
    """A member that was away for a generation says what it owned before."""
    world = ConsumerWorld()
    ids = sorted(world.new_id() for _ in range(2))
    for place, member_id in enumerate(ids):
        said = subscription(("t",), ALL, generation=7 if place == newest else 6)
        world.join(member_id, protocols={"range": said})
    assert owned_by(world.enter("x")) == {}
    assert [len(list(world.group.progress_of(one).held)) for one in ids] == [
        4 if place == newest else 0 for place in range(2)
    ]


def test_a_refused_upgrade_changes_nothing() -> None:
    world = ConsumerWorld()
    a, _ = classic_group(world)
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    token = world.ask_beat("x", topics=["t"], owned={}, rebalance_ms=1)
    assert world.refused[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    world.refusing = None
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    assert world.heartbeat(a.member_id, 1) is NONE


# Classic members of a consumer group


def mixed(**said: Any) -> tuple[ConsumerWorld, ClassicClient]:
    """A group of "x", of the consumer protocol, and a classic member; both have two partitions."""
    world = ConsumerWorld()
    world.enter("x")
    a = ClassicClient(world, **said)
    a.settle(4)
    world.advance(1_000)
    a.settle(2)
    world.beat("x", 2)
    world.beat("x", 2, owned={"t": [0, 1]})
    a.settle()
    assert a.owned == {("t", 2), ("t", 3)}
    assert world.group.state is ConsumerGroupState.STABLE
    return world, a


def test_a_classic_member_joins_a_consumer_group() -> None:
    world, a = mixed()
    answer = world.replies[world.join(a.member_id)]
    assert (answer.error_code, answer.generation_id) == (NONE, a.generation)
    assert (answer.leader, answer.members, answer.skip_assignment) == ("", [], False)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    token = world.sync(a.member_id, a.generation)
    assert partitions_in(bytes(world.replies[token].assignment)) == a.owned
    assert ("consumer", "g", "sync", a.member_id) not in world.timers


def test_its_assignment_is_in_the_version_of_its_metadata() -> None:
    world, a = mixed()
    for version, said in ((0, 0), (1, 1), (3, 3), (9, 3)):
        data = version.to_bytes(2, "big") + subscription(["t"], version=min(version, 3))[2:]
        world.join(a.member_id, protocols={"range": data})
        answer = world.replies[world.sync(a.member_id, a.generation)]
        assert int.from_bytes(bytes(answer.assignment)[:2], "big") == said


def test_partitions_that_do_not_exist_are_not_owned() -> None:
    world, a = mixed(is_cooperative=True)
    said = [("t", -1), ("t", 4), ("t", 2**31 - 1), ("nope", 0), *a.owned]
    token = world.join(a.member_id, protocols={"range": subscription(["t"], said)})
    assert world.error(token) is NONE
    assert world.group.state is ConsumerGroupState.STABLE


JOINS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({}, ErrorCode.MEMBER_ID_REQUIRED),
    ({"version": 3}, NONE),
    ({"member_id": "new"}, NONE),
    ({"instance": "i"}, NONE),
    ({"instance": "i", "member_id": "new"}, UNKNOWN),
    ({"instance": "known", "member_id": "new"}, ErrorCode.FENCED_INSTANCE_ID),
    ({"instance": "known"}, NONE),
    ({"protocol_type": "connect"}, INCONSISTENT),
    ({"protocols": {"roundrobin": subscription(["t"])}}, INCONSISTENT),
    ({"protocols": {}}, INCONSISTENT),
    ({"member_id": "new", "protocols": {"range": b"\0"}}, INCONSISTENT),
    ({"member_id": "new", "protocols": {"range": b"\xff\xff"}}, INCONSISTENT),
    ({"member_id": "new", "protocols": {"range": b"\0\1\0\0\0\1"}}, INCONSISTENT),
    ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ({"protocols": {"range": b"\0" * 2_000_000}, "member_id": "new"}, ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("said", "error"), JOINS)
def test_who_may_join(said: dict[str, Any], error: ErrorCode) -> None:
    world, _ = mixed()
    world.enter("s", instance="known")
    before = world.group.durable_view()
    assert world.error(world.join(**said)) is error
    if error is not NONE:
        assert world.group.durable_view() == before


def test_a_full_group_takes_no_classic_member_but_those_it_knows() -> None:
    world, a = mixed()
    world.config = world.coordinator._shard.config = type(world.config)(
        consumer_max_size=2, initial_rebalance_delay_ms=0
    )
    assert world.error(world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.error(world.join("new")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.error(world.join(a.member_id)) is NONE


SYNCS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({}, NONE),
    ({"member_id": "stranger"}, UNKNOWN),
    ({"member_id": "x"}, UNKNOWN),
    ({"instance": "i"}, UNKNOWN),
    ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
    ({"protocol": "other"}, INCONSISTENT),
    ({"protocol_type": "other"}, INCONSISTENT),
    ({"protocol": None}, INCONSISTENT),
    ({"protocol": None, "protocol_type": None, "version": 4}, NONE),
]


@pytest.mark.parametrize(("said", "error"), SYNCS)
def test_who_may_sync(said: dict[str, Any], error: ErrorCode) -> None:
    world, a = mixed()
    said = {"member_id": a.member_id, "generation": a.generation, **said}
    assert world.error(world.sync(**said)) is error


def test_a_heartbeat_tells_when_there_is_a_next_step() -> None:
    world, a = mixed(is_cooperative=True)
    beat = lambda: world.heartbeat(a.member_id, a.generation)  # noqa: E731
    assert beat() is NONE
    assert world.heartbeat(a.member_id, a.generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("x", 3) is UNKNOWN, "it speaks the consumer protocol"
    assert world.heartbeat("stranger", 3) is UNKNOWN
    # A newer target.
    world.enter("y")
    world.enter("z")
    assert beat() is NONE, "it is assigned within a second"
    world.advance(1_000)
    world.beat("y", 3)
    assert beat() is AGAIN
    assert world.error(world.sync(a.member_id, a.generation)) is AGAIN
    # It has to give something up: it may sync, and is told to join again.
    token = world.join(a.member_id, protocols={"range": subscription(["t"], a.owned)})
    assert world.replies[token].generation_id == a.generation, "the epoch stays"
    progress = world.group.progress_of(a.member_id)
    assert progress.state is MemberState.UNREVOKED_PARTITIONS
    assert ("consumer", "g", "rebalance", a.member_id) not in world.timers
    assert world.error(world.sync(a.member_id, a.generation)) is NONE
    assert beat() is AGAIN
    # It has given it up.
    kept = {("t", index) for index in progress.assigned[id_of("t")]}
    token = world.join(a.member_id, protocols={"range": subscription(["t"], kept)})
    assert world.replies[token].generation_id == world.group.target_epoch
    a.generation = world.group.target_epoch
    assert beat() is NONE


def test_one_that_waits_is_told_when_all_it_waits_for_is_free() -> None:
    world = ConsumerWorld()
    world.enter("x")
    a = ClassicClient(world)
    a.settle(3)
    world.advance(1_000)
    world.beat("x", 2)
    a.settle(3)
    assert world.group.progress_of(a.member_id).state is MemberState.UNRELEASED_PARTITIONS
    assert world.heartbeat(a.member_id, a.generation) is NONE, "x has yet to give them up"
    world.beat("x", 2, owned={"t": [0, 1]})
    assert world.heartbeat(a.member_id, a.generation) is AGAIN


def test_one_that_unsubscribes_is_to_say_that_it_gave_up() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1, u=1)
    world.enter("x", topics=("v",))
    a = ClassicClient(world, ("t", "u"), is_cooperative=True)
    a.settle(4)
    world.advance(1_000)
    world.beat("x", 2)
    a.settle()
    assert a.owned == {("t", 0), ("u", 0)}
    token = world.join(a.member_id, protocols={"range": subscription(["t"], a.owned)})
    assert world.replies[token].generation_id == a.generation == world.group.target_epoch
    token = world.sync(a.member_id, a.generation)
    assert partitions_in(bytes(world.replies[token].assignment)) == {("t", 0)}
    assert world.heartbeat(a.member_id, a.generation) is AGAIN
    world.join(a.member_id, protocols={"range": subscription(["t"], [("t", 0)])})
    assert world.heartbeat(a.member_id, a.generation) is NONE


@pytest.mark.parametrize("what", ["session", "join", "sync"])
def test_timers_remove_a_classic_member(what: str) -> None:
    world, a = mixed(session_ms=10_000, rebalance_ms=20_000)
    name = ("consumer", "g", what, a.member_id)
    if what == "session":
        assert world.timers[name] == world.now + 10_000
    elif what == "sync":
        world.join(a.member_id, rebalance_ms=20_000)
        assert world.timers[name] == world.now + 20_000
    else:
        world.enter("y")
        world.advance(1_000)
        world.beat("y", 3)
        for _ in range(3):  # the first time counts
            assert world.heartbeat(a.member_id, a.generation) is AGAIN
            deadline = world.timers[name]
            world.advance(1_000)
        assert world.now - 3_000 + 20_000 == deadline
    for _ in range(25):
        if a.member_id not in world.group.members:
            break
        if what != "session":
            world.heartbeat(a.member_id, a.generation)
        world.beat("x", world.group.progress_of("x").epoch)
        world.advance(1_000)
    assert a.member_id not in world.group.members
    assert not [timer for timer in world.timers if a.member_id in timer]
    assert not world.group.rejoining


def test_a_group_that_becomes_classic_leaves_no_timer_of_a_consumer_group() -> None:
    world, a = mixed()
    world.enter("y")
    world.advance(1_000)
    world.beat("y", 3)
    assert world.heartbeat(a.member_id, a.generation) is AGAIN
    world.join(a.member_id, protocols={"range": subscription(("u",), a.owned)})
    assert {timer[2] for timer in world.timers if a.member_id in timer} >= {"session", "sync"}
    for member in "xy":
        world.beat(member, -1)
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    assert not [timer for timer in world.timers if timer[0] == "consumer"]


def test_a_classic_member_has_no_rebalance_timer_however_it_was_set() -> None:
    """It was set while the member spoke the consumer protocol; joining and syncing have others."""
    world, a = mixed()
    world.join(a.member_id, protocols={"range": subscription(("u",), a.owned)})
    assert world.group.progress_of(a.member_id).state is MemberState.UNREVOKED_PARTITIONS
    timer = rebalance_timer("g", a.member_id)
    assert timer not in world.timers
    world.carry_out(lambda: world.coordinator.decide_timer(timer, world.wall))
    assert a.member_id in world.group.members


def test_a_classic_member_that_leaves_takes_its_timers_along() -> None:
    world, a = mixed()
    world.enter("y")
    world.advance(1_000)
    world.beat("y", 3)
    assert world.heartbeat(a.member_id, a.generation) is AGAIN
    names = {timer[2] for timer in world.timers if a.member_id in timer}
    assert names >= {"session", "join"}
    assert world.leave(a.member_id) == [NONE]
    assert not [timer for timer in world.timers if a.member_id in timer]


def test_a_loaded_group_watches_its_classic_members() -> None:
    world, a = mixed(session_ms=8_000)
    world.restart()
    assert world.timers["consumer", "g", "session", a.member_id] == world.now + 8_000
    assert world.timers["consumer", "g", "session", "x"] == world.now + 45_000


def test_offsets_are_committed_in_the_generation() -> None:
    world, a = mixed()
    said = {"member_id": a.member_id, "topic_id": id_of("t"), "partition": 2}
    assert world.commit_error(generation=a.generation, **said) is NONE
    assert world.commit_error(generation=9, **said) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_error(generation=1, **said) is ErrorCode.ILLEGAL_GENERATION


# Leaving, and the downgrade


def test_the_last_consumer_leaves_and_the_group_is_classic_again() -> None:
    world, a = mixed()
    world.offset_commit(7, member_id=a.member_id, generation=a.generation, topic_id=id_of("t"))
    start = len(world.log)
    world.beat("x", -1)
    assert world.kinds(start) == [-8, -8, -7, -7, -6, -5, -5, -3, 2]
    group = world.coordinator.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, 3)
    assert not [timer for timer in world.timers if timer[0] == "consumer"]
    assert ("classic", "g", "join") in world.timers
    assert world.heartbeat(a.member_id, a.generation) is AGAIN
    a.settle()
    assert a.owned == ALL
    assert world.coordinator.groups["g"].generation == 4
    assert world.offset_fetch()["t", 0][0] == 7
    world.restart()
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    assert world.heartbeat(a.member_id, a.generation) is NONE


@pytest.mark.parametrize("how", ["session", "administrator", "rebalance"])
def test_the_last_consumer_is_removed(how: str) -> None:
    world, a = mixed()
    if how == "administrator":
        assert world.leave("x") == [NONE]
    elif how == "session":
        for _ in range(46):
            world.advance(1_000)
            a.step()
    else:
        b = ClassicClient(world)
        b.settle(3)
        for _ in range(70):
            world.advance(1_000)
            settle(world, [a, b], 1)
            group = world.coordinator.groups["g"]
            if isinstance(group, ClassicGroup):
                break
            world.beat("x", world.group.progress_of("x").epoch)
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    if how != "rebalance":
        a.settle()
        assert a.owned == ALL


def test_a_group_that_is_left_by_all_is_no_classic_one() -> None:
    world, a = mixed()
    assert world.leave("x", a.member_id) == [NONE, NONE]
    assert world.group.state is ConsumerGroupState.EMPTY
    assert world.group.epoch == world.group.target_epoch


def test_one_with_more_members_than_classic_groups_may_have_stays() -> None:
    world, a = mixed()
    config = type(world.config)(max_size=0, initial_rebalance_delay_ms=0)
    world.config = world.coordinator._shard.config = config
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)
    a.settle()
    world.advance(1_000)
    a.settle()
    assert a.owned == ALL, "and its classic member is served"


def test_one_that_is_too_large_for_a_record_stays() -> None:
    world, a = mixed()
    world.coordinator.max_batch_bytes = 100
    world.beat("x", -1)
    assert isinstance(world.group, ConsumerGroup)
    assert a.member_id in world.group.members


LEAVES: list[tuple[tuple[str, str | None], ErrorCode]] = [
    (("x", None), NONE),
    (("stranger", None), UNKNOWN),
    (("", "i"), NONE),
    (("s", "i"), NONE),
    (("x", "i"), ErrorCode.FENCED_INSTANCE_ID),
    (("s", "j"), UNKNOWN),
]


@pytest.mark.parametrize(("who", "error"), LEAVES)
def test_who_may_leave(who: tuple[str, str | None], error: ErrorCode) -> None:
    world, _ = mixed()
    world.enter("s", instance="i")
    world.enter("y")
    before = world.group.member_count
    assert world.leave(who) == [error]
    assert world.group.member_count == before - (error is NONE)


def test_several_leave_at_once() -> None:
    world, a = mixed()
    world.enter("y", regex="t")
    world.enter("z", topics=("u",))
    epoch = world.group.epoch
    assert world.leave("y", "z", "y", "stranger") == [NONE, NONE, NONE, UNKNOWN]
    assert world.group.members.keys() == {"x", a.member_id}
    assert world.group.epoch == epoch + 1
    assert not world.group.regex_users and set(world.group.topic_users) == {"t"}


def replace_the_last(*, topics: tuple[str, ...] = ("t",), is_settled: bool = True) -> ConsumerWorld:
    """The static consumer "s" comes back as a classic member, in a group with a classic one."""
    world = ConsumerWorld()
    world.image = image_of(t=4, u=1)
    world.enter("s", instance="i")
    a = ClassicClient(world, is_cooperative=True)
    a.settle(4)
    world.advance(1_000)
    a.settle(3)
    world.beat("s", 2, instance="i")
    if is_settled:
        world.beat("s", 2, owned={"t": [0, 1]}, instance="i")
        a.settle()
    world.beat("s", -2, instance="i")
    s = ClassicClient(world, topics, instance="i")
    s.send_join()
    s.step()
    answer = next(one for one in reversed(world.replies.values()) if hasattr(one, "leader"))
    assert (answer.error_code, answer.leader, answer.members) == (NONE, "", [])
    settle(world, [s, a])
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    assert s.owned | a.owned == ALL | ({("u", 0)} if "u" in topics else set())
    assert not s.owned & a.owned
    return world


def test_a_replaced_static_member_needs_no_rebalance() -> None:
    world = replace_the_last()
    assert world.coordinator.groups["g"].generation == 3
    world.restart()
    assert world.coordinator.groups["g"].state is GroupState.STABLE


@pytest.mark.parametrize("how", [{"topics": ("t", "u")}, {"is_settled": False}])
def test_it_does_if_it_reads_something_else_or_not_all_is_settled(how: dict[str, Any]) -> None:
    world = replace_the_last(**how)
    assert world.coordinator.groups["g"].generation > 3


def test_a_static_classic_member_is_replaced_by_a_consumer() -> None:
    world = ConsumerWorld()
    (a,) = classic_group(world, 1, instance="i")
    answer = world.enter("x", instance="i")
    assert answer.member_epoch == 2 or answer.member_epoch == 1
    assert owned_by(answer) == {"t": [0, 1, 2, 3]}, "it takes over what the classic one had"
    assert world.group.members.keys() == {"x"}
    error = world.heartbeat(a.member_id, a.generation, instance="i")
    assert error is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_may_change_its_protocol_under_its_id() -> None:
    world, a = mixed()
    answer = world.enter(a.member_id)
    assert answer.error_code == NONE
    assert world.group.classic_count == 0 and not world.group.classic_protocols
    assert not [timer for timer in world.timers if timer[2:3] == ("sync",)]
