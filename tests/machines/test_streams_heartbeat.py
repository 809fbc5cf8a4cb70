"""StreamsGroupHeartbeat: who is admitted, what is refused, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.streams.answers import (
    ASSIGNMENT_DELAYED,
    MISSING_CLIENT_TAGS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
)
from fencepost.machines.group.streams.configuring import (
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
)
from fencepost.machines.group.streams.endpoints import partitions_by_endpoint
from fencepost.machines.group.streams.group import StreamsState
from fencepost.machines.group.streams.member import MemberMetadata, StreamsMember
from fencepost.machines.group.streams.reconciliation import CurrentAssignment
from fencepost.machines.group.streams.tasks import HeldTasks, TaskId
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    TopicInfo,
)
from fencepost.wire.errors import ErrorCode

from .streams_groups.world import Client, StreamsWorld, said, settle, subtopology, topology

INVALID = ErrorCode.INVALID_REQUEST
STATEFUL = topology(subtopology("0", ["in"], changelogs=["log"]))


def statuses(response: StreamsGroupHeartbeatResponse) -> list[int]:
    return [one.status_code for one in response.status or ()]


# What needs no group


BY_ITSELF: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern": (
        {"sent": topology(subtopology(regex=["a.*"])), "member": ""},
        "Regular expressions for source topics are not supported yet.",
    ),
    "no member id": ({"member": "", "group": ""}, "MemberId can't be empty."),
    "blank member id": ({"member": "  "}, "MemberId can't be empty."),
    "no group id": ({"group": ""}, "GroupId can't be empty."),
    "empty instance id": ({"instance": ""}, "InstanceId can't be empty."),
    "empty rack": ({"rack": ""}, "RackId can't be empty."),
    "joining without a timeout": (
        {"rebalance_ms": -1},
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "joining with active tasks": (
        {"active": {"0": [0]}, "standby": {}, "warmup": {}},
        "ActiveTasks must be empty when (re-)joining.",
    ),
    "joining with standby tasks": (
        {"active": {}, "standby": {"0": [0]}, "warmup": {}},
        "StandbyTasks must be empty when (re-)joining.",
    ),
    "joining with warm-up tasks": (
        {"active": {}, "standby": {}, "warmup": {"0": [0]}},
        "WarmupTasks must be empty when (re-)joining.",
    ),
    "joining without saying what it owns": (
        {"active": {}},
        "StandbyTasks must be empty when (re-)joining.",
    ),
    "leaving for a while without instance id": ({"epoch": -2}, "InstanceId can't be null."),
    "an epoch that does not exist": (
        {"epoch": -3},
        "MemberEpoch is -3, but must be greater than or equal to -2.",
    ),
    "active tasks alone": (
        {"epoch": 1, "active": {}},
        "If one task-type is non-null, all must be non-null.",
    ),
    "a topology later": (
        {"epoch": 1, "sent": topology()},
        "Topology can only be provided when (re-)joining.",
    ),
}


@pytest.mark.parametrize(("given", "words"), BY_ITSELF.values(), ids=BY_ITSELF)
def test_a_request_that_is_wrong_by_itself_is_invalid(given: dict[str, Any], words: str) -> None:
    world = StreamsWorld()
    assert world.refusal(**given) == (INVALID, words)
    assert not world.coordinator.groups


def test_a_member_that_joins_brings_its_topology() -> None:
    from fencepost.machines.group.refused import RefusedError
    from fencepost.machines.group.streams.refusals import check_request
    from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest

    request = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="a", member_epoch=0, rebalance_timeout_ms=1,
        active_tasks=[], standby_tasks=[], warmup_tasks=[],
    )  # fmt: skip
    with pytest.raises(RefusedError) as raised:
        check_request(request)
    assert raised.value.message == "Topology must be non-null when (re-)joining."


def test_changelog_topics_have_no_fixed_partitions() -> None:
    sent = topology(subtopology(changelogs=["log"]))
    sent.subtopologies[0].state_changelog_topics = [TopicInfo(name="log", partitions=2)]
    assert StreamsWorld().refusal(sent=sent) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "Changelog topic log must have an undefined partition count, but it is set to 2.",
    )


# The group and the member


def test_the_first_heartbeat_makes_the_group_and_gives_all_tasks() -> None:
    world = StreamsWorld()
    answer = world.beat()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert said(answer.active_tasks) == {"0": [0, 1, 2, 3]}
    assert said(answer.standby_tasks) == said(answer.warmup_tasks) == {}
    assert statuses(answer) == []
    assert (answer.heartbeat_interval_ms, answer.task_offset_interval_ms) == (5_000, 60_000)
    assert answer.acceptable_recovery_lag == 10_000
    assert (world.group.state, world.group.epoch) == (StreamsState.STABLE, 2)


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "another group": (
        {"group": "h", "epoch": 1},
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Streams group h not found.",
    ),
    "leaving another group": (
        {"group": "h", "epoch": -1},
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group h not found.",
    ),
    "an unknown member": (
        {"member": "b", "epoch": 2},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member b is not a member of group g.",
    ),
    "an unknown member leaves": (
        {"member": "b", "epoch": -1},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member b is not a member of group g.",
    ),
    "an epoch that is too high": (
        {"epoch": 3},
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The streams group member has a greater member epoch (3) than the one known by the group"
        " coordinator (2). The member must abandon all its partitions and rejoin.",
    ),
    "an epoch that is too low": (
        {"epoch": 1},
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The streams group member has a smaller member epoch (1) than the one known by the group"
        " coordinator (2). The member must abandon all its partitions and rejoin.",
    ),
    "another topology": (
        {"member": "b", "sent": STATEFUL},
        INVALID,
        "Topology updates are not supported yet.",
    ),
    "a newer topology": (
        {"member": "b", "sent": topology(epoch=1)},
        INVALID,
        "Topology updates are not supported yet.",
    ),
    "a task of no subtopology": (
        {"epoch": 2, "active": {"7": [0]}, "standby": {}, "warmup": {}},
        INVALID,
        "Subtopology 7 does not exist in the topology.",
    ),
    "a task of no partition": (
        {"epoch": 2, "active": {}, "standby": {"0": [4]}, "warmup": {}},
        INVALID,
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
    ),
    "a task offset twice": (
        {"epoch": 2, "offsets": {("0", 1): 5}, "twice": True},
        INVALID,
        "Task offsets contain a duplicate entry for subtopology 0 and partition 1.",
    ),
    "a static member that is unknown": (
        {"epoch": 2, "instance": "i"},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Instance id i is unknown.",
    ),
}


@pytest.mark.parametrize(("given", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_a_heartbeat_that_does_not_fit_the_group_is_refused(
    given: dict[str, Any], error: ErrorCode, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = StreamsWorld()
    world.beat()
    given = dict(given)
    if given.pop("twice", False):
        from .streams_groups import world as module

        once = module.offsets_of
        monkeypatch.setattr(module, "offsets_of", lambda one: (once(one) or []) * 2 or None)
    before = world.coordinator.durable_view()
    assert world.refusal(**given) == (error, words)
    assert world.coordinator.durable_view() == before


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_a_group_with_classic_members_is_no_streams_group(epoch: int) -> None:
    world = StreamsWorld()
    world.form(1)
    error, words = world.refusal(epoch=epoch)
    assert (error, words) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a streams group.",
    )


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets() -> None:
    world = StreamsWorld()
    (member,) = world.form(1)
    assert world.commit_error(offset=7, member_id=member, generation=1, version=9) is ErrorCode.NONE
    world.leave(member)
    assert world.beat().member_epoch == 2
    assert world.group.state is StreamsState.STABLE
    assert world.offset_fetch()["t", 0][0] == 7
    world.restart()
    assert world.group.state is StreamsState.STABLE


def test_a_group_of_offsets_alone_becomes_a_streams_group() -> None:
    world = StreamsWorld()
    world.offset_commit(3)
    assert world.beat().member_epoch == 2
    assert world.offset_fetch()["t", 0][0] == 3


def test_an_empty_streams_group_becomes_a_classic_one() -> None:
    world = StreamsWorld()
    world.beat()
    world.beat(epoch=-1)
    world.form(1)
    assert world.coordinator.groups["g"].group_type == "classic"
    world.restart()
    assert world.coordinator.groups["g"].group_type == "classic"


def test_a_full_group_takes_no_new_member_but_those_it_knows() -> None:
    world = StreamsWorld(streams_max_size=2)
    world.beat("a")
    world.beat("b", instance="i")
    assert world.refusal("c") == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 2 members.",
    )
    assert world.beat("a").error_code == ErrorCode.NONE
    world.beat("b", -2, instance="i")
    assert world.beat("c", instance="i").error_code == ErrorCode.NONE


def test_a_member_whose_answer_was_lost_is_known_by_what_it_owns() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a"), Client(world, "b")
    settle(first, second)
    Client(world, "c").beat()
    epoch = first.epoch
    rest: dict[str, Any] = {"standby": {}, "warmup": {}}
    answer = world.beat("a", epoch, active=first.active, **rest)
    assert answer.member_epoch == epoch + 1
    again = world.beat("a", epoch, active=first.active, **rest)
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    assert world.refusal("a", epoch)[0] is ErrorCode.FENCED_MEMBER_EPOCH
    too_much = {"0": [0, 1, 2, 3]}
    error, _ = world.refusal("a", epoch, active=too_much, **rest)
    assert error is ErrorCode.FENCED_MEMBER_EPOCH
    error, _ = world.refusal("a", epoch - 1, active={}, **rest)
    assert error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_joins_again_is_told_its_tasks() -> None:
    world = StreamsWorld()
    world.beat()
    assert world.beat(epoch=2).active_tasks is None
    answer = world.beat()
    assert (answer.member_epoch, said(answer.active_tasks)) == (2, {"0": [0, 1, 2, 3]})


@pytest.mark.parametrize(
    ("change", "raises"),
    [
        ({}, False),
        ({"rack": "r"}, True),
        ({"process": "q"}, True),
        ({"tags": [("zone", "z")]}, True),
        ({"endpoint": ("h", 1)}, True),
        ({"rebalance_ms": 7}, True),
        ({"host": "/10.0.0.1"}, True),
    ],
)
def test_what_a_dynamic_member_changes_calls_for_a_new_target(
    change: dict[str, Any], raises: bool
) -> None:
    world = StreamsWorld()
    world.beat()
    world.beat(epoch=2, **change)
    assert world.group.epoch == (3 if raises else 2)


def test_a_tag_is_given_once() -> None:
    error, _ = StreamsWorld().refusal(tags=[("zone", "a"), ("zone", "b")])
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_two_subtopologies_with_one_id_are_an_error_without_words() -> None:
    sent = topology(subtopology("0"), subtopology("0"))
    assert StreamsWorld().refusal(sent=sent) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_a_topology_that_no_topics_can_make_run_is_refused() -> None:
    world = StreamsWorld()
    assert world.refusal(sent=topology(subtopology("0", []))) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "No source topics found for subtopology 0",
    )
    assert not world.coordinator.groups


# Topics


def test_without_its_source_topics_a_group_is_not_ready() -> None:
    world = StreamsWorld()
    world.image = world.image.__class__()
    answer = world.beat()
    assert (answer.member_epoch, statuses(answer)) == (2, [MISSING_SOURCE_TOPICS])
    assert said(answer.active_tasks) == {}
    assert world.group.state is StreamsState.NOT_READY
    assert world.describe().group_state == "NotReady"
    world.change_topics(**{"in": 2})
    answer = world.beat(epoch=2)
    assert (answer.member_epoch, statuses(answer)) == (3, [])
    assert said(answer.active_tasks) == {"0": [0, 1]}


def test_missing_internal_topics_are_told_to_the_handler_until_they_exist() -> None:
    world = StreamsWorld()
    reply = world.reply(sent=STATEFUL)
    assert statuses(reply.response) == [MISSING_INTERNAL_TOPICS]
    assert [(one.name, one.partitions) for one in reply.to_create] == [("log", 4)]
    again = world.reply(epoch=2)
    assert again.to_create == reply.to_create
    world.change_topics(log=4, **{"in": 4})
    reply = world.reply(epoch=2)
    assert (reply.to_create, statuses(reply.response)) == ((), [])
    assert said(reply.response.active_tasks) == {"0": [0, 1, 2, 3]}


def test_a_topic_that_grows_brings_more_tasks() -> None:
    world = StreamsWorld()
    world.beat()
    world.change_topics(**{"in": 6})
    assert world.group.epoch == 2
    answer = world.beat(epoch=2)
    assert (answer.member_epoch, said(answer.active_tasks)) == (3, {"0": [0, 1, 2, 3, 4, 5]})


def test_other_topics_do_not_concern_the_group() -> None:
    world = StreamsWorld()
    world.beat()
    world.change_topics(other=1, **{"in": 4})
    assert not world.group.soft.is_refresh_due
    assert world.beat(epoch=2).member_epoch == 2


def test_a_source_topic_that_is_deleted_takes_the_tasks_away() -> None:
    world = StreamsWorld()
    client = Client(world, "a")
    client.beat()
    world.change_topics(other=1)
    assert statuses(client.beat()) == [MISSING_SOURCE_TOPICS]
    settle(client)
    assert client.active == {} and world.group.state is StreamsState.NOT_READY


# Delays


def test_an_empty_group_waits_for_further_members() -> None:
    world = StreamsWorld(delay_ms=3_000)
    first = world.beat("a")
    assert (first.member_epoch, statuses(first), said(first.active_tasks)) == (
        1,
        [ASSIGNMENT_DELAYED],
        {},
    )
    assert statuses(world.beat("b")) == [ASSIGNMENT_DELAYED]
    world.advance(2_999)
    assert statuses(world.beat("a", 1)) == [ASSIGNMENT_DELAYED]
    world.advance(1)
    answers = [world.beat(one, 1) for one in "ab"]
    assert [(one.member_epoch, said(one.active_tasks)) for one in answers] == [
        (3, {"0": [0, 2]}),
        (3, {"0": [1, 3]}),
    ]


def test_a_refused_write_does_not_leave_a_group_waiting() -> None:
    world = StreamsWorld(delay_ms=3_000)
    world.beat("a")
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(3_000)
    world.timers.clear()
    world.refusing = None
    answer = world.beat("a", 1)
    assert (answer.member_epoch, statuses(answer)) == (2, [])


def test_the_interval_is_kept_between_two_targets() -> None:
    world = StreamsWorld(interval_ms=1_000)
    first, second = Client(world, "a"), Client(world, "b")
    first.beat()
    answer = second.beat()
    assert (answer.member_epoch, statuses(answer)) == (2, [ASSIGNMENT_DELAYED])
    assert world.group.state is StreamsState.ASSIGNING
    world.advance(999)
    assert statuses(second.beat()) == [ASSIGNMENT_DELAYED]
    world.advance(1)
    assert statuses(second.beat()) == []
    settle(first, second)
    assert (first.active, second.active) == ({"0": [0, 1]}, {"0": [2, 3]})


def test_without_an_interval_a_clock_that_was_set_back_delays_nothing() -> None:
    world = StreamsWorld()
    world.beat("a")
    world.wall_ahead -= 1_000_000
    assert statuses(world.beat("b")) == []


def test_a_clock_that_was_set_back_delays_a_target_no_longer_than_the_interval() -> None:
    world = StreamsWorld(interval_ms=1_000)
    world.beat("a")
    world.wall_ahead -= 1_000_000
    assert statuses(world.beat("b")) == []


def test_an_emptied_group_need_not_wait_for_the_interval() -> None:
    world = StreamsWorld(interval_ms=1_000)
    world.beat()
    world.beat(epoch=-1)
    assert statuses(world.beat()) == []


# Statuses


def test_a_member_with_an_older_topology_is_told_so_and_stays() -> None:
    world = StreamsWorld()
    world.beat("a", sent=topology(epoch=3))
    answer = world.beat("b", sent=topology(subtopology("9"), epoch=2))
    assert statuses(answer) == [STALE_TOPOLOGY]
    assert answer.status is not None
    assert answer.status[0].status_detail == (
        "The member's topology epoch 2 is behind the group's topology epoch 3."
    )


def test_a_shutdown_reaches_every_member_until_the_group_is_empty() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a"), Client(world, "b")
    settle(first, second)
    answer = world.beat("a", -1, shutdown=True)
    assert answer.error_code == 0 and answer.status == []
    assert SHUTDOWN_APPLICATION in statuses(second.beat())
    assert SHUTDOWN_APPLICATION in statuses(Client(world, "c").beat())
    for one in "bc":
        world.beat(one, -1)
    assert statuses(world.beat("d")) == []


def test_an_empty_group_is_not_shut_down() -> None:
    world = StreamsWorld()
    world.beat("a")
    world.beat("a", -1)
    assert world.refusal("a", -1, shutdown=True)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.soft.shutdown_member_id is None
    assert not world.beat("b").status


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_shutdown_counts_for_nothing_where_the_heartbeat_is_refused(instance: str | None) -> None:
    """Kafka 4.4.0 keeps it: a stranger that leaves a group ends its applications."""
    world = StreamsWorld()
    member = Client(world, "a")
    member.beat()
    error = world.refusal("stranger", -1, instance=instance, shutdown=True)[0]
    assert error is ErrorCode.UNKNOWN_MEMBER_ID
    assert SHUTDOWN_APPLICATION not in statuses(member.beat())


def test_a_member_may_ask_for_the_shutdown_while_it_stays() -> None:
    world = StreamsWorld()
    world.beat("a")
    answer = world.beat("a", 2, shutdown=True)
    assert statuses(answer) == [SHUTDOWN_APPLICATION]
    assert answer.status is not None and "a encountered a fatal" in answer.status[0].status_detail


@pytest.mark.parametrize(("version", "told"), [(0, []), (1, [MISSING_CLIENT_TAGS])])
def test_missing_client_tags_are_told_to_clients_that_know_the_status(
    version: int, told: list[int]
) -> None:
    world = StreamsWorld()
    world.set(rack_aware_assignment_tags=("zone", "rack"))
    answer = world.beat(tags=[("zone", "z")], version=version)
    assert statuses(answer) == told
    if told:
        assert answer.status is not None
        assert "standby assignment: [rack]. Configure" in answer.status[0].status_detail
    assert statuses(world.beat(epoch=2, tags=[("zone", "z"), ("rack", "r")])) == []


# Endpoints


def test_members_are_told_where_data_can_be_queried() -> None:
    world = StreamsWorld()
    here = ("host", 8080)
    first = world.beat("a", endpoint=here)
    assert first.endpoint_information_epoch == 0
    assert first.partitions_by_user_endpoint is not None
    (told,) = first.partitions_by_user_endpoint
    assert (told.user_endpoint.host, told.user_endpoint.port) == here
    assert [(one.topic, one.partitions) for one in told.active_partitions] == [("in", [0, 1, 2, 3])]
    assert world.beat("a", 2).partitions_by_user_endpoint is None


def test_a_change_of_an_endpoint_is_told_to_members_that_know_an_older_epoch() -> None:
    world = StreamsWorld()
    first, second = Client(world, "a"), Client(world, "b")
    settle(first, second)
    answer = world.beat("a", first.epoch, endpoint=("host", 1))
    assert answer.endpoint_information_epoch == 1
    told = world.beat("b", second.epoch, endpoint_epoch=0).partitions_by_user_endpoint
    assert told is not None and [one.user_endpoint.port for one in told] == [1]
    assert world.beat("b", second.epoch, endpoint_epoch=1).partitions_by_user_endpoint is None


def test_copies_are_told_apart_from_active_tasks() -> None:
    world = StreamsWorld()
    world.image = world.image.__class__()
    world.change_topics(log=2, **{"in": 2})
    world.set(num_standby_replicas=1)
    clients = [
        Client(world, one, sent=STATEFUL, endpoint=("host", port))
        for port, one in enumerate("ab", 1)
    ]
    settle(*clients)
    told = world.beat("a", clients[0].epoch, endpoint_epoch=-1).partitions_by_user_endpoint
    assert told is not None
    shown = {
        one.user_endpoint.port: (
            [partition.partitions for partition in one.active_partitions],
            [partition.partitions for partition in one.standby_partitions],
        )
        for one in told
    }
    assert shown == {1: ([[0]], [[1]]), 2: ([[1]], [[0]])}


def test_a_task_reads_those_topics_that_have_its_partition() -> None:
    world = StreamsWorld()
    world.change_topics(small=2, **{"in": 4})
    sent = topology(subtopology("0", ["in", "small"]))
    told = world.beat(sent=sent, endpoint=("host", 1)).partitions_by_user_endpoint
    assert told is not None
    assert [(one.topic, one.partitions) for one in told[0].active_partitions] == [
        ("in", [0, 1, 2, 3]),
        ("small", [0, 1]),
    ]


def test_warm_up_tasks_are_told_as_copies() -> None:
    world = StreamsWorld()
    world.beat()
    configured = world.group.soft.configured
    assert configured is not None
    first, second, third = (TaskId("0", number) for number in range(3))
    has = HeldTasks({first: 2}, frozenset({second}), frozenset({third}))
    member = StreamsMember(
        "a", MemberMetadata(user_endpoint=("host", 1)), CurrentAssignment(assigned=has)
    )
    (told,) = partitions_by_endpoint([member], configured, world.image)
    assert [one.partitions for one in told.active_partitions] == [[0]]
    assert [one.partitions for one in told.standby_partitions] == [[1, 2]]


def test_an_endpoint_of_a_group_whose_topics_are_missing_has_no_partitions() -> None:
    world = StreamsWorld()
    world.image = world.image.__class__()
    told = world.beat(endpoint=("host", 1)).partitions_by_user_endpoint
    assert told is not None and told[0].active_partitions == []


# Configs


def test_another_number_of_standbys_calls_for_a_new_target() -> None:
    world = StreamsWorld()
    world.change_topics(log=2, **{"in": 2})
    clients = [Client(world, one, sent=STATEFUL) for one in "ab"]
    settle(*clients)
    assert all(one.standby == {} for one in clients)
    before = world.group.epoch
    world.set(num_standby_replicas=1)
    settle(*clients)
    assert world.group.epoch == before + 1
    assert [one.standby for one in clients] == [{"0": [1]}, {"0": [0]}]
