"""What really became of transactions, as the observer of brokers and of their clients knows it.

`TransactionOracle` is told by producers what they write in which transaction, what they ask for and
what they hear of it; of partitions, which batches consumers may read by now, markers among them, in
the order of the log; and what the coordinators' log, `__transaction_state`, says by then. It judges
nothing; the checks do.

With version 1 of transactions one epoch serves many of them, so what is delayed on its way can
change a later one: an EndTxn, a marker (the reason for KIP-890). A transaction that was ended as
its producer has not asked for, in its own epoch, `is_torn`, and nothing is promised of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.machines.transaction import Transaction as Coordinated, TransactionRecord
from fencepost.machines.transaction.model import ENDING
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
    is_torn: bool = False


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
        self.coordinated: dict[str, Coordinated] = {}
        """By transactional id, what its coordinator's log says."""
        self.may_jump: set[str] = set()
        """Transactional ids of which somebody has set the epoch."""
        self._of_batch: dict[Written, Transaction] = {}
        self._of_offset: dict[OffsetWrite, Transaction] = {}
        self._open: dict[tuple[PartitionKey, int], dict[Transaction, list[int]]] = {}
        self._records: dict[Written, tuple[TransactionRecord, ...]] = {}
        self._decided: dict[tuple[int, int], dict[bool, int]] = {}

    # -- told by producers ---------------------------------------------------------------------

    def begun(self, transaction: Transaction) -> None:
        """A producer begins a transaction."""
        self.all.append(transaction)

    def sends(self, transaction: Transaction, key: PartitionKey, crc: int) -> None:
        """The batch with this checksum is part of the transaction."""
        self._of_batch[key, crc] = transaction

    def sends_offset(self, transaction: Transaction, write: OffsetWrite) -> None:
        """This offset, which nobody else ever commits, is part of the transaction."""
        self._of_offset[write] = transaction

    # -- told by brokers -----------------------------------------------------------------------

    def appended(
        self, key: PartitionKey, batch: PartitionBatch, records: tuple[TransactionRecord, ...]
    ) -> None:
        """A replica of `__transaction_state` has a batch that says this."""
        self._records[key, batch.crc] = records

    def decided_in(self, key: PartitionKey, batch: PartitionBatch) -> Iterable[Decided]:
        """What a batch that becomes committed says of transactional ids, one after the other."""
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
        if transaction is None:  # somebody wrote it who is not watched
            transaction = Transaction("?", "?", batch.producer_id, batch.producer_epoch, True)
        of_producer = self._open.setdefault((key, batch.producer_id), {})
        of_producer.setdefault(transaction, []).append(batch.base_offset)

    def marked(self, key: PartitionKey, batch: PartitionBatch) -> Marked:
        """A marker may be read."""
        ended = self._open.pop((key, batch.producer_id), {})
        commits = bool(batch.commits)
        for transaction, offsets in ended.items():
            is_own = batch.producer_epoch == transaction.producer_epoch
            if not transaction.bumps and is_own and commits not in transaction.wanted:
                transaction.is_torn = True
            for offset in offsets:
                self.outcomes[key][offset] = commits
        return Marked(key, batch, tuple(ended))

    def undecided(self) -> dict[PartitionKey, list[Transaction]]:
        """By partition, the transactions that hold back who reads committed data there."""
        found: dict[PartitionKey, list[Transaction]] = {}
        for (key, _), transactions in self._open.items():
            found.setdefault(key, []).extend(transactions)
        return found
