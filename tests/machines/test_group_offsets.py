"""Committed offsets: who may commit, what is found, what is forgotten and when."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.classic.groups import ClassicGroups
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.shard import EXPIRY_TIMER
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from fencepost.wire.types import Uuid

from .group_world import GroupWorld, apply_entry, subscription

DAY_MS = 24 * 60 * 60_000
WEEK_MS = 7 * DAY_MS
HOUR_MS = 60 * 60_000
A, B = Uuid(bytes(15) + b"A"), Uuid(bytes(15) + b"B")


def delete(world: GroupWorld, *partitions: int, topic: str = "t", group: str = "g") -> Any:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions],
            )
        ],
    )
    token = world.ask(lambda token: world.coordinator.decide_offset_delete(request, token))
    return world.replies[token]


# Who may commit


def test_anybody_without_a_group_commits_and_makes_a_simple_group() -> None:
    world = GroupWorld()
    assert world.commit_error(offset=7, metadata="note") is ErrorCode.NONE
    assert world.offset_fetch(topics={"t": [0, 1]}) == {
        ("t", 0): (7, 3, "note", 0),
        ("t", 1): (-1, -1, "", 0),
    }
    assert (world.group.state, world.group.protocol_type) == (GroupState.EMPTY, None)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"generation": 1}, ErrorCode.NONE),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 1, "member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 1, "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": -1, "member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_group_with_members_accepts_theirs_only(said: dict[str, Any], error: ErrorCode) -> None:
    world = GroupWorld()
    (member_id,) = world.form(1)
    assert world.commit_error(**{"member_id": member_id, **said}) is error
    assert (world.offset_fetch() != {}) == (error is ErrorCode.NONE)


@pytest.mark.parametrize(
    ("version", "error"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_a_group_that_is_gone(version: int, error: ErrorCode) -> None:
    world = GroupWorld()
    assert world.commit_error(generation=3, member_id="m", version=version) is error
    assert not world.coordinator.groups


def test_members_commit_while_they_rejoin_but_not_before_they_know_their_assignment() -> None:
    world = GroupWorld()
    ids = world.form(2)
    world.join(ids[0])
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.commit_error(member_id=ids[1], generation=1) is ErrorCode.NONE
    world.join(ids[1])
    refused = world.commit_error(member_id=ids[1], generation=2)
    assert refused is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_zombie_cannot_move_what_its_successor_committed() -> None:
    world = GroupWorld()
    ids = world.form(1)
    world.commit_error(member_id=ids[0], generation=1, offset=10)
    world.advance(10_000)
    new = world.form(1)
    world.commit_error(member_id=new[0], generation=world.group.generation, offset=20)
    assert world.commit_error(member_id=ids[0], generation=1, offset=11) in (
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    assert world.offset_fetch()["t", 0][0] == 20


def test_an_empty_group_accepts_an_administrators_commit() -> None:
    world = GroupWorld()
    world.leave(*world.form(1))
    assert world.commit_error(offset=5) is ErrorCode.NONE


def test_a_commit_keeps_the_session() -> None:
    world = GroupWorld()
    (member_id,) = world.form(1)
    for _ in range(5):
        world.advance(9_000)
        assert world.commit_error(member_id=member_id, generation=1) is ErrorCode.NONE
    assert world.group.members


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 10, ErrorCode.NONE),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("é" * 10, ErrorCode.NONE),
        ("😀" * 5, ErrorCode.NONE),
        ("😀" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
)
def test_notes_are_limited_as_java_counts(metadata: str | None, error: ErrorCode) -> None:
    world = GroupWorld(offset_metadata_max_length=10)
    assert world.commit_error(metadata=metadata) is error


# What is found


def test_a_group_that_does_not_exist_has_no_offsets_and_that_is_no_error() -> None:
    world = GroupWorld()
    assert world.offset_fetch("nowhere", {"t": [0]}) == {("t", 0): (-1, -1, "", 0)}
    assert world.offset_fetch("nowhere") == {}


def test_all_offsets_of_a_group() -> None:
    world = GroupWorld()
    for topic, partition in (("t", 0), ("u", 3), ("t", 1)):
        world.offset_commit(partition + 10, topic=topic, partition=partition)
    assert {key: found[0] for key, found in world.offset_fetch().items()} == {
        ("t", 0): 10,
        ("t", 1): 11,
        ("u", 3): 13,
    }


def test_a_later_topic_of_the_same_name_does_not_inherit() -> None:
    world = GroupWorld()
    world.offset_commit(5, topic_id=A)
    assert world.offset_fetch(topics={"t": [0]}, topic_id=A)["t", 0][0] == 5
    assert world.offset_fetch(topics={"t": [0]}, topic_id=B)["t", 0][0] == -1
    assert world.offset_fetch(topics={"t": [0]})["t", 0][0] == 5


def test_what_is_not_committed_is_not_told() -> None:
    world = GroupWorld(committing=False)
    first = world.offset_commit(5)
    world.commit()
    second = world.offset_commit(6)
    world.last_token += 1
    reading = world.last_token
    wanted = OffsetFetchRequestGroup(group_id="g", topics=None)
    world.carry_out(lambda: world.coordinator.decide_offset_fetch(wanted, True, reading))
    assert first in world.replies and second not in world.replies and reading not in world.replies
    world.restart()
    world.committing = True
    assert world.offset_fetch()["t", 0][0] == 5


# Records of others


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)),
        (ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=3)),
        (ShareGroupMetadataKey(group_id="g"), None),
    ],
)
def test_groups_of_other_kinds_mean_nothing_here(key: Message, value: Message | None) -> None:
    data = None if value is None else b"\0\x63 of a version never heard of"
    assert GroupCodec((ClassicGroups,)).decode(encode_key(key), data) is None


@pytest.mark.parametrize("key", [OffsetCommitKey(), LegacyOffsetCommitKey(), GroupMetadataKey()])
def test_classic_groups_and_their_offsets_are_kept(key: Message) -> None:
    assert GroupCodec().decode(encode_key(key), None) == (key, None)


# Transactions, as Kafka may have written them


def transactional(world: GroupWorld, offset: int, producer_id: int = 9) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=world.wall)
    world.log.append(GroupCodec.encode((key, value)))
    world.coordinator.apply((key, value), len(world.log) - 1, producer_id)
    world.commit()


def test_an_open_transaction_makes_the_offset_unstable() -> None:
    world = GroupWorld()
    world.offset_commit(5)
    transactional(world, 6)
    unstable = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert world.offset_fetch(require_stable=True) == {("t", 0): unstable}
    assert world.offset_fetch(topics={"t": [0]}, require_stable=True) == {("t", 0): unstable}
    assert world.offset_fetch()["t", 0][0] == 5


@pytest.mark.parametrize(("committed", "offset"), [(True, 6), (False, 5)])
def test_its_end_decides(committed: bool, offset: int) -> None:
    world = GroupWorld()
    world.offset_commit(5)
    transactional(world, 6)
    world.coordinator.apply_transaction_end(9, committed=committed)
    assert world.offset_fetch(require_stable=True)["t", 0][0] == offset


def test_a_plain_commit_behind_a_transactional_one_stays() -> None:
    world = GroupWorld()
    transactional(world, 6)
    world.offset_commit(7)
    world.coordinator.apply_transaction_end(9, committed=True)
    assert world.offset_fetch()["t", 0][0] == 7


def state_of(world: GroupWorld, group: str = "g") -> str | None:
    """The state of a group; None if there is no such group."""
    found = world.coordinator.groups.get(group)
    return None if found is None else found.state.value


def test_an_aborted_transaction_leaves_an_empty_group() -> None:
    world = GroupWorld()
    world.restart()
    transactional(world, 6)
    assert state_of(world) == "Empty"
    world.coordinator.apply_transaction_end(9, committed=False)
    assert state_of(world) == "Empty"
    world.advance(HOUR_MS)
    assert state_of(world) is None, "offsets were looked through for expired ones"


def test_deleting_an_offset_forgets_the_undecided_one_too() -> None:
    world = GroupWorld()
    transactional(world, 6)
    delete(world, 0)
    world.coordinator.apply_transaction_end(9, committed=True)
    assert world.offset_fetch() == {}


# Deleting


def test_a_simple_group_stays_empty_when_its_last_offset_is_deleted() -> None:
    """As in Kafka, until offsets expire: it can be described, and deleted."""
    world = GroupWorld()
    world.restart()
    world.offset_commit(1, partition=0)
    world.offset_commit(1, partition=1)
    response = delete(world, 0, 5)
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [
        (0, 0),
        (5, 0),
    ]
    assert list(world.offset_fetch()) == [("t", 1)]
    delete(world, 1)
    assert state_of(world) == "Empty"
    assert delete(world, 1).error_code == 0
    world.advance(HOUR_MS)
    assert state_of(world) is None
    assert delete(world, 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    world = GroupWorld()
    (member_id,) = world.form(1, protocols={"range": subscription("t")})
    for topic in ("t", "old"):
        world.offset_commit(1, topic=topic, member_id=member_id, generation=1)
    response = delete(world, 0)
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(world, 0, topic="old").topics[0].partitions[0].error_code == 0
    assert list(world.offset_fetch()) == [("t", 0)]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_what_cannot_be_read_may_be_anything(data: bytes) -> None:
    world = GroupWorld()
    world.form(1, protocols={"range": data})
    response = delete(world, 0)
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda world: None, ErrorCode.GROUP_ID_NOT_FOUND),
        (lambda world: world.form(1, protocol_type="connect"), ErrorCode.NON_EMPTY_GROUP),
    ],
)
def test_deleting_offsets_is_refused(prepare: Any, error: ErrorCode) -> None:
    world = GroupWorld()
    prepare(world)
    response = delete(world, 0)
    assert response.error_code == error and response.topics == []


def test_offsets_of_a_deleted_topic_go_in_every_group() -> None:
    world = GroupWorld()
    for group in ("g", "h"):
        for topic, topic_id in (("t", A), ("u", A)):
            world.offset_commit(1, topic=topic, group=group, topic_id=topic_id)
    world.offset_commit(1, topic="t", partition=1, topic_id=B)

    def is_gone(name: str, topic_id: Uuid) -> bool:
        return name == "t" and topic_id in (Uuid.ZERO, A)

    world.carry_out(lambda: world.coordinator.decide_topics_deleted(is_gone))
    assert set(world.offset_fetch("g")) == {("t", 1), ("u", 0)}
    assert set(world.offset_fetch("h")) == {("u", 0)}
    world.carry_out(lambda: world.coordinator.decide_topics_deleted(lambda *_: True))
    assert (state_of(world, "g"), state_of(world, "h")) == ("Empty", "Empty")


# Expiring


def test_a_simple_groups_offset_expires_a_retention_after_its_commit() -> None:
    world = GroupWorld()
    world.restart()
    world.offset_commit(1, partition=0)
    world.advance(3 * DAY_MS)
    world.offset_commit(1, partition=1)
    world.advance(4 * DAY_MS + 600_000)
    assert list(world.offset_fetch()) == [("t", 1)]
    world.advance(3 * DAY_MS + 600_000)
    assert not world.coordinator.groups


def test_an_empty_groups_offsets_expire_a_retention_after_it_became_empty() -> None:
    world = GroupWorld()
    world.restart()
    (member_id,) = world.form(1, session_ms=1_800_000)
    world.offset_commit(1, member_id=member_id, generation=1)
    for _ in range(6 * 24 * 4):
        world.advance(900_000)
        world.heartbeat(member_id, 1)
    world.leave(member_id)
    world.advance(WEEK_MS - 1_000_000)
    assert list(world.offset_fetch()) == [("t", 0)]
    world.advance(1_600_000)
    assert world.offset_fetch() == {} and not world.coordinator.groups


@pytest.mark.parametrize("retention_ms", [-1, 0, DAY_MS])
def test_an_offset_expires_when_its_time_is_over_to_the_millisecond(retention_ms: int) -> None:
    world = GroupWorld()
    world.offset_commit(1, version=4, retention_ms=retention_ms)
    over_ms = world.wall + (WEEK_MS if retention_ms < 0 else retention_ms)
    decide = world.coordinator.decide_timer
    assert decide(EXPIRY_TIMER, over_ms - 1).records == []
    assert decide(EXPIRY_TIMER, over_ms).records


def test_offsets_that_members_read_never_expire_and_others_do() -> None:
    world = GroupWorld()
    world.restart()
    (member_id,) = world.form(1, session_ms=1_800_000, protocols={"range": subscription("t")})
    for topic in ("t", "old"):
        world.offset_commit(1, topic=topic, member_id=member_id, generation=1)
    for _ in range(8 * 24 * 4):
        world.advance(900_000)
        world.heartbeat(member_id, 1)
    assert list(world.offset_fetch()) == [("t", 0)]
    assert world.group.state is GroupState.STABLE


def test_a_group_of_another_protocol_with_members_keeps_everything() -> None:
    world = GroupWorld()
    world.restart()
    (member_id,) = world.form(1, session_ms=1_800_000, protocol_type="connect")
    world.offset_commit(1, member_id=member_id, generation=1)
    for _ in range(8 * 24 * 4):
        world.advance(900_000)
        world.heartbeat(member_id, 1)
    assert list(world.offset_fetch()) == [("t", 0)]


def test_an_expiry_beyond_all_time_is_the_latest_there_can_be() -> None:
    world = GroupWorld()
    assert world.commit_error(version=4, retention_ms=(1 << 63) - 1) == ErrorCode.NONE
    world.advance(400 * DAY_MS)
    assert world.offset_fetch(topics={"t": [0]})["t", 0][0] == 1


@pytest.mark.parametrize(("retention_ms", "days"), [(DAY_MS, 1), (30 * DAY_MS, 30)])
def test_an_expiry_given_with_the_commit_counts(retention_ms: int, days: int) -> None:
    world = GroupWorld()
    world.offset_commit(1, version=4, retention_ms=retention_ms)
    world.restart()
    world.advance(days * DAY_MS - 600_001)
    assert list(world.offset_fetch()) == [("t", 0)]
    world.advance(1_200_001)
    assert world.offset_fetch() == {}


def test_an_open_transaction_keeps_the_offset() -> None:
    world = GroupWorld()
    world.restart()
    world.offset_commit(1)
    transactional(world, 2)
    world.advance(2 * WEEK_MS)
    assert list(world.offset_fetch()) == [("t", 0)]


def test_an_empty_group_without_offsets_goes_at_the_next_look() -> None:
    world = GroupWorld()
    world.restart()
    world.leave(*world.form(1))
    assert "g" in world.coordinator.groups
    world.advance(600_000)
    assert not world.coordinator.groups
    assert world.log[-1] == (encode_key(GroupMetadataKey(group="g")), None)


# Looking at groups


def ask(world: GroupWorld, decide: Any) -> Any:
    return world.replies[world.ask(decide)]


def test_describing() -> None:
    world = GroupWorld()
    ids = world.form(2)
    (group,) = ask(world, lambda t: world.coordinator.decide_describe_groups(["g"], 5, t))
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(m.member_id, m.client_id, m.client_host) for m in group.members] == [
        (member_id, "c", "/127.0.0.1") for member_id in ids
    ]
    assert group.members[0].member_metadata == subscription("t")
    assert group.members[0].member_assignment == ids[0].encode()
    world.join(ids[0])
    (group,) = ask(world, lambda t: world.coordinator.decide_describe_groups(["g"], 5, t))
    assert group.group_state == "PreparingRebalance"
    assert group.protocol_data == "" and group.members[0].member_metadata == b""


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_describing_what_does_not_exist(version: int, error: int) -> None:
    world = GroupWorld()
    (group,) = ask(world, lambda t: world.coordinator.decide_describe_groups(["x"], version, t))
    assert (group.group_state, group.error_code) == ("Dead", error)


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], ["g", "h"]),
        (["stable"], [], ["g"]),
        ([" Empty "], [], ["h"]),
        (["Dead"], [], []),
        ([], ["classic"], ["g", "h"]),
        ([], ["consumer"], []),
        (["Stable", "Empty"], ["CLASSIC", "consumer"], ["g", "h"]),
    ],
)
def test_listing(states: list[str], types: list[str], expected: list[str]) -> None:
    world = GroupWorld()
    world.form(1)
    world.offset_commit(group="h")
    listed = ask(world, lambda t: world.coordinator.decide_list_groups(states, types, t))
    assert [group.group_id for group in listed] == expected


def test_deleting_groups() -> None:
    world = GroupWorld()
    world.form(1)
    world.offset_commit(group="h")
    world.leave(*world.form(1, group="e"), group="e")
    results = ask(
        world, lambda t: world.coordinator.decide_delete_groups(["g", "h", "e", "x", "h"], t)
    )
    assert [(r.group_id, r.error_code) for r in results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("h", 0),
        ("e", 0),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert list(world.coordinator.groups) == ["g"]


def test_ids_given_out_are_not_good_any_more_when_their_group_is_deleted() -> None:
    world = GroupWorld()
    member = world.new_id()
    [result] = ask(world, lambda t: world.coordinator.decide_delete_groups(["g"], t))
    assert result.error_code == 0
    assert "g" not in world.coordinator.groups
    assert world.error(world.join(member)) is ErrorCode.UNKNOWN_MEMBER_ID
    [result] = ask(world, lambda t: world.coordinator.decide_delete_groups(["g"], t))
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_offsets_stays_when_a_stranger_is_refused() -> None:
    world = GroupWorld()
    world.offset_commit(group="g")
    delete(world, 0)
    assert list(world.coordinator.groups) == ["g"]
    assert world.error(world.join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(world.coordinator.groups) == ["g"], "a refused request leaves things as they are"


# Records of other writers


def test_offsets_of_before_0_8_2_are_read() -> None:
    world = GroupWorld()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=4, metadata="m", commit_timestamp=1)
    apply_entry(world.coordinator, encode_key(key), encode_value(value, 0), 0)
    assert world.offset_fetch()["t", 0][:3] == (4, -1, "m")


def test_what_we_write_is_what_brokers_of_today_read() -> None:
    world = GroupWorld()
    world.offset_commit(5, topic_id=A)
    world.offset_commit(5, partition=1, version=4, retention_ms=1_000)
    world.form(1)
    versions = [int.from_bytes(value[:2], "big") for _, value in world.log if value]
    assert versions == [4, 1, 3]
    stored = [decode_value(decode_key(k), v) for k, v in world.log if v]
    assert stored[0].topic_id == A and stored[1].expire_timestamp == world.wall + 1_000
