"""What voters say of themselves: in the first batch of an epoch, after a move, to join.

`quorum_stages` says who is who.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.machines.effects import SetTimer
from fencepost.machines.quorum import (
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    Role,
    Start,
    inputs,
)
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint, VoterSet
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

from .quorum_log import ListLog
from .quorum_stages import dynamic, follower, led, records_of, static

# -- the epoch's first batch -------------------------------------------------------------------


def test_the_first_leader_writes_the_voters_of_the_bootstrap_snapshot() -> None:
    world = led()
    change, level, voters = records_of(world, 1)[0]
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(level, KRaftVersionRecord) and level.kraft_version == 1
    assert isinstance(voters, VotersRecord)
    assert [v.voter_id for v in voters.voters] == [1, 2, 3]


def test_later_leaders_do_not_write_them_again() -> None:
    world = follower()
    assert [len(batch) for batch in records_of(world, 2)] == [3, 1]


def test_static_voters_are_in_no_log() -> None:
    assert [len(batch) for batch in records_of(static(), 1)] == [1]


def test_a_leader_at_another_address_says_so_in_its_first_batch() -> None:
    world = led(voters=1)
    world.crash(1)
    moved = replace(world.voter(1), endpoints=(Endpoint("CONTROLLER", "elsewhere", 1),))
    world.odd.endpoints[1] = moved.endpoints
    world.start(1)
    assert world.machine(1).role is Role.LEADER
    world.wait(5_000)
    assert world.machine(2).voter_set.get(1) == moved


# -- updating ----------------------------------------------------------------------------------


def test_a_voter_that_moved_tells_its_leader() -> None:
    world = led()
    world.crash(2)
    world.odd.endpoints[2] = (Endpoint("CONTROLLER", "elsewhere", 1),)
    world.start(2)
    world.wait(6_000)
    for id_ in world.ids:
        assert world.machine(id_).voter_set.get(2) == world.voter(2)
    changes = [batch for batch in records_of(world, 1) if isinstance(batch[0], VotersRecord)]
    assert len(changes) == 1, "once is enough"


@pytest.mark.parametrize(
    ("written", "tells"),
    [
        ((Endpoint("INNER", "b", 2), Endpoint("CONTROLLER", "a", 1)), False),
        ((Endpoint("CONTROLLER", "a", 1),), True),
        ((Endpoint("CONTROLLER", "a", 1), Endpoint("INNER", "b", 3)), True),
    ],
)
def test_what_a_leader_of_kafkas_has_written_is_no_change(
    written: tuple[Endpoint, ...], tells: bool
) -> None:
    """It writes listeners in any order, with names in capitals: telling it again every other
    second would write a voter set each time."""
    world = dynamic(3)
    history = VoterHistory(VoterSet())
    others = tuple(replace(world.voter(id_), endpoints=written) for id_ in (1, 2, 3))
    history.note_kraft_version(-1, 1)
    history.note_voters(-1, VoterSet(others))
    config = QuorumConfig(
        directory_id=world.voter(2).key.directory_id,
        endpoints=(Endpoint("CONTROLLER", "a", 1), Endpoint("inner", "b", 2)),
    )
    machine = QuorumMachine(2, history, ListLog(), QuorumState(1, leader_id=1), config)
    armed = [e.name for e in machine.step(Start([0]), 0, 0) if isinstance(e, SetTimer)]
    assert (inputs.VOTER_REQUEST in armed) is tells


def test_voters_that_are_well_known_say_nothing() -> None:
    world = led()
    world.wait(10_000)
    assert all(inputs.VOTER_REQUEST not in world.timers(id_) for id_ in world.ids)
    assert len(records_of(world, 1)) == 1


# -- joining -----------------------------------------------------------------------------------


def test_a_controller_joins_on_its_own() -> None:
    world = led(joins=True)
    world.wait(10_000)
    assert [world.machine(id_).voters for id_ in world.ids] == [(1, 2, 3, 4)] * 4


def test_a_controller_that_asks_in_vain_to_join_keeps_its_leader() -> None:
    """Its leader gets no answer from it, and it does not fetch until the leader has given up."""
    world = dynamic(3, others=1, joins=True)
    world.start()
    world.run(lambda: world.leader() is not None and world.machine(4).leader_id >= 0)
    asked, end_ms = 0, world.world.now_ms + 20_000
    while world.world.now_ms < end_ms:
        for flight in [f for f in world.flights() if isinstance(f.message, ApiVersionsRequest)]:
            world.drop(flight, told=False)
            asked += 1
        world.tick()
        assert world.machine(4).role is Role.FOLLOWER
    assert asked > 3 and 4 not in world.machine(1).voters


def test_a_controller_with_a_new_disk_replaces_what_it_was() -> None:
    world = led(others=0, joins=True)
    world.crash(3)
    world.wipe(3)
    world.start(3)
    world.wait(15_000)
    keys = world.machine(1).voter_set.keys
    assert keys == tuple(world.voter(id_).key for id_ in (1, 2, 3))
    sets = [
        r.voters for batch in records_of(world, 1) for r in batch if isinstance(r, VotersRecord)
    ]
    sizes = [len(voters) for voters in sets]
    assert sizes == [3, 2, 3], "first the old one goes, then the new one comes"


def test_a_controller_that_may_not_join_does_not() -> None:
    world = led()
    world.wait(10_000)
    assert world.machine(4).voters == (1, 2, 3)
