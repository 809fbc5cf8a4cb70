"""Histories of transactions told by hand; for each check of transactions, wrong ones."""

from __future__ import annotations

from fencepost.machines.transaction.epochs import Identity
from fencepost.machines.transaction.model import Transaction as Coordinated, TransactionState
from fencepost.machines.transaction.records import TransactionRecord
from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import OffsetKey, OffsetWrite
from fencepost.sim.oracle import Oracle
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey
from fencepost.sim.transaction_oracle import ReadCommitted, Transaction
from fencepost.wire.types import Uuid

from .partition_histories import KEY, Wrong, batch, deliver

S = TransactionState
OTHER: PartitionKey = (KEY[0], 1)
STATE: PartitionKey = (Uuid(b"transaction logs"), 0)
OFFSET = OffsetWrite(OffsetKey("g", "t", 0), 5)


def begin(oracle: Oracle, name: str = "1", epoch: int = 4, *, bumps: bool = True) -> Transaction:
    """Producer 9 begins a transaction in that epoch."""
    one = Transaction(name, "x", 9, epoch, bumps)
    oracle.transactions.begun(one)
    return one


def data(offset: int = 0, epoch: int = 4) -> PartitionBatch:
    """What producer 9 writes in a transaction."""
    return batch(
        offset, producer_id=9, producer_epoch=epoch, base_sequence=offset, is_transactional=True
    )


def marker(offset: int, commits: bool, epoch: int = 5) -> PartitionBatch:
    """The end of a transaction of producer 9."""
    return batch(
        offset, producer_id=9, producer_epoch=epoch, is_transactional=True, commits=commits
    )


def write(
    oracle: Oracle, one: Transaction, key: PartitionKey = KEY, offset: int = 0, epoch: int = 4
) -> None:
    """A batch of the transaction is acknowledged, and may be read."""
    sent = data(offset, epoch)
    oracle.transactions.sends(one, key, sent.crc)
    one.acknowledged[key, sent.crc] = None
    oracle.transactions.written(key, sent, ())


def end(
    check: Check,
    oracle: Oracle,
    commits: bool,
    key: PartitionKey = KEY,
    epoch: int = 5,
    offset: int = 1,
) -> None:
    """A marker may be read."""
    marked = oracle.transactions.marked(key, marker(offset, commits, epoch))
    check.marked(oracle, marked)
    for one in marked.ended:
        one.outcomes[key] = commits


def decide(
    check: Check,
    oracle: Oracle,
    *steps: tuple[TransactionState, int],
    version: int = 2,
    took_ms: int = 0,
) -> None:
    """The coordinator's log says these states and epochs, one after the other, each so long after
    the transaction has begun that may take a second."""
    for number, (state, epoch) in enumerate(steps):
        said = Coordinated("x", Identity(9, epoch), 1_000, state, client_version=version)
        said = said._replace(start_ms=0, last_update_ms=took_ms)
        at = batch(number)
        oracle.transactions.appended(STATE, at, (TransactionRecord("x", said),))
        for decided in oracle.transactions.decided_in(STATE, at):
            check.decided(oracle, decided)


def two_ways(check: Check) -> None:
    oracle = Oracle()
    one = begin(oracle)
    one.wanted.add(True)
    write(oracle, one)
    write(oracle, one, OTHER)
    end(check, oracle, commits=True)
    end(check, oracle, commits=False, key=OTHER)


def aborted_though_told(check: Check) -> None:
    oracle = Oracle()
    one = begin(oracle)
    one.wanted.add(True)
    one.told = True
    write(oracle, one)
    end(check, oracle, commits=False)


def committed_unasked(check: Check) -> None:
    oracle = Oracle()
    write(oracle, begin(oracle))
    end(check, oracle, commits=True)


def half_committed(check: Check) -> None:
    oracle = Oracle()
    one = begin(oracle)
    one.wanted.add(True)
    write(oracle, one)
    write(oracle, one, OTHER)
    end(check, oracle, commits=True)
    check.at_end(oracle)


def without_its_offsets(check: Check) -> None:
    oracle = Oracle()
    one = begin(oracle)
    one.wanted.add(True)
    one.offsets[OFFSET] = None
    write(oracle, one)
    end(check, oracle, commits=True)
    check.at_end(oracle)


def read(outcome: bool | None, *given: int) -> Wrong:
    """A consumer reads beyond a batch that has ended so."""

    def wrong(check: Check) -> None:
        oracle = Oracle()
        write(oracle, begin(oracle))
        if outcome is not None:
            oracle.transactions.marked(KEY, marker(1, outcome))
        check.read_committed(oracle, ReadCommitted(1, KEY, 0, 2, frozenset(given)))

    return wrong


def delivered(outcome: bool | None) -> Wrong:
    """A share group that reads committed data is given a record that has ended so."""

    def wrong(check: Check) -> None:
        oracle = Oracle()
        oracle.shares.reads_committed = True
        deliver(check, ("a", 0, 0, 1), oracle=oracle)
        write(oracle, begin(oracle))
        if outcome is not None:
            oracle.transactions.marked(KEY, marker(1, outcome))
        deliver(check, ("a", 0, 0, 2), oracle=oracle)

    return wrong


def marked_early(check: Check) -> None:
    check.replica_appended(Oracle(), 1, KEY, marker(1, True))


def marked_otherwise(check: Check) -> None:
    oracle = Oracle()
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_COMMIT, 5))
    check.replica_appended(oracle, 1, KEY, marker(1, False))


def decided_twice(check: Check) -> None:
    decide(check, Oracle(), (S.PREPARE_COMMIT, 5), (S.COMPLETE_ABORT, 5))


def two_at_a_time(check: Check) -> None:
    oracle = Oracle()
    write(oracle, begin(oracle))
    second = begin(oracle, "2", 5)
    sent = data(1, 5)
    oracle.transactions.sends(second, KEY, sent.crc)
    check.became_visible(oracle, KEY, sent)


def fenced_and_there(check: Check) -> None:
    oracle = Oracle()
    for one in (marker(0, False), data(1)):
        check.became_visible(oracle, KEY, one)


def bumped_twice(check: Check) -> None:
    decide(check, Oracle(), (S.ONGOING, 4), (S.PREPARE_ABORT, 6))


def aborted_for_no_reason(check: Check) -> None:
    oracle = Oracle()
    begin(oracle)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_ABORT, 5))


# -- version 1 of transactions: an epoch has many --------------------------------------------------


def after_an_abort(check: Check, oracle: Oracle, *, bumps: bool = False) -> Transaction:
    """A transaction was aborted, here and in another partition, and the next one has written."""
    first = begin(oracle, bumps=bumps)
    first.wanted.add(False)
    write(oracle, first)
    oracle.transactions.end_asked(9, 4, False)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_ABORT, 4), version=0)
    end(check, oracle, commits=False, epoch=4)
    decide(check, oracle, (S.COMPLETE_ABORT, 4), version=0)
    second = begin(oracle, "2", bumps=bumps)
    write(oracle, second, offset=2)
    return second


def late_end(*, bumps: bool = False) -> Wrong:
    """The abort of the first transaction comes again, and ends the second one."""

    def told(check: Check) -> None:
        oracle = Oracle()
        second = after_an_abort(check, oracle, bumps=bumps)
        oracle.transactions.end_asked(9, 4, False)
        decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_ABORT, 4), version=0)
        end(check, oracle, commits=False, epoch=4, offset=3)
        assert second.is_torn

    return told


def late_marker(check: Check) -> None:
    """The marker of the first transaction comes again, and ends the second one there."""
    oracle = Oracle()
    second = after_an_abort(check, oracle)
    end(check, oracle, commits=False, epoch=4, offset=3)
    assert second.is_torn


def ended_without_a_request(check: Check) -> None:
    oracle = Oracle()
    after_an_abort(check, oracle)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_ABORT, 4), version=0)


def ended_by_a_late_end_that_was_refused(check: Check) -> None:
    oracle = Oracle()
    after_an_abort(check, oracle)
    oracle.transactions.end_asked(9, 4, False)
    oracle.transactions.end_refused(9, 4, False)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_ABORT, 4), version=0)


def ended_otherwise_than_the_late_end_says(check: Check) -> None:
    oracle = Oracle()
    after_an_abort(check, oracle)
    oracle.transactions.end_asked(9, 4, False)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_COMMIT, 4), version=0)


def ended_by_a_stranger(check: Check) -> None:
    """The coordinator decides on an end that no EndTxn has asked for."""
    oracle = Oracle()
    begin(oracle, bumps=False)
    oracle.transactions.end_asked(9, 4, True)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_COMMIT, 4), version=0)


def marked_where_none_was(check: Check) -> None:
    """A marker like that of the first transaction, in a partition where that had none."""
    oracle = Oracle()
    second = after_an_abort(check, oracle)
    write(oracle, second, OTHER)
    end(check, oracle, commits=False, key=OTHER, epoch=4)


def written_late(check: Check) -> None:
    """A batch of the first transaction is committed with the second one."""
    oracle = Oracle()
    second = after_an_abort(check, oracle)
    write(oracle, oracle.transactions.all[0], offset=3)
    second.wanted.add(True)
    decide(check, oracle, (S.ONGOING, 4), (S.PREPARE_COMMIT, 4), version=0)
    end(check, oracle, commits=True, epoch=4, offset=4)


def hanging(check: Check) -> None:
    oracle = Oracle()
    write(oracle, begin(oracle))
    check.at_end(oracle)


WRONG: list[tuple[str, str, Wrong]] = [
    ("I32", "committed here and aborted there", two_ways),
    ("I32", "aborted, and the producer heard otherwise", aborted_though_told),
    ("I32", "committed, and its producer did not ask", committed_unasked),
    ("I32", "committed in one partition of two", half_committed),
    ("I32", "committed without its offsets", without_its_offsets),
    ("I32", "aborted, and its producer did not ask", aborted_for_no_reason),
    ("I32", "of version 1, aborted for no reason", ended_without_a_request),
    ("I32", "of version 1, a late end that was refused", ended_by_a_late_end_that_was_refused),
    ("I32", "of version 1, a late end and another", ended_otherwise_than_the_late_end_says),
    ("I32", "of version 1, an end that was not sent", ended_by_a_stranger),
    ("I32", "of version 1, a marker in another partition", marked_where_none_was),
    ("I32", "of version 1, a batch of the one before", written_late),
    ("I32", "of version 2, a late end", late_end(bumps=True)),
    ("I33", "aborted data are given", read(False, 0)),
    ("I33", "undecided data are given", read(None, 0)),
    ("I33", "undecided data are passed over", read(None)),
    ("I33", "committed data are missed", read(True)),
    ("I33", "a share group is given aborted data", delivered(False)),
    ("I33", "a share group is given undecided data", delivered(None)),
    ("I34", "a marker of what is not decided", marked_early),
    ("I34", "a marker that says otherwise", marked_otherwise),
    ("I34", "a decision that is changed", decided_twice),
    ("I34", "two transactions of a producer at a time", two_at_a_time),
    ("I35", "a fenced producer writes", fenced_and_there),
    ("I35", "an end that begins two epochs", bumped_twice),
    ("I37", "a transaction that has no end", hanging),
]
RISKS_OF_VERSION_1: list[tuple[str, Wrong]] = [
    ("a late end", late_end()),
    ("a late marker", late_marker),
]
"""What KIP-890 is for, and nothing but a new epoch with every end can prevent."""
