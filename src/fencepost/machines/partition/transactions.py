"""What a leader lets transactional producers and their coordinators write (KIP-98, KIP-890).

Theory of operation
-------------------
The first batch of a transaction must not enter the log unless the transaction coordinator knows
that the partition is part of it: no coordinator would write the marker that ends it, and the last
stable offset would never advance again. So a request with such a batch first gets a ticket
(`StartVerification`), asks the coordinator, and produces with the ticket when the coordinator has
said yes. A ticket is worth nothing any more once something of its producer is in the log, a marker
above all: an answer that was true before the transaction was aborted is not true behind the marker.
Later batches of an open transaction need none. Tickets are numbers that only go up, and they are
forgotten with the leadership: 6 tells the client to look who leads.

| a transactional batch                                          | verdict                       |
|----------------------------------------------------------------|-------------------------------|
| is a duplicate of one that is kept                             | its offsets                   |
| its epoch is open                                              | as for any idempotent batch   |
| an older epoch than the producer's (KAFKA-19690: before 48)    | INVALID_PRODUCER_EPOCH        |
| a ticket of an earlier leadership                              | NOT_LEADER_OR_FOLLOWER        |
| no ticket, or one that is worth nothing any more               | INVALID_TXN_STATE             |
| a sequence behind the lowest that asked (it would overtake it) | OUT_OF_ORDER_SEQUENCE_NUMBER  |
| not sequence 0, of a producer that is not known and bumps its  | OUT_OF_ORDER_SEQUENCE_NUMBER  |
|   epoch with every transaction (KAFKA-18202)                   |                               |
| otherwise                                                      | as for any idempotent batch   |

What a coordinator writes in a transaction (offsets) has no sequences. Markers are judged by
`ProducerStates.check_marker`. With TICKET_NOT_NEEDED no coordinator was asked
(`transaction.partition.verification.enable` is off).
"""

from __future__ import annotations

from typing import ClassVar, Final

from fencepost.batch.header import BatchHeader
from fencepost.log.producers import (
    BAD_STATE,
    FENCED,
    KIP_890_VERSION,
    OUT_OF_ORDER,
    ProducerStates,
    Verdict,
)
from fencepost.machines.partition.inputs import (
    NO_TICKET,
    TICKET_NOT_NEEDED,
    CoordinatorAppend,
    Produce,
    StartVerification,
    VerificationStarted,
    WriteMarker,
)
from fencepost.machines.partition.rules import RULES, PartitionRules
from fencepost.wire.errors import ErrorCode

TICKETS_MAX: Final = 10_000
"""Producers that are being verified for one partition, or never came back with the answer; beyond
it those that began first are forgotten."""

_NOT_LEADER: Final = Verdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class _Verification:
    """A producer that has asked to begin a transaction here, and has written nothing since."""

    __slots__ = ("bumps_epochs", "lowest_sequence", "producer_epoch", "ticket")

    def __init__(self, start: StartVerification, ticket: int) -> None:
        self.ticket = ticket
        self.producer_epoch = start.producer_epoch
        self.lowest_sequence = start.first_sequence
        self.bumps_epochs = start.bumps_epochs

    def take(self, start: StartVerification) -> None:
        """The producer asks again; an older epoch changes nothing."""
        if start.producer_epoch > self.producer_epoch:
            self.producer_epoch = start.producer_epoch
            self.lowest_sequence = start.first_sequence
            self.bumps_epochs = start.bumps_epochs
        elif start.producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, start.first_sequence)


class Transactions:
    """See the module docstring."""

    __slots__ = ("_last_ticket", "_rules", "_tickets_before", "_verifications")

    NOT_STATE: ClassVar = frozenset(("_rules",))

    def __init__(self, rules: PartitionRules = RULES) -> None:
        self._rules = rules
        self._verifications: dict[int, _Verification] = {}  # by producer id, oldest first
        self._last_ticket = NO_TICKET
        self._tickets_before = NO_TICKET  # up to this one they are of earlier leaderships

    def __len__(self) -> int:
        return len(self._verifications)

    def forget(self) -> None:
        """A leadership begins or ends: no ticket is worth anything."""
        self._verifications.clear()
        self._tickets_before = self._last_ticket

    def is_in_one(self, producers: ProducerStates, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer's transaction is open in this epoch, so that no ticket is needed."""
        is_open = producers.has_open_transaction(producer_id, producer_epoch)
        return not self._rules.asks_coordinator(is_open)

    def start(self, producers: ProducerStates, start: StartVerification) -> VerificationStarted:
        """A ticket; none is needed while the producer's transaction is open in this epoch.

        An older epoch is refused here, before the coordinator is asked (KAFKA-18042).
        """
        producer_id = start.producer_id
        if self.is_in_one(producers, producer_id, start.producer_epoch):
            return VerificationStarted(ErrorCode.NONE, NO_TICKET)
        state = producers.get(producer_id)
        if state is not None and start.producer_epoch < state.producer_epoch:
            return VerificationStarted(ErrorCode.INVALID_PRODUCER_EPOCH, NO_TICKET)
        known = self._verifications.get(producer_id)
        if known is not None:
            known.take(start)
            return VerificationStarted(ErrorCode.NONE, known.ticket)
        if len(self._verifications) >= TICKETS_MAX:
            del self._verifications[next(iter(self._verifications))]
        self._last_ticket += 1
        self._verifications[producer_id] = _Verification(start, self._last_ticket)
        return VerificationStarted(ErrorCode.NONE, self._last_ticket)

    def judge(self, producers: ProducerStates, produce: Produce) -> Verdict:
        """Whether a client's transactional batch may be appended."""
        header = produce.batch.header
        state = producers.get(header.producer_id)
        original = state.find_duplicate(header) if state is not None else None
        if original is not None:
            return Verdict.duplicate_of(original)
        refused = self._refuse_unverified(producers, header, produce.ticket)
        if refused is not None:
            return refused
        verification = self._verifications.get(header.producer_id)
        if verification is not None:
            if header.base_sequence > verification.lowest_sequence:
                return OUT_OF_ORDER
            if verification.bumps_epochs and state is None and header.base_sequence != 0:
                return OUT_OF_ORDER
        return producers.check(header)

    def check_coordinator(self, producers: ProducerStates, request: CoordinatorAppend) -> ErrorCode:
        """Whether a coordinator's batch or marker in a transaction may be appended: it is then."""
        header = request.batch.header
        if header.is_control:
            return self.check_marker(producers, request)
        refused = self._refuse_unverified(producers, header, request.ticket)
        if refused is not None:
            return refused.error_code
        self.written(header)
        return ErrorCode.NONE

    def check_marker(
        self, producers: ProducerStates, request: WriteMarker | CoordinatorAppend
    ) -> ErrorCode:
        """Whether a marker may be appended: it is then.

        It voids verifications made before it. With KIP-890 it carries the epoch of the producer's
        next transaction: a verification of that one stays valid when the marker of the transaction
        before it comes late or again.
        """
        header, version = request.batch.header, request.transaction_version
        error = producers.check_marker(
            header, request.coordinator_epoch, version, self._rules.is_late_marker
        )
        known = self._verifications.get(header.producer_id)
        if error is ErrorCode.NONE and known is not None:
            is_older = known.producer_epoch < header.producer_epoch
            if is_older or not (known.bumps_epochs and version >= KIP_890_VERSION):
                del self._verifications[header.producer_id]
        return error

    def written(self, header: BatchHeader) -> None:
        """A data batch of the producer's transaction is about to be appended."""
        if self._verifications:
            self._verifications.pop(header.producer_id, None)

    def _refuse_unverified(
        self, producers: ProducerStates, header: BatchHeader, ticket: int
    ) -> Verdict | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producers.has_open_transaction(producer_id, epoch):
            return None
        state = producers.get(producer_id)
        if state is not None and epoch < state.producer_epoch:
            return FENCED
        if ticket == TICKET_NOT_NEEDED:
            return None
        if NO_TICKET < ticket <= self._tickets_before:
            return _NOT_LEADER
        known = self._verifications.get(producer_id)
        present = NO_TICKET - 1 if known is None else known.ticket  # no request has that one
        return None if self._rules.is_verified(ticket, present) else BAD_STATE
