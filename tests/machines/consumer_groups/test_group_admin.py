"""Listing, describing and deleting consumer groups."""

from __future__ import annotations

from typing import Any

from fencepost.wire.errors import ErrorCode

from .world import ConsumerWorld, id_of, image_of

NONE, MISSING = ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND


def listed(world: ConsumerWorld, states: tuple[str, ...], types: tuple[str, ...]) -> dict[str, Any]:
    token = world.ask(lambda token: world.coordinator.decide_list_groups(states, types, token))
    return {
        one.group_id: (one.group_type, one.protocol_type, one.group_state)
        for one in world.replies[token]
    }


def delete(world: ConsumerWorld, group_id: str = "g") -> ErrorCode:
    token = world.ask(lambda token: world.coordinator.decide_delete_groups([group_id], token))
    return ErrorCode(world.replies[token][0].error_code)


def test_groups_are_listed_by_type_and_state() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.form(1, group="classic")
    world.enter("b", group="empty")
    world.beat("b", -1, group="empty")
    stable, empty = (("consumer", "consumer", state) for state in ("Stable", "Empty"))
    assert listed(world, (), ("Consumer",)) == {"g": stable, "empty": empty}
    assert listed(world, ("stable",), ("consumer",)) == {"g": stable}
    assert listed(world, ("EMPTY",), ()) == {"empty": empty}
    assert listed(world, ("Reconciling",), ()) == {}
    assert "classic" in listed(world, (), ())


def test_a_group_is_described() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=4, u=1)
    world.enter("a", rack="r", instance="i", topics=("t", "u"))
    world.enter("b", regex="x")
    world.advance(1_000)
    world.beat("b", 2)
    world.beat("a", 2, instance="i")
    (group,) = world.describe_consumer("g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "uniform"
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id) == ("a", "i", "r")
    assert (first.client_id, first.client_host) == ("c", "/127.0.0.1")
    assert (first.member_epoch, first.member_type) == (2, 1)
    assert (first.subscribed_topic_names, second.subscribed_topic_regex) == (["t", "u"], "x")

    def topics(assignment: Any) -> dict[str, list[int]]:
        return {one.topic_name: one.partitions for one in assignment.topic_partitions}

    assert topics(first.assignment) == {"t": [0, 1, 2, 3], "u": [0]}, "with what it gives up"
    assert topics(first.target_assignment) == {"t": [0, 1], "u": [0]}
    assert topics(second.assignment) == {}
    world.image = image_of(t=4)
    (group,) = world.describe_consumer("g")
    assert topics(group.members[0].assignment) == {"t": [0, 1, 2, 3]}, "u is deleted"


def test_groups_of_other_types_are_not_found() -> None:
    world = ConsumerWorld()
    world.form(1, group="classic")
    missing, classic = world.describe_consumer("missing", "classic")
    for one in (missing, classic):
        assert (one.error_code, one.group_state) == (MISSING, "")
    assert missing.error_message == "Group missing not found."
    assert classic.error_message == "Group classic is not a consumer group."
    world.enter("a")
    token = world.ask(lambda token: world.coordinator.decide_describe_groups(["g"], 6, token))
    (answer,) = world.replies[token]
    assert (answer.error_code, answer.group_state) == (MISSING, "Dead")
    assert answer.error_message == "Group g is not a classic group."


def test_an_empty_group_is_deleted_with_all_its_records() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1)
    world.enter("a", regex="t")
    world.finish_work(("consumer", "g", "regex"))
    world.offset_commit(5, member_id="a", generation=2)
    assert delete(world) is ErrorCode.NON_EMPTY_GROUP
    world.beat("a", -1)
    start = len(world.log)
    assert delete(world) is NONE
    assert world.kinds(start) == [-1, -6, -3]
    assert delete(world) is MISSING
    used_bytes = world.memory.used_bytes
    assert used_bytes == 0
    world.restart()
    assert not world.coordinator.groups
    assert id_of("t")
