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
from .quorum_stages import quorum


def test_a_refused_write_ends_it_without_a_promise() -> None:
    world = quorum(1)
    world.start()
    world.settle()
    world.refuse(1, "write", ".log")
    world.append(1, "never")
    assert "the simulated disk refuses" in (world.node(1).gave_up or "")
    assert world.outcomes["never"].error is ErrorCode.KAFKA_STORAGE_ERROR
    world.append(1, "later")
    assert world.outcomes["later"].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_vote_that_cannot_be_written_is_not_told() -> None:
    world = quorum(3)
    world.start()
    world.refuse(3, "write", "quorum-state")
    world.fire(1, "election")
    world.settle()
    assert world.node(3).gave_up and world.leader() == 1
    assert world.machine(1).node.role_state.tracker.voters[3].end_offset == -1


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
    with pytest.raises(AssertionError, match="a node to ask"):
        QuorumMachine(1, (), log, QuorumState(), CONFIG)
