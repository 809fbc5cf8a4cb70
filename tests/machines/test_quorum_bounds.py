"""What a VotersRecord or a KRaftVersionRecord may say, asked for or fetched."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.control import build_control_batch
from fencepost.machines.effects import Persist
from fencepost.machines.quorum import FetchBounds, QuorumMachine, Role, Start, fetch_response
from fencepost.machines.quorum.inputs import answered
from fencepost.machines.quorum.state import QuorumState
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import (
    ENDPOINTS_MAX,
    VOTERS_MAX,
    Endpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.control import ControlType, KRaftVersionRecord, VotersRecord
from fencepost.wire.types import Uuid

from .quorum_fixtures import CONFIG, EPOCH, NODE, Bench, follower
from .quorum_log import ListLog
from .quorum_stages import STAGES, add, ask, update


def directory(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def voter(id_: int, *endpoints: Endpoint) -> Voter:
    return Voter(ReplicaKey(id_, directory(id_ + 1)), endpoints, 0, 1)


USUAL = Endpoint("CONTROLLER", "host", 1)
TOO_MUCH = {
    "endpoints": tuple(Endpoint(f"L{i}", "host", 1) for i in range(ENDPOINTS_MAX)) + (USUAL,),
    "a long host": (USUAL._replace(host="h" * 256),),
    "a long name": (USUAL, USUAL._replace(name="n" * 256)),
    "no port": (USUAL._replace(port=0),),
}


def fetched(bench: Bench, kind: ControlType, value: Any) -> list[Any]:
    """The leader sends the record in a batch; what the follower does."""
    batch = build_control_batch([(kind, value)], base_offset=2, leader_epoch=EPOCH, timestamp_ms=0)
    asked = bench.machine.requests.in_flight[2][0]
    response = fetch_response(FetchBounds(ErrorCode.NONE, 2, EPOCH, 2, 3, 1, 0), batch)
    return bench.step(answered(2, asked, response))


def writes(effects: list[Any]) -> list[Any]:
    return [effect.work for effect in effects if isinstance(effect, Persist)]


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_asked_for_is_bounded(name: str) -> None:
    for make in (add, update):
        world = STAGES["led"]()
        request = make(world)
        struct = type(request.listeners[0])
        request.listeners = [struct(name=e.name, host=e.host, port=e.port) for e in TOO_MUCH[name]]
        (response,) = ask(world, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST, make


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_fetched_is_bounded(name: str) -> None:
    bench = follower()
    record = VoterSet((voter(1, USUAL), voter(2, *TOO_MUCH[name]))).to_record()
    effects = fetched(bench, ControlType.KRAFT_VOTERS, record)
    assert bench.machine.role is Role.FAILED and writes(effects) == []
    assert "voter 2 has" in repr(bench.machine)


def test_sets_are_neither_empty_nor_doubled_nor_huge() -> None:
    one = VoterSet((voter(1, USUAL),)).to_record()
    for voters in (
        [],
        [*one.voters, *one.voters],
        VoterSet(tuple(voter(i, USUAL) for i in range(VOTERS_MAX + 1))).to_record().voters,
    ):
        bench = follower()
        effects = fetched(bench, ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=voters))
        assert bench.machine.role is Role.FAILED and writes(effects) == []
        assert bench.machine.voter_history.latest_offset is None


def test_the_largest_set_is_taken() -> None:
    bench = follower()
    most = tuple(Endpoint(f"L{i}", "h" * 255, 65_535) for i in range(ENDPOINTS_MAX))
    record = VoterSet(tuple(voter(i, *most) for i in range(VOTERS_MAX))).to_record()
    fetched(bench, ControlType.KRAFT_VOTERS, record)
    assert len(bench.machine.voters) == VOTERS_MAX


@pytest.mark.parametrize(("level", "is_taken"), [(0, True), (1, True), (2, False), (99, False)])
def test_a_level_that_this_node_cannot_run_stops_it(level: int, is_taken: bool) -> None:
    bench = follower()
    record = KRaftVersionRecord(version=0, kraft_version=level)
    effects = fetched(bench, ControlType.KRAFT_VERSION, record)
    assert (bench.machine.role is Role.FOLLOWER) is is_taken
    assert bool(writes(effects)) is is_taken
    assert is_taken or f"kraft.version {level} is in force" in repr(bench.machine)

    history = VoterHistory(VoterSet.of_ids((1, 2, 3)))
    history.note_kraft_version(-1, level)
    machine = QuorumMachine(NODE, history, ListLog(), QuorumState(), CONFIG)
    machine.step(Start([0]), 0, 0)
    assert (machine.role is Role.UNATTACHED) is is_taken, "nor does it start with such a log"
