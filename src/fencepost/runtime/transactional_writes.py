"""What producers and groups write in transactions, on its way into partitions (KIP-890).

A batch of a transaction that is not open in its partition needs a ticket
(`machines.partition.transactions`), and the agreement of the transaction's coordinator
(`runtime.verification`), before it may be appended. `TransactionalWrites.begin` gets both for all
partitions of a request, with one question to the coordinator, and says of each whether it may be
written now. Where the transaction is open already, that is at once, unless an earlier request of
the producer waits for its answer; a caller that must not wait calls `ticket_at_once` first.

What the coordinator says reaches clients as errors that they know (`for_producer`):

| said                                  | a producer gets                                          |
|---------------------------------------|----------------------------------------------------------|
| PRODUCER_FENCED                       | INVALID_PRODUCER_EPOCH                                   |
| TRANSACTION_ABORTABLE                 | the same from Produce v11 on, before INVALID_TXN_STATE   |
| NETWORK_EXCEPTION, the coordinator    | NOT_ENOUGH_REPLICAS: every client tries again, without   |
|   loads, is elsewhere or nowhere      | looking for another leader                               |
| CONCURRENT_TRANSACTIONS               | the same from Produce v12 on, before NOT_ENOUGH_REPLICAS |
| anything else                         | the same                                                 |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fencepost.machines.driver import Driver
from fencepost.machines.partition import (
    NO_TICKET,
    TICKET_NOT_NEEDED,
    Partition,
    StartVerification,
    VerificationStarted,
)
from fencepost.runtime.claims import AsksCoordinators, Claim, Outcome, TopicPartition
from fencepost.wire.errors import ErrorCode


class Asking(IntEnum):
    """What a request of some version expects of its leader."""

    VERIFIES = 0
    """The producer has added its partitions; it knows no error of KIP-890."""
    KNOWS_ABORTABLE = 1
    """The same, and it knows TRANSACTION_ABORTABLE."""
    ADDS = 2
    """The leader adds the partition to the transaction, whose end bumps the epoch."""

    @classmethod
    def of(cls, api_version: int, abortable_from: int, adds_from: int) -> Asking:
        """What a request of this version expects, where those two versions of its API begin to."""
        if api_version >= adds_from:
            return cls.ADDS
        return cls.KNOWS_ABORTABLE if api_version >= abortable_from else cls.VERIFIES


class Write(Struct, frozen=True):
    """A batch that is to be appended: where to, and its first sequence (-1 for offsets)."""

    key: Hashable
    partition: TopicPartition
    first_sequence: int


class Permission(NamedTuple):
    """Whether a batch may be appended, and the ticket to do it with."""

    error_code: ErrorCode
    ticket: int = NO_TICKET


OnPermissions = Callable[[Sequence[Permission]], None]

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalWrites:
    """See the module docstring."""

    def __init__(
        self, driver: Driver, verifier: AsksCoordinators, verifies: Callable[[], bool]
    ) -> None:
        """`verifies` is `transaction.partition.verification.enable`; adding goes on without."""
        self._driver = driver
        self._verifier = verifier
        self._verifies = verifies

    def ticket_at_once(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        asking: Asking,
        leaders: Iterable[Partition],
    ) -> int | None:
        """The ticket for batches that may be written to these partitions without asking the
        transaction coordinator: those that `begin` would permit before it returns. None if the
        coordinator has to be asked, or is being asked about an earlier request of the producer, or
        if one of them is not led here."""
        if asking is not Asking.ADDS and not self._verifies():
            return TICKET_NOT_NEEDED
        adds = asking is Asking.ADDS
        if self._verifier.is_asking(Claim(transactional_id, producer_id, producer_epoch, adds)):
            return None
        for leader in leaders:
            if not leader.is_in_transaction(producer_id, producer_epoch):
                return None
        return NO_TICKET

    def begin(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        asking: Asking,
        writes: Sequence[Write],
        on_permissions: OnPermissions,
    ) -> None:
        """Say of each write whether it may be done; once, perhaps before this returns.

        The errors are the coordinator's, not yet `for_producer`.
        """
        if asking is not Asking.ADDS and not self._verifies():
            on_permissions([Permission(ErrorCode.NONE, TICKET_NOT_NEEDED)] * len(writes))
            return
        started: list[VerificationStarted | None] = [None] * len(writes)
        left = [len(writes)]

        def one_started(place: int, result: VerificationStarted) -> None:
            started[place] = result
            left[0] -= 1
            if not left[0]:
                self._claim(claim, writes, [one for one in started if one], on_permissions)

        claim = Claim(transactional_id, producer_id, producer_epoch, asking is Asking.ADDS)
        for place, write in enumerate(writes):
            self._driver.feed(
                write.key,
                StartVerification(
                    producer_id,
                    producer_epoch,
                    write.first_sequence,
                    asking is Asking.ADDS,
                    lambda result, place=place: one_started(place, result),
                ),
            )

    def _claim(
        self,
        claim: Claim,
        writes: Sequence[Write],
        started: Sequence[VerificationStarted],
        on_permissions: OnPermissions,
    ) -> None:
        """Ask the coordinator about those that need a ticket."""
        asked = tuple(
            write.partition
            for write, one in zip(writes, started, strict=True)
            if one.error_code is ErrorCode.NONE and one.ticket != NO_TICKET
        )

        def told(outcome: Outcome) -> None:
            on_permissions(
                [
                    Permission(outcome.get(write.partition, ErrorCode.NONE), one.ticket)
                    if one.ticket != NO_TICKET
                    else Permission(one.error_code)
                    for write, one in zip(writes, started, strict=True)
                ]
            )

        if asked or self._verifier.is_asking(claim):
            self._verifier.ask(replace(claim, partitions=asked), told)
        else:
            told({})


def for_producer(error: ErrorCode, asking: Asking) -> ErrorCode:
    """The error that a producer gets for a coordinator's error; see the module docstring."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and asking is Asking.VERIFIES:
        return ErrorCode.INVALID_TXN_STATE
    if error in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and asking is not Asking.ADDS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error
