"""Transactional batches, tickets and markers at a leader: every row of the tables, in order."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.machines.partition import (
    NO_TICKET,
    TICKET_NOT_NEEDED,
    BecomeFollower,
    CoordinatorAppend,
    PartitionConfig,
    Produce,
    ProduceResult,
    StartVerification,
    StopReplica,
    VerificationStarted,
    WriteMarker,
)
from fencepost.machines.partition.transactions import TICKETS_MAX
from fencepost.wire.errors import ErrorCode

from .test_partition_produce import Leader

PRODUCER = 7
NONE = ErrorCode.NONE
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
BAD_STATE = ErrorCode.INVALID_TXN_STATE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class TxnLeader(Leader):
    """A leader, and what is said to it about transactions."""

    def ask(
        self, epoch: int = 0, first: int = 0, *, bumps: bool = False, pid: int = PRODUCER
    ) -> Any:
        self.tokens += 1
        self.feed(StartVerification(pid, epoch, first, bumps, self.tokens))
        return self.world.replies[self.tokens]

    def ticket(self, epoch: int = 0, first: int = 0, *, bumps: bool = False) -> int:
        started = self.ask(epoch, first, bumps=bumps)
        assert started.error_code is NONE and started.ticket > NO_TICKET
        return int(started.ticket)

    def write(
        self, ticket: int = NO_TICKET, *, epoch: int = 0, first: int = 0, transactional: bool = True
    ) -> ErrorCode:
        """One record with acks=0: the verdict is heard at once."""
        self.tokens += 1
        data = build_batch(
            [(None, b"v")],
            timestamp_ms=1,
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=first,
            transactional=transactional,
        )
        self.feed(Produce(RecordBatch.parse(data), 0, self.tokens, 0, ticket))
        return self.world.replies[self.tokens].error_code

    def mark(
        self,
        epoch: int = 0,
        *,
        committed: bool = True,
        coordinator_epoch: int = 3,
        version: int = 0,
        timeout_ms: int = 30_000,
    ) -> int:
        """A marker; the token of its answer."""
        self.tokens += 1
        batch = marker(epoch, coordinator_epoch, committed=committed)
        deadline_ms = self.world.now + timeout_ms
        self.feed(WriteMarker(batch, coordinator_epoch, version, self.tokens, deadline_ms))
        return self.tokens

    def marked(self, *args: Any, **said: Any) -> ErrorCode:
        """The same, with everything flushed: the answer."""
        token = self.mark(*args, **said)
        self.flush()
        return self.world.replies[token].error_code

    def begun(self, epoch: int = 0) -> TxnLeader:
        """A transaction is open."""
        assert self.write(self.ticket(epoch), epoch=epoch) is NONE
        return self


def marker(epoch: int, coordinator_epoch: int, *, committed: bool = True) -> RecordBatch:
    data = build_end_txn_marker(
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        timestamp_ms=1,
    )
    return RecordBatch.parse(data)


# Tickets


def test_the_first_batch_of_a_transaction_needs_a_ticket_and_later_ones_do_not() -> None:
    leader = TxnLeader()
    assert leader.write() is BAD_STATE and leader.log.end_offset == 0
    ticket = leader.ticket()
    assert leader.write(ticket + 1) is BAD_STATE
    assert leader.write(ticket) is NONE
    assert leader.ask() == VerificationStarted(NONE, NO_TICKET)
    assert leader.write(first=1) is NONE
    assert leader.write(ticket, first=2) is NONE, "one that asked before the other had written"


def test_without_verification_no_ticket_is_needed() -> None:
    leader = TxnLeader()
    assert leader.write(TICKET_NOT_NEEDED) is NONE


def test_who_asks_again_gets_the_same_ticket() -> None:
    leader = TxnLeader()
    assert leader.ticket() == leader.ticket(first=1) == leader.ticket(epoch=1)
    assert leader.ask(pid=8).ticket != leader.ticket()


def test_a_marker_takes_the_ticket_away() -> None:
    """What the coordinator said before it aborted the transaction must not let anything in."""
    leader = TxnLeader()
    ticket = leader.ticket()
    assert leader.marked(committed=False) is NONE
    assert leader.write(ticket) is BAD_STATE
    assert leader.ticket() > ticket


@pytest.mark.parametrize(
    ("bumps", "version", "asked", "marked", "stays"),
    [
        (True, 2, 1, 1, True),
        (True, 2, 2, 1, True),
        (True, 2, 0, 1, False),
        (True, 0, 1, 1, False),
        (False, 2, 1, 1, False),
        (False, 0, 1, 1, False),
    ],
)
def test_the_late_marker_of_the_transaction_before_leaves_the_ticket(
    bumps: bool, version: int, asked: int, marked: int, stays: bool
) -> None:
    """With KIP-890 it has the epoch that the next transaction begins in."""
    leader = TxnLeader()
    ticket = leader.ticket(asked, bumps=bumps)
    assert leader.marked(marked, version=version) is NONE
    expected = NONE if stays else FENCED if asked < marked else BAD_STATE
    assert leader.write(ticket, epoch=asked) is expected


def test_nobody_waits_who_has_written_or_was_ended() -> None:
    """And what begins next gets a ticket of its own, which no answer of before is for."""
    leader = TxnLeader()
    waiting = leader.machine.appending.transactions
    ticket = leader.ticket(bumps=True)
    assert leader.marked(1, version=2) is NONE and not len(waiting)
    assert leader.ticket(epoch=1, bumps=True) > ticket
    assert leader.write(leader.ticket(epoch=1), epoch=1) is NONE and not len(waiting)
    assert leader.marked(2) is NONE
    ticket = leader.ticket(epoch=2)
    assert coordinated(leader, offsets(2), ticket=ticket) is NONE and not len(waiting)


def test_a_refused_marker_takes_no_ticket_away() -> None:
    leader = TxnLeader().begun(1)
    assert leader.marked(1) is NONE
    ticket = leader.ticket(1, first=1)
    assert leader.marked(0) is FENCED
    assert leader.write(ticket, epoch=1, first=1) is NONE


def test_an_older_epoch_is_told_before_the_ticket_is_looked_at() -> None:
    """KAFKA-19690: 48 is fatal to clients, 47 is not."""
    leader = TxnLeader()
    ticket = leader.ticket()
    assert leader.marked(1, committed=False) is NONE
    assert leader.write(ticket) is leader.write() is FENCED
    assert leader.ask().error_code is FENCED, "and no coordinator is asked (KAFKA-18042)"


def test_no_ticket_outlives_the_leadership() -> None:
    leader = TxnLeader()
    ticket = leader.ticket()
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (1, 2)))
    assert leader.ask().error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.lead(3, 3, (1,), (1,))
    assert leader.write(ticket) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    new = leader.ticket()
    assert leader.write(ticket) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.write(new) is NONE


def test_a_replica_that_is_gone_gives_no_ticket() -> None:
    leader = TxnLeader()
    leader.feed(StopReplica(is_deleted=True))
    assert leader.ask().error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    token = leader.mark()
    assert leader.world.replies[token].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_tickets_are_bounded() -> None:
    leader = TxnLeader()
    ticket = leader.ticket()
    for pid in range(100, 100 + TICKETS_MAX):
        leader.ask(pid=pid)
    assert leader.write(ticket) is BAD_STATE, "the oldest is forgotten"
    assert leader.ask(pid=100).ticket == ticket + 1


# Sequences


def test_a_batch_that_overtook_a_lower_one_is_refused() -> None:
    leader = TxnLeader()
    assert leader.ticket(first=5) == leader.ticket(first=3) == leader.ticket(first=8)
    ticket = leader.ticket(first=8)
    assert leader.write(ticket, first=5) is leader.write(ticket, first=4) is OUT_OF_ORDER
    assert leader.write(ticket, first=3) is NONE
    assert leader.write(first=4) is NONE


def test_a_new_epoch_begins_with_its_own_lowest_sequence() -> None:
    leader = TxnLeader()
    leader.ticket(epoch=0, first=3)
    ticket = leader.ticket(epoch=1, first=9)
    leader.ticket(epoch=0, first=1)
    assert leader.write(ticket, epoch=1, first=9) is NONE


@pytest.mark.parametrize(("bumps", "expected"), [(True, OUT_OF_ORDER), (False, NONE)])
def test_who_bumps_epochs_begins_at_sequence_0(bumps: bool, expected: ErrorCode) -> None:
    """KAFKA-18202: state that is lost must not let batches in behind a gap."""
    leader = TxnLeader()
    assert leader.write(leader.ticket(first=2, bumps=bumps), first=2) is expected


@pytest.mark.parametrize(("bumps", "expected"), [(True, OUT_OF_ORDER), (False, NONE)])
def test_the_newer_epoch_says_whether_it_bumps(bumps: bool, expected: ErrorCode) -> None:
    leader = TxnLeader()
    leader.ticket(epoch=0, first=0, bumps=not bumps)
    ticket = leader.ticket(epoch=1, first=2, bumps=bumps)
    assert leader.write(ticket, epoch=1, first=2) is expected


def test_who_bumps_epochs_goes_on_with_its_sequences_where_it_is_known() -> None:
    """An operator has aborted what hung, with a marker of the same epoch."""
    leader = TxnLeader().begun()
    assert leader.marked(committed=False) is NONE
    assert leader.write(leader.ticket(first=1, bumps=True), first=1) is NONE


def test_a_duplicate_is_answered_whatever_became_of_its_transaction() -> None:
    leader = TxnLeader().begun()
    assert leader.marked() is NONE
    end = leader.log.end_offset
    assert leader.write() is NONE and leader.log.end_offset == end
    assert leader.write(first=1) is BAD_STATE


def test_nothing_else_enters_while_a_transaction_is_open() -> None:
    leader = TxnLeader().begun()
    assert leader.write(first=1, transactional=False) is BAD_STATE
    assert leader.write(epoch=1, first=0, transactional=False) is BAD_STATE
    assert leader.write(first=3, transactional=False) is OUT_OF_ORDER
    assert leader.marked() is NONE
    assert leader.write(first=1, transactional=False) is NONE


# Markers


@pytest.mark.parametrize(
    ("version", "epoch", "coordinator_epoch", "expected"),
    [
        (0, 4, 3, FENCED),
        (0, 5, 3, NONE),
        (0, 6, 3, NONE),
        (2, 4, 3, FENCED),
        (2, 5, 3, FENCED),
        (2, 6, 3, NONE),
    ],
)
def test_which_epoch_ends_a_transaction(
    version: int, epoch: int, coordinator_epoch: int, expected: ErrorCode
) -> None:
    leader = TxnLeader().begun(5)
    said = {"version": version, "coordinator_epoch": coordinator_epoch}
    assert leader.marked(epoch, **said) is expected
    is_open = expected is not NONE
    assert (leader.machine.last_stable_offset == 0) is is_open


def test_the_last_epoch_ends_its_own_transaction() -> None:
    leader = TxnLeader().begun(32767)
    assert leader.marked(32767, version=2, committed=False) is NONE


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_may_come_again(version: int) -> None:
    """KAFKA-19999: a coordinator that has just loaded does not know that it was written."""
    leader = TxnLeader().begun()
    assert leader.marked(1, version=version) is NONE
    assert leader.marked(1, version=version, coordinator_epoch=4) is NONE
    assert leader.log.end_offset == 3
    assert leader.machine.last_stable_offset == 3


def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    leader = TxnLeader().begun()
    assert leader.marked(0, coordinator_epoch=9) is NONE
    assert leader.marked(0, coordinator_epoch=8) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert leader.marked(0, coordinator_epoch=9) is NONE


def test_a_marker_without_a_transaction_is_remembered() -> None:
    """Or its producer's late batches would be taken for those of a new producer."""
    leader = TxnLeader()
    assert leader.marked(5) is NONE
    assert leader.machine.last_stable_offset == 1
    assert leader.ask(4).error_code is FENCED
    state = leader.log.producers.get(PRODUCER)
    assert (state.producer_epoch, state.coordinator_epoch) == (5, 3)


def test_a_marker_is_answered_when_it_is_committed_and_only_then_shown() -> None:
    leader = TxnLeader((1, 2))
    leader.begun()
    token = leader.mark()
    leader.flush()
    assert token not in leader.world.replies
    leader.fetched(2, 1)
    assert (leader.machine.high_watermark, leader.machine.last_stable_offset) == (1, 0)
    leader.fetched(2, 2)
    assert leader.world.replies[token] == ProduceResult(NONE, 1, -1, 0)
    assert leader.machine.last_stable_offset == 2


def test_a_marker_that_too_few_replicas_have_is_refused_or_late() -> None:
    two = PartitionConfig(min_insync_replicas=2)
    leader = TxnLeader((1, 2), isr=(1,), config=two)
    assert leader.marked() is ErrorCode.NOT_ENOUGH_REPLICAS and leader.log.end_offset == 0
    leader = TxnLeader((1, 2))
    token = leader.mark(timeout_ms=100)
    leader.world.advance(100)
    assert leader.world.replies[token].error_code is ErrorCode.REQUEST_TIMED_OUT
    token = leader.mark()
    leader.feed(BecomeFollower(2, 2, 2, (1, 2), (1, 2)))
    assert leader.world.replies[token].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    token = leader.mark()
    assert leader.world.replies[token].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


# What coordinators write


def coordinated(leader: TxnLeader, batch: RecordBatch, **said: Any) -> ErrorCode:
    leader.tokens += 1
    leader.feed(CoordinatorAppend(batch, 1, leader.tokens, **said))
    return leader.world.replies[leader.tokens].error_code


def offsets(epoch: int = 0) -> RecordBatch:
    data = build_batch(
        [(b"k", b"v")],
        timestamp_ms=1,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    return RecordBatch.parse(data)


def test_offsets_need_a_ticket_and_no_sequence() -> None:
    leader = TxnLeader()
    assert coordinated(leader, offsets()) is BAD_STATE
    ticket = leader.ticket(first=-1, bumps=True)
    assert coordinated(leader, offsets(), ticket=ticket) is NONE
    assert coordinated(leader, offsets()) is NONE, "the same sequence, and it is no duplicate"
    assert leader.log.end_offset == 2
    assert coordinated(leader, marker(1, 3), coordinator_epoch=3, transaction_version=2) is NONE
    assert coordinated(leader, offsets(), ticket=ticket) is FENCED
    assert coordinated(leader, offsets(1), ticket=ticket) is BAD_STATE


def test_a_coordinators_marker_is_judged_like_any_other() -> None:
    leader = TxnLeader().begun(5)
    assert coordinated(leader, marker(4, 3), coordinator_epoch=3) is FENCED
    bumped = {"coordinator_epoch": 3, "transaction_version": 2}
    assert coordinated(leader, marker(5, 3), **bumped) is FENCED
    assert coordinated(leader, marker(6, 3), **bumped) is NONE
    old = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert coordinated(leader, marker(6, 2), coordinator_epoch=2) is old
