"""What really became of transactions, as the observer of brokers and of their clients knows it.

`TransactionOracle` is told by producers what they write in which transaction, what they ask for and
what they hear of it; of partitions, which batches consumers may read by now, markers among them, in
the order of the log; and what the coordinators' log, `__transaction_state`, says by then. It judges
nothing; the checks do.

With version 1 of transactions one epoch serves many of them, so what is delayed on its way can end
a later one (the reason for KIP-890). Two histories do, and the later transaction `is_torn` then, of
which nothing is promised: a coordinator decides, in its epoch, an end that its producer has not
asked for, after an EndTxn of an earlier transaction of that epoch has arrived that did; or, before
its own end is decided, a partition gets a marker once more that an earlier one has there already.
What its producer was told has ended before anything was decided is no such history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.machines.transaction.model import ENDING, Transaction as Coordinated
from fencepost.machines.transaction.records import TransactionRecord
from fencepost.sim.group_oracle import OffsetWrite
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey

Written = tuple[PartitionKey, int]
"""A batch by its partition and checksum."""


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of one producer."""

    name: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    bumps: bool
    """Whether it is of version 2, whose end begins the next epoch."""
    wanted: set[bool] = field(default_factory=set)
    """Which ends its producer has asked for: to commit (True), to abort."""
    told: bool | None = None
    """Whether its producer heard that it is committed, or aborted (False)."""
    acknowledged: dict[Written, None] = field(default_factory=dict)
    """What its producer was told is written."""
    offsets: dict[OffsetWrite, None] = field(default_factory=dict)
    """Offsets that its producer was told are part of it."""
    outcomes: dict[PartitionKey, bool] = field(default_factory=dict)
    """How it has ended, by partition."""
    gave_up: bool = False
    """Whether its producer does not know of a batch whether it is written, and must abort."""
    decided: bool | None = None
    """How its coordinator has decided, in its own epoch; of version 1 alone."""
    late_ends: set[bool] = field(default_factory=set)
    """Ends that were asked for in earlier transactions of its epoch, and not in it, when an EndTxn
    arrived that asks for them."""
    is_torn: bool = False
    fences_before: int = 0
    """How often a producer id had been asked for, under its transactional id, when it began."""


class Marked(NamedTuple):
    """A marker that consumers may read, and the transactions that it ends there."""

    key: PartitionKey
    batch: PartitionBatch
    ended: tuple[Transaction, ...]

    @property
    def commits(self) -> bool:
        """Whether it commits them."""
        return bool(self.batch.commits)


class ReadCommitted(NamedTuple):
    """What a consumer of committed data was given of a stretch of a partition, by base offsets."""

    client_id: int
    key: PartitionKey
    from_offset: int
    to_offset: int
    given: frozenset[int]


class Decided(NamedTuple):
    """A record of `__transaction_state` that is committed, and the one before of the same id."""

    before: Coordinated | None
    after: Coordinated | None


class TransactionOracle:
    """See the module docstring."""

    def __init__(self) -> None:
        self.all: list[Transaction] = []
        """Every transaction that was begun, in that order."""
        self.outcomes: dict[PartitionKey, dict[int, bool | None]] = {}
        """By base offset of what was written in a transaction and may be read, how it has ended;
        None while it has not."""
        self.marker_offsets: dict[PartitionKey, set[int]] = {}
        """Where markers stand that may be read."""
        self._bases: dict[PartitionKey, dict[int, int]] = {}
        self.coordinated: dict[str, Coordinated] = {}
        """By transactional id, what its coordinator's log says."""
        self.jumps: set[tuple[str, int]] = set()
        """(transactional id, epoch) pairs that the simulator has set (`age`)."""
        self._of_batch: dict[Written, Transaction] = {}
        self._of_offset: dict[OffsetWrite, Transaction] = {}
        self._open: dict[tuple[PartitionKey, int], dict[Transaction, list[int]]] = {}
        self._records: dict[Written, tuple[TransactionRecord, ...]] = {}
        self._decided: dict[tuple[int, int], dict[bool, int]] = {}
        self._of_epoch: dict[tuple[int, int], list[Transaction]] = {}
        self._torn_by: dict[Written, list[Transaction]] = {}
        self._markers: set[tuple[PartitionKey, int, int, bool]] = set()
        self._fences: dict[str, int] = {}

    # -- told by producers ---------------------------------------------------------------------

    def begun(self, transaction: Transaction) -> None:
        """A producer begins a transaction."""
        transaction.fences_before = self._fences.get(transaction.transactional_id, 0)
        self.all.append(transaction)
        of_epoch = (transaction.producer_id, transaction.producer_epoch)
        self._of_epoch.setdefault(of_epoch, []).append(transaction)

    def sends(self, transaction: Transaction, key: PartitionKey, crc: int) -> None:
        """The batch with this checksum is part of the transaction."""
        self._of_batch[key, crc] = transaction

    def sends_offset(self, transaction: Transaction, write: OffsetWrite) -> None:
        """This offset, which no other client ever commits, is part of the transaction."""
        self._of_offset[write] = transaction

    # -- told by brokers -----------------------------------------------------------------------

    def id_asked(self, transactional_id: str) -> None:
        """InitProducerId has arrived: it may fence the producer that has the transactional id."""
        self._fences[transactional_id] = self._fences.get(transactional_id, 0) + 1

    def end_asked(self, producer_id: int, epoch: int, commits: bool) -> None:
        """A request to end a transaction has arrived: of the latest one of that epoch, or late."""
        latest = self.latest(producer_id, epoch)
        if latest is None or latest.bumps or commits in latest.wanted:
            return
        if any(commits in one.wanted for one in self._of_epoch[producer_id, epoch]):
            latest.late_ends.add(commits)

    def end_refused(self, producer_id: int, epoch: int, commits: bool) -> None:
        """The coordinator has answered such a request with an error, and decided nothing."""
        latest = self.latest(producer_id, epoch)
        if latest is not None:
            latest.late_ends.discard(commits)

    def appended(
        self, key: PartitionKey, batch: PartitionBatch, records: tuple[TransactionRecord, ...]
    ) -> None:
        """A replica of `__transaction_state` has a batch that says this."""
        written = key, batch.crc
        if written not in self._records:
            ends = (one.transaction for one in records if one.transaction is not None)
            self._torn_by[written] = [
                torn
                for end in ends
                if end.state in ENDING
                and (torn := self.latest(*end.identity[:2])) is not None
                and end.is_committed in torn.late_ends - torn.wanted
            ]
        self._records[written] = records

    def latest(self, producer_id: int, epoch: int) -> Transaction | None:
        """The transaction that a producer has begun last in an epoch."""
        begun = self._of_epoch.get((producer_id, epoch))
        return begun[-1] if begun else None

    def is_fenced(self, transaction: Transaction) -> bool:
        """Whether InitProducerId has come for its transactional id since it began."""
        return self._fences.get(transaction.transactional_id, 0) > transaction.fences_before

    def decided_in(self, key: PartitionKey, batch: PartitionBatch) -> Iterable[Decided]:
        """What a batch that becomes committed says of transactional ids, one after the other."""
        for torn in self._torn_by.pop((key, batch.crc), ()):
            torn.is_torn = True
        for record in self._records.pop((key, batch.crc), ()):
            before = self.coordinated.get(record.transactional_id)
            after = record.transaction
            if after is None:
                self.coordinated.pop(record.transactional_id, None)
            else:
                self.coordinated[record.transactional_id] = after
                if after.state in ENDING:
                    ends = self._decided.setdefault(after.identity[:2], {})
                    ends[after.is_committed] = after.client_version
                    ended = self.latest(*after.identity[:2])
                    if ended is not None:
                        ended.decided = after.is_committed
            yield Decided(before, after)

    def decision(self, producer_id: int, epoch: int) -> dict[bool, int]:
        """The ends of a producer's epoch that are decided, each with its version; of version 1
        there may be both."""
        return self._decided.get((producer_id, epoch), {})

    def open_in(self, key: PartitionKey, producer_id: int) -> list[Transaction]:
        """The transactions of a producer that have no end in a partition yet."""
        return list(self._open.get((key, producer_id), ()))

    def transaction_of(
        self, key: PartitionKey, batch: PartitionBatch, writes: Iterable[object]
    ) -> Transaction | None:
        """The transaction that a batch is part of; `writes` are the offsets in it."""
        found = self._of_batch.get((key, batch.crc))
        for write in writes:
            if found is None and isinstance(write, OffsetWrite):
                found = self._of_offset.get(write)
        return found

    def written(self, key: PartitionKey, batch: PartitionBatch, writes: Iterable[object]) -> None:
        """A batch of a transaction may be read; batches become so in the order of the log."""
        transaction = self.transaction_of(key, batch, writes)
        self.outcomes.setdefault(key, {})[batch.base_offset] = None
        offsets = range(batch.base_offset, batch.next_offset)
        self._bases.setdefault(key, {}).update(dict.fromkeys(offsets, batch.base_offset))
        if transaction is None:  # a producer that is not watched wrote it
            transaction = Transaction("?", "?", batch.producer_id, batch.producer_epoch, True)
        of_producer = self._open.setdefault((key, batch.producer_id), {})
        of_producer.setdefault(transaction, []).append(batch.base_offset)

    def marked(self, key: PartitionKey, batch: PartitionBatch) -> Marked:
        """A marker may be read."""
        ended = self._open.pop((key, batch.producer_id), {})
        self.marker_offsets.setdefault(key, set()).add(batch.base_offset)
        commits = bool(batch.commits)
        marker = (key, batch.producer_id, batch.producer_epoch, commits)
        for transaction, offsets in ended.items():
            is_own = batch.producer_epoch == transaction.producer_epoch
            is_again = marker in self._markers and transaction.decided is not commits
            is_told_early = transaction.told is not None and transaction.decided is None
            if is_own and is_again and not transaction.bumps and not is_told_early:
                transaction.is_torn = True
            for offset in offsets:
                self.outcomes[key][offset] = commits
        self._markers.add(marker)
        return Marked(key, batch, tuple(ended))

    def outcome_at(self, key: PartitionKey, offset: int) -> bool | None:
        """How the transaction of the record at an offset has ended; None while it has not, and
        True of a record of none."""
        base_offset = self._bases.get(key, {}).get(offset)
        return True if base_offset is None else self.outcomes[key][base_offset]

    def undecided(self) -> dict[PartitionKey, list[Transaction]]:
        """By partition, the transactions that hold back who reads committed data there."""
        found: dict[PartitionKey, list[Transaction]] = {}
        for (key, _), transactions in self._open.items():
            found.setdefault(key, []).extend(transactions)
        return found
