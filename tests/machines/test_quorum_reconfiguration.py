"""Adding, removing and updating voters: what a change brings about, and what may come between.

`quorum_stages` says who is who.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from fencepost.log.quorum_state import QuorumStateFile
from fencepost.machines.quorum import Role, answered, inputs, membership
from fencepost.machines.quorum.tracker import NEVER_MS
from fencepost.machines.quorum.voters import Endpoint
from fencepost.sim.damage import DIRECTORY
from fencepost.wire.api.api_versions import ApiVersionsResponse, SupportedFeatureKey
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.control import VotersRecord

from .quorum_stages import (
    add,
    ask,
    asking,
    describe_request,
    led,
    records_of,
    remove,
    waited_too_long,
)

# -- adding ------------------------------------------------------------------------------------


def test_a_voter_is_added_when_the_new_set_is_committed() -> None:
    world = led()
    world.add_voter(1, 4)
    assert world.machine(1).address_of(4) == Endpoint("CONTROLLER", "simulated", 9004)
    assert world.changes == {} and world.machine(1).voters == (1, 2, 3)
    world.settle()
    assert world.changes == {"add 4": ErrorCode.NONE}
    assert [world.machine(id_).voters for id_ in world.ids] == [(1, 2, 3, 4)] * 4
    assert all(world.machine(id_).is_voter for id_ in world.ids)
    assert world.machine(1).voter_set.get(4) == world.voter(4), "with what it said it can run"


def test_the_new_set_decides_about_itself() -> None:
    """Of two voters one is a majority of the old set; with a third, two are needed."""
    world = led(voters=1, others=1)
    world.add_voter(1, 2)
    world.deliver(world.flights()[-1])
    answer = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsResponse")
    world.deliver(answer)
    assert world.machine(1).voters == (1, 2)
    world.cut((1, 2), (2, 1))
    world.flush(1)
    assert world.machine(1).high_watermark < world.machine(1).end_offset
    assert world.changes == {}
    world.reconnect()
    world.wait(1_000)
    assert world.changes == {"add 2": ErrorCode.NONE}


def test_without_waiting_the_answer_comes_with_the_append() -> None:
    world = led()
    answers = ask(world, add(world))
    world.deliver(world.flights()[-1])
    world.deliver(
        next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsResponse")
    )
    machine = world.machine(1)
    assert [answer.error_code for answer in answers] == [0]
    assert machine.voters == (1, 2, 3, 4) and machine.high_watermark < machine.end_offset
    assert ask(world, remove(world))[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    world.feed(1, inputs.Resign())
    world.settle()
    assert len(answers) == 1, "the request is answered once"


def test_a_new_voter_that_does_not_answer_is_not_added() -> None:
    world = led()
    world.crash(4)
    world.add_voter(1, 4)
    world.settle()
    assert world.changes == {"add 4": ErrorCode.REQUEST_TIMED_OUT}
    assert world.machine(1).voters == (1, 2, 3)


def test_a_new_voter_that_cannot_run_the_level_is_not_added() -> None:
    world = asking()
    asked = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest")
    world.drop(asked, told=False)
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=0)
    answer = ApiVersionsResponse(supported_features=[feature])
    world.feed(1, answered(4, asked.request, answer))
    world.settle()
    assert world.changes == {"add 4": ErrorCode.INVALID_REQUEST}
    assert world.machine(1).voters == (1, 2, 3)


def test_a_new_voter_that_never_fetched_is_not_added() -> None:
    world = led(others=2)
    world.cut((5, 1), (5, 2), (5, 3))
    world.crash(5)
    world.wipe(5)
    world.start(5)
    world.add_voter(1, 5)
    world.settle()
    assert world.changes == {"add 5": ErrorCode.REQUEST_TIMED_OUT}


def test_a_new_voter_that_was_behind_all_along_is_not_added() -> None:
    world = led()
    world.wait(world.machine(1).node.config.observer_session_ms // 2)
    observers = world.machine(1).node.role_state.tracker.observers  # type: ignore[union-attr]
    progress = next(p for key, p in observers.items() if key.id == 4)
    progress.last_caught_up_ms = NEVER_MS
    world.cut((4, 1))
    world.add_voter(1, 4)
    world.reconnect()
    versions = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest")
    world.deliver(versions)
    world.deliver(world.flights()[-1])
    assert world.changes == {"add 4": ErrorCode.REQUEST_TIMED_OUT}


@pytest.mark.parametrize(
    ("timeout_ms", "waits_ms"), [(0, 2_000), (-5, 2_000), (700, 700), (2**31 - 1, 60_000)]
)
def test_a_request_to_add_a_voter_waits_for_its_own_timeout(timeout_ms: int, waits_ms: int) -> None:
    world = led()
    world.add_voter(1, 4, timeout_ms=timeout_ms)
    assert world.timers(1)[inputs.VOTER_CHANGE] == waits_ms


def test_a_change_that_took_too_long_may_be_committed_yet() -> None:
    world = waited_too_long()
    world.settle()
    world.wait(1_000)
    assert world.machine(2).voters == (1, 2)
    assert world.machine(1).high_watermark == world.machine(1).end_offset
    assert world.changes == {"remove 3": ErrorCode.REQUEST_TIMED_OUT}
    world.add_voter(1, 4)
    world.settle()
    assert world.changes["add 4"] is ErrorCode.NONE


def test_a_leader_that_is_deposed_answers_requests_for_a_voter_change() -> None:
    world = asking()
    world.feed(1, inputs.Resign())
    assert world.changes == {"add 4": ErrorCode.NOT_LEADER_OR_FOLLOWER}


# -- removing ----------------------------------------------------------------------------------


def test_a_voter_is_removed_and_goes_on_as_an_observer() -> None:
    world = led()
    world.remove_voter(1, world.voter(3).key)
    world.settle()
    assert world.changes == {"remove 3": ErrorCode.NONE}
    world.append(1, "after;")
    world.settle()
    assert world.machine(3).role is Role.FOLLOWER and not world.machine(3).is_voter
    assert world.has_converged()
    world.wait(20_000)
    assert world.machine(1).role is Role.LEADER, "it does not disturb the others"


@pytest.mark.parametrize("has_followed", [True, False])
def test_a_voter_that_slept_until_no_voter_it_knew_is_there_finds_the_others(
    has_followed: bool,
) -> None:
    """By its log it is one of 1, 2 and 3 and can wait for their votes for ever. 4 and 5, which are
    the voters now, are only in its configuration."""
    world = led(others=2)
    world.crash(3)
    if not has_followed:
        file = QuorumStateFile(world.node(3).disk, DIRECTORY)
        stored = file.read()
        assert stored is not None
        stored.state.leader_id = -1
        file.write(stored)
    changes: list[Callable[[int], None]] = [
        lambda leader: world.remove_voter(leader, world.voter(3).key),
        lambda leader: world.add_voter(leader, 4),
        lambda leader: world.add_voter(leader, 5),
        lambda leader: world.remove_voter(leader, world.voter(2).key),
        lambda leader: world.remove_voter(leader, world.voter(1).key),
    ]
    for change in changes:
        leader = world.leader()
        assert leader is not None
        change(leader)
        world.wait(3_000)
    assert set(world.changes.values()) == {ErrorCode.NONE}
    world.crash(1)
    world.crash(2)
    world.wait(10_000)
    world.start(3)
    world.wait(10_000)
    assert world.leader() in (4, 5) and world.machine(3).leader_id == world.leader()
    assert world.machine(3).voters == (4, 5)


def test_a_leader_that_removes_itself_sees_it_committed_and_goes() -> None:
    world = led()
    before = world.machine(1).high_watermark
    world.remove_voter(1, world.voter(1).key)
    machine = world.machine(1)
    assert machine.role is Role.LEADER and not machine.is_voter
    world.flush(1)
    assert machine.high_watermark == before, "its own disk does not count any more"
    described = ask(world, describe_request())[0].topics[0].partitions[0]
    assert [voter.replica_id for voter in described.current_voters] == [2, 3]
    assert 1 in [observer.replica_id for observer in described.observers]
    world.settle()
    assert world.changes == {"remove 1": ErrorCode.NONE}
    assert machine.high_watermark > before
    assert machine.role is Role.RESIGNED
    world.wait(10_000)
    assert world.leader() in (2, 3)
    assert machine.role is Role.FOLLOWER and not machine.is_voter


def test_a_voter_whose_removal_no_other_node_has_can_still_lead() -> None:
    """Raft's dissertation, 4.2.2: its log is the longest, and the others need its vote."""
    world = led(voters=4, others=0)
    world.remove_voter(1, world.voter(2).key)
    world.flush(1)
    world.cut((1, 3), (1, 4))
    while world.machine(2).voters != (1, 3, 4):
        world.tick()
    world.flush(2)
    world.crash(1)
    world.reconnect()
    assert [world.machine(id_).voters for id_ in (3, 4)] == [(1, 2, 3, 4)] * 2
    world.run(lambda: world.machine(3).voters == (1, 3, 4) and world.has_converged())
    assert world.leader() in (3, 4), "it committed its removal, and left"


# -- truncation, restarts ----------------------------------------------------------------------


def test_a_set_that_is_truncated_is_in_force_no_longer() -> None:
    world = led()
    world.cut((1, 2), (2, 1), (1, 3), (3, 1))
    world.remove_voter(1, world.voter(3).key)
    world.flush(1)
    assert world.machine(1).voters == (1, 2)
    world.run(lambda: world.leader() in (2, 3))
    world.reconnect()
    world.run(world.has_converged)
    assert [world.machine(id_).voters for id_ in world.ids] == [(1, 2, 3)] * 4
    assert world.changes["remove 3"] in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    )


def test_a_leader_that_removed_itself_does_not_lead_after_a_restart() -> None:
    world = led()
    world.remove_voter(1, world.voter(1).key)
    world.flush(1)
    world.crash(1)
    world.start(1)
    assert world.machine(1).role is Role.RESIGNED
    world.run(lambda: world.leader() is not None and world.has_converged())
    assert world.machine(1).role is not Role.LEADER or world.machine(1).is_voter


# -- what counts after a change ----------------------------------------------------------------


def test_a_new_voter_that_is_behind_does_not_take_back_what_is_committed() -> None:
    world = led()
    world.cut((1, 4))
    for name in ("a;", "b;", "c;"):
        world.append(1, name)
        world.settle()
    machine = world.machine(1)
    before = machine.high_watermark
    voters = machine.voter_set.with_voter(world.voter(4))
    world.reconnect()
    world.add_voter(1, 4)
    while machine.voter_set != voters:
        world.tick()
        assert machine.high_watermark >= before
    world.settle()
    assert machine.high_watermark == machine.end_offset > before


def test_without_the_slowest_voter_more_is_committed() -> None:
    """Of 1, 2 and 3 two must have a batch; of 1 and 2 as well, but 3 is in the way no more."""
    world = led(voters=4, others=0)
    world.cut((1, 3), (1, 4))
    world.append(1, "waits;")
    world.settle()
    assert "waits;" not in world.outcomes, "two of four are no majority"
    world.remove_voter(1, world.voter(4).key)
    world.settle()
    assert world.outcomes["waits;"].error is ErrorCode.NONE, "two of three are one"
    assert world.changes == {"remove 4": ErrorCode.NONE}


def test_the_majority_that_a_leader_must_hear_is_that_of_the_new_set() -> None:
    world = led(voters=2, others=1)
    world.add_voter(1, 3)
    world.settle()
    world.crash(2)
    world.wait(20_000)
    assert world.machine(1).role is Role.LEADER, "3 is enough"
    world.crash(3)
    world.wait(4_000)
    assert world.machine(1).role is not Role.LEADER


def test_a_lone_voter_watches_over_those_that_join_it() -> None:
    world = led(voters=1, others=1)
    world.wait(60_000)
    assert world.machine(1).role is Role.LEADER
    world.add_voter(1, 2)
    world.settle()
    assert world.changes == {"add 2": ErrorCode.NONE}
    world.crash(2)
    world.wait(4_000)
    assert world.machine(1).role is not Role.LEADER


def test_an_unasked_answer_about_versions_adds_no_voter() -> None:
    world = asking()
    asked = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest")
    response = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
    )
    for source, request in ((2, asked.request), (4, membership.versions_request())):
        world.feed(1, answered(source, request, response))
    assert world.machine(1).voters == (1, 2, 3) and world.changes == {}
    world.feed(1, answered(4, asked.request, response))
    assert world.machine(1).voters == (1, 2, 3, 4)


def test_a_late_answer_about_versions_is_not_taken_for_the_next_voters() -> None:
    """The first was asked at a wrong address; the operator corrects it and tries again."""
    world = led()
    world.add_voter(1, 4, timeout_ms=500)
    (first,) = [f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest"]
    world.drop_all()
    world.fire(1, inputs.VOTER_CHANGE)
    world.odd.endpoints[4] = (Endpoint("CONTROLLER", "elsewhere", 4),)
    world.add_voter(1, 4, name="again", timeout_ms=60_000)
    (second,) = [f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest"]
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    answer = ApiVersionsResponse(supported_features=[feature])
    world.feed(1, answered(4, first.request, answer))
    assert world.machine(1).voters == (1, 2, 3)
    world.feed(1, answered(4, second.request, answer))
    assert world.machine(1).voter_set.get(4) == world.voter(4)


def test_a_voter_that_says_nothing_of_the_level_can_run_none_but_the_first() -> None:
    world = asking()
    asked = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest")
    world.feed(1, answered(4, asked.request, ApiVersionsResponse()))
    assert world.changes == {"add 4": ErrorCode.INVALID_REQUEST}


def test_a_voter_that_refuses_to_say_its_versions_is_not_added() -> None:
    world = asking()
    asked = next(f for f in world.flights() if type(f.message).__name__ == "ApiVersionsRequest")
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    world.feed(1, answered(4, asked.request, refusal))
    assert world.changes == {"add 4": ErrorCode.REQUEST_TIMED_OUT}


# -- describing --------------------------------------------------------------------------------


def test_the_quorum_is_described_with_disks_and_addresses() -> None:
    world = led()
    response = ask(world, describe_request())[0]
    partition = response.topics[0].partitions[0]
    assert [(v.replica_id, v.replica_directory_id) for v in partition.current_voters] == [
        world.voter(id_).key for id_ in (1, 2, 3)
    ]
    assert [(o.replica_id, o.replica_directory_id) for o in partition.observers] == [
        world.voter(4).key
    ]
    assert [(n.node_id, n.listeners[0].host, n.listeners[0].port) for n in response.nodes] == [
        (id_, "simulated", 9000 + id_) for id_ in (1, 2, 3)
    ]


def test_a_voters_id_with_another_disk_is_an_observer_beside_it() -> None:
    world = led(others=0)
    world.crash(3)
    world.wipe(3)
    world.start(3)
    world.wait(3_000)
    partition = ask(world, describe_request())[0].topics[0].partitions[0]
    assert [(o.replica_id, o.replica_directory_id) for o in partition.observers] == [
        world.voter(3).key
    ]
    voter = partition.current_voters[2]
    assert voter.replica_directory_id != world.voter(3).key.directory_id
    before = world.machine(1).high_watermark
    world.crash(2)
    world.append(1, "lonely;")
    world.settle()
    assert world.machine(1).high_watermark == before, "it does not count"


# -- one step at a time ------------------------------------------------------------------------


def test_neighbouring_sets_in_the_log_differ_by_one_voter() -> None:
    world = led(voters=3, others=2)
    for change in (
        lambda: world.add_voter(1, 4),
        lambda: world.add_voter(1, 5),
        lambda: world.remove_voter(1, world.voter(2).key),
        lambda: world.remove_voter(1, world.voter(3).key),
    ):
        change()
        change()
        world.settle()
    sets = [
        {v.voter_id for v in record.voters}
        for batch in records_of(world, 1)
        for record in batch
        if isinstance(record, VotersRecord)
    ]
    assert sets[0] == {1, 2, 3} and sets[-1] == {1, 4, 5}
    assert all(len(a ^ b) == 1 for a, b in pairwise(sets))
