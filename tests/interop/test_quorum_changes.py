"""Voters are added and removed under one leader, as seen by operators and by followers.

The leader under test is voter 1 of a dynamic quorum (KIP-853); the test plays all other nodes, and
its fetches say up to where each of them has the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.control import read_control
from fencepost.batch.header import iter_headers
from fencepost.client.protocol.in_flight import Token
from fencepost.wire.api.describe_quorum import PartitionDataResponse
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochRequest
from fencepost.wire.message import Request
from fencepost.wire.records.control import VotersRecord
from fencepost.wire.types import Uuid

from ..waiting import eventually
from .quorum import APACHE, FENCEPOST
from .quorum_peers import ScriptedVoters
from .quorum_subjects import Subject, directory_of, scripted_quorum
from .quorum_words import adds, describes, fetch, removes, shown, updates, vote

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(120)]

ANOTHER_DISK = Uuid(bytes(15) + b"\x77")
EPOCH = 1
QUIET_LOOKS = 20  # with a new record in none of them, the controller has stopped writing


class Leader:
    """A leader of epoch 1 whose voters are 1, 2 and 3; it is the subject, they are the test."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.kind = subject.node.kind

    def says(self, request: Request[Any]) -> str:
        """Its answer, as a line."""
        return shown(self.subject.ask(request))

    def described(self) -> PartitionDataResponse:
        """What DescribeQuorum says."""
        return self.subject.ask(describes()).topics[0].partitions[0]

    @property
    def voters(self) -> list[int]:
        """Who votes, by DescribeQuorum."""
        return [voter.replica_id for voter in self.described().current_voters]

    @property
    def end_offset(self) -> int:
        """Where its log ends, by DescribeQuorum, which lists a leader that is no voter apart."""
        said = self.described()
        everybody = [*said.current_voters, *said.observers]
        return next(r.log_end_offset for r in everybody if r.replica_id == 1)

    def hear_of(self, *replicas: int) -> None:
        """These have everything that there is."""
        end = self.end_offset
        for replica in replicas:
            request = fetch(EPOCH, end, EPOCH, replica=replica, directory=directory_of(replica))
            assert shown(self.subject.ask(request)).startswith("NONE 1@1")

    def begin(self, request: Request[Any]) -> Token[Any]:
        """Ask for a change on a connection of its own, and see it in the log."""
        before = len(self.voters_records())
        token = self.subject.send(request, by="changes")
        eventually(lambda: len(self.voters_records()) > before, "the change is in the log")
        return token

    def change(self, request: Request[Any], *heard_of: int) -> str:
        """Make a change that these replicas take, until it is committed; what it is answered.

        Some changes are answered before, and the next is refused until then: the leader's own disk
        counts, too, and may be slow.
        """
        token = self.begin(request)
        self.hear_of(*heard_of)
        end = self.end_offset
        eventually(lambda: self.described().high_watermark >= end, "the change is committed")
        return self.answer(token)

    def answer(self, token: Token[Any]) -> str:
        """The answer to a change."""
        return shown(self.subject.receive(token, by="changes"))

    def is_answered(self) -> bool:
        """Whether the answer to a change is there, or comes within a moment."""
        return self.subject.has_answered(by="changes", within_ms=200)

    def voters_records(self) -> list[VotersRecord]:
        """Every VotersRecord of its log."""
        response = self.subject.ask(fetch(EPOCH, directory=directory_of(2)))
        records = memoryview(response.responses[0].partitions[0].records)
        found = []
        for position, header in iter_headers(records):
            if header.is_control:
                controls = read_control(records[position : position + header.size_bytes])
                found += [c.value for c in controls if isinstance(c.value, VotersRecord)]
        return found


@contextlib.contextmanager
def dynamic_leader(kind: str, home: Path) -> Iterator[Leader]:
    """A leader whose controller has written what it writes at first."""
    with scripted_quorum(kind, home, is_hasty=True, is_dynamic=True) as subject:
        eventually(lambda: shown(subject.ask(describes())).startswith("NONE"), "it leads")
        yield Leader(subject)


@pytest.fixture(params=[APACHE, FENCEPOST])
def new_leader(request: pytest.FixtureRequest, kafka_jars, tmp_path: Path) -> Iterator[Leader]:
    """A leader that has not heard of anybody."""
    with dynamic_leader(request.param, tmp_path) as leader:
        yield leader


@pytest.fixture
def leader(new_leader: Leader) -> Leader:
    """A leader whose controller is active, and whose voter 2 has everything."""
    ends: list[int] = []

    def is_quiet() -> bool:
        new_leader.hear_of(2)
        ends.append(new_leader.end_offset)
        return ends[-1] > ends[0] and len(ends) > QUIET_LOOKS and len(set(ends[-QUIET_LOOKS:])) == 1

    eventually(is_quiet, "the controller has written what it writes at first")
    return new_leader


@pytest.fixture
def strangers() -> Iterator[ScriptedVoters]:
    """4 and 5, who listen and do not vote."""
    strangers = ScriptedVoters((4, 5))
    yield strangers
    strangers.close()


def test_an_epoch_begins_with_who_votes(new_leader: Leader) -> None:
    response = new_leader.subject.ask(fetch(EPOCH, directory=directory_of(2)))
    records = memoryview(response.responses[0].partitions[0].records)
    header = next(iter_headers(records))[1]
    assert (header.base_offset, header.next_offset, header.is_control) == (0, 3, True)
    assert [c.type for c in read_control(records[: header.size_bytes])] == [2, 5, 6]
    voters = new_leader.voters_records()[-1].voters
    assert [(v.voter_id, v.voter_directory_id) for v in voters] == [
        (id_, directory_of(id_)) for id_ in (1, 2, 3)
    ]
    assert {v.endpoints[0].name for v in voters} == {"CONTROLLER"}


def test_a_voter_is_who_has_its_disk(new_leader: Leader) -> None:
    end = new_leader.end_offset
    for disk in (ANOTHER_DISK, Uuid.ZERO):
        said = shown(new_leader.subject.ask(fetch(EPOCH, end, EPOCH, directory=disk)))
        assert said == "NONE 1@1 hw=-1 start=0 nodes=[1]"
    assert new_leader.says(describes()) == (
        "NONE 1@1 hw=-1 1:3 2:-1 3:-1 (2:3) (2:3) nodes=[1, 2, 3]"
    )
    assert new_leader.says(adds(4, directory_of(4), 1)) == "REQUEST_TIMED_OUT"
    own = fetch(EPOCH, end, EPOCH, directory=directory_of(2), max_wait_ms=10_000, high_watermark=-1)
    assert new_leader.says(own) == "NONE 1@1 hw=3 start=0 nodes=[1]"
    meant_for_another = vote(EPOCH, 3, voter_directory=ANOTHER_DISK)
    assert new_leader.says(meant_for_another) == "INVALID_VOTER_KEY 1@1 no nodes=[1]"


def test_changes_that_are_refused(leader: Leader, strangers: ScriptedVoters) -> None:
    three, four = directory_of(3), directory_of(4)
    port = strangers.ports[4]
    answers: list[tuple[Request[Any], str]] = [
        (adds(2, four, port), "DUPLICATE_VOTER"),
        (adds(2, directory_of(2), port), "DUPLICATE_VOTER"),
        (adds(4, four, port, listener="OTHER"), "INVALID_REQUEST"),
        (adds(4, Uuid.ZERO, port), "INVALID_REQUEST"),
        (adds(4, four, 1), "REQUEST_TIMED_OUT"),  # no server listens there
        (adds(4, four, port), "REQUEST_TIMED_OUT"),  # it has not fetched
        (removes(9, directory_of(9)), "VOTER_NOT_FOUND"),
        (removes(3, ANOTHER_DISK), "VOTER_NOT_FOUND"),
        (removes(3, Uuid.ZERO), "INVALID_REQUEST"),
        (removes(-1, three), "INVALID_REQUEST"),
        (updates(EPOCH, 9, directory_of(9), 99), "VOTER_NOT_FOUND 1@1"),
        (updates(EPOCH, 3, ANOTHER_DISK, 99), "VOTER_NOT_FOUND 1@1"),
        (updates(EPOCH, 3, Uuid.ZERO, 99), "INVALID_REQUEST 1@1"),
        (updates(EPOCH, 3, three, 99, versions=(0, 0)), "INVALID_REQUEST 1@1"),
        (updates(EPOCH, 3, three, 99, listener=""), "INVALID_REQUEST 1@1"),
        (updates(EPOCH, 3, three, 99, listener="OTHER"), "INVALID_REQUEST 1@1"),
    ]
    before = leader.voters_records()
    assert [leader.says(request) for request, _ in answers] == [said for _, said in answers]
    assert leader.voters == [1, 2, 3] and leader.voters_records() == before


def test_a_voter_is_added(leader: Leader, strangers: ScriptedVoters) -> None:
    leader.hear_of(4)
    change = leader.begin(adds(4, directory_of(4), strangers.ports[4], timeout_ms=20_000))
    assert leader.voters == [1, 2, 3, 4], "a voter set counts from its append"
    pending = [
        leader.says(adds(5, directory_of(5), strangers.ports[5])),
        leader.says(removes(3, directory_of(3))),
        leader.says(updates(EPOCH, 3, directory_of(3), 99)),
    ]
    assert pending == ["REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT 1@1"]
    leader.hear_of(4)
    assert not leader.is_answered(), "two of four are no majority"
    leader.hear_of(2)
    assert leader.answer(change) == "NONE"
    assert leader.says(adds(4, directory_of(4), strangers.ports[4])) == "DUPLICATE_VOTER"
    four = leader.voters_records()[-1].voters[-1]
    assert (four.voter_id, four.voter_directory_id) == (4, directory_of(4))
    assert [(e.name, e.port) for e in four.endpoints] == [("CONTROLLER", strangers.ports[4])]


def test_a_voter_is_added_at_once(leader: Leader, strangers: ScriptedVoters) -> None:
    leader.hear_of(5)
    change = leader.begin(adds(5, directory_of(5), strangers.ports[5], at_once=True))
    assert leader.answer(change) == "NONE"
    assert leader.described().high_watermark < leader.end_offset
    assert leader.says(removes(5, directory_of(5))) == "REQUEST_TIMED_OUT"


def test_voters_are_removed_down_to_one(leader: Leader) -> None:
    assert leader.change(removes(3, directory_of(3)), 2) == "NONE"
    assert leader.voters == [1, 2]
    assert leader.change(removes(2, directory_of(2))) == "NONE", "the leader alone is a majority"
    assert leader.voters == [1]
    assert leader.says(removes(1, directory_of(1))) == "VOTER_NOT_FOUND"
    assert leader.says(describes()).startswith("NONE 1@1")


def test_a_leader_is_removed(leader: Leader) -> None:
    change = leader.begin(removes(1, directory_of(1)))
    assert leader.voters == [2, 3]
    assert 1 in [observer.replica_id for observer in leader.described().observers]
    end = leader.end_offset
    leader.hear_of(2)
    assert not leader.is_answered(), "one of two is no majority, and the leader does not count"
    commits = fetch(EPOCH, end, EPOCH, replica=3, directory=directory_of(3))
    leader.subject.ask(commits)
    assert leader.answer(change) == "NONE"
    eventually(lambda: not leader.says(describes()).startswith("NONE"), "it has resigned")
    assert not leader.says(commits).startswith("NONE")


def test_a_voter_moves(leader: Leader) -> None:
    moves = updates(EPOCH, 3, directory_of(3), 12_345)
    assert leader.change(moves, 2) == "NONE 1@1"
    nodes = {node.node_id: node.listeners[0].port for node in leader.subject.ask(describes()).nodes}
    assert nodes[3] == 12_345
    assert leader.change(moves, 2) == "NONE 1@1", "what changes nothing is written all the same"


def test_a_leader_that_stops_hands_over(leader: Leader) -> None:
    node, end = leader.subject.node, leader.end_offset
    leader.subject.ask(fetch(EPOCH, end - 1, EPOCH, replica=3, directory=directory_of(3)))
    assert node.process is not None
    node.process.terminate()
    request, heard = leader.subject.peers.hear(EndQuorumEpochRequest)
    said = request.topics[0].partitions[0]
    assert (said.leader_id, said.leader_epoch) == (1, EPOCH)
    candidates = [(c.candidate_id, c.candidate_directory_id) for c in said.preferred_candidates]
    assert candidates == [(id_, directory_of(id_)) for id_ in (2, 3)], "the longest log first"
    assert heard.version == 1
