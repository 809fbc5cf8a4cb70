"""What ends a machine: a disk that refuses, and our own mistakes."""

from __future__ import annotations

import pytest

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.effects import Append, Persisted
from fencepost.machines.quorum import QuorumMachine, QuorumState, Start
from fencepost.wire.errors import ErrorCode

from .quorum_fixtures import CONFIG
from .quorum_log import ListLog
from .quorum_world import World


def test_a_refused_write_ends_it_without_a_promise() -> None:
    world = World(1)
    world.start(1)
    world.settle()
    world.nodes[1].refuses_disk = "no space left"
    world.append(1, "never")
    assert world.nodes[1].failed == "the disk failed: no space left"
    assert world.outcomes["never"].error is ErrorCode.KAFKA_STORAGE_ERROR
    world.append(1, "later")
    assert world.outcomes["later"].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_vote_that_cannot_be_written_is_not_told() -> None:
    world = World(3)
    for id_ in world.nodes:
        world.start(id_)
    world.nodes[3].refuses_disk = "I/O error"
    world.fire(1, "election")
    world.settle()
    assert world.nodes[3].failed and world.leader() == 1
    assert world.machine(1)._body.followers[3].end_offset == -1


def test_our_own_mistakes_are_asserted() -> None:
    log = ListLog()
    machine = QuorumMachine(1, (1, 2), log, QuorumState(), CONFIG)
    with pytest.raises(AssertionError, match="Start comes first"):
        machine.step(Persisted(0), 0, 0)
    machine.step(Start([3]), 0, 0)
    with pytest.raises(AssertionError, match="Start comes first"):
        machine.step(Start([3]), 0, 0)
    log.append(Append([RecordBatch.parse(build_batch([(None, b"behind its back")]))], 1))
    with pytest.raises(AssertionError, match="as we left it"):
        machine.step(Persisted(0), 0, 0)
    unflushed = QuorumMachine(1, (1, 2), log, QuorumState(), CONFIG)
    with pytest.raises(AssertionError, match="flushed"):
        unflushed.step(Start([3]), 0, 0)
    with pytest.raises(AssertionError, match="somebody to ask"):
        QuorumMachine(1, (), log, QuorumState(), CONFIG)
