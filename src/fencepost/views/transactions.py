"""Transactions: those that coordinators know, those that partitions have open, and why the last
stable offset of a partition does not advance."""

from __future__ import annotations

import shlex
from typing import ClassVar

from fencepost.client.metadata import TopicPartition
from fencepost.client.stable_offset import (
    ENDED_EVERY_MS,
    NEVER_MS,
    OpenTransaction,
    StableOffset,
    Verdict,
)
from fencepost.client.transaction_admin import (
    ListedTransaction,
    PartitionProducer,
    TransactionDescription,
)
from fencepost.views.tables import escaped
from fencepost.views.times import iso_time
from fencepost.views.view import View, known


class TransactionListed(View, frozen=True):
    """A transactional id as its coordinator lists it."""

    columns: ClassVar = {
        "transactional-id": "transactional_id",
        "coordinator": "coordinator_id",
        "producer-id": "producer_id",
        "state": "state",
    }

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str

    @classmethod
    def of(cls, one: ListedTransaction) -> TransactionListed:
        return cls(*one)


class TransactionView(View, frozen=True):
    """A transactional id as its coordinator describes it. `start_ms` (since 1970) is None without a
    transaction; `partitions` ("topic:0") are those of it that have no marker yet."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: list[str]


class DescribedTransaction(TransactionView, frozen=True):
    """The same, with the partitions that refuse its marker."""

    refused_by: list[str]


class ProducerView(View, frozen=True):
    """A producer that the leader of a partition remembers; -1 for what there is not."""

    columns: ClassVar = {
        "producer-id": "producer_id",
        "epoch": "producer_epoch",
        "coordinator-epoch": "known_coordinator_epoch",
        "last-sequence": "known_sequence",
        "last-timestamp": "last_time",
        "transaction-start-offset": "open_from",
    }

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int

    @classmethod
    def of(cls, one: PartitionProducer) -> ProducerView:
        return cls(*one)

    @property
    def known_coordinator_epoch(self) -> int | None:
        return known(self.coordinator_epoch)

    @property
    def known_sequence(self) -> int | None:
        return known(self.last_sequence)

    @property
    def last_time(self) -> str | None:
        return iso_time(self.last_timestamp_ms) if self.last_timestamp_ms >= 0 else None

    @property
    def open_from(self) -> int | None:
        return known(self.start_offset)


class OpenTransactionView(View, frozen=True):
    """A transaction that is open in a partition, or whose end the partition refuses. The fields of
    the producer are those of `ProducerView`; `first_timestamp_ms` is of its first batch."""

    columns: ClassVar = {
        "partition": "partition",
        "producer-id": "producer_id",
        "epoch": "producer_epoch",
        "coordinator-epoch": "known_coordinator_epoch",
        "start-offset": "open_from",
        "last-timestamp": "last_time",
        "why": "verdict",
        "transactional-id": "transactional_id",
    }

    partition: str
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int
    first_timestamp_ms: int | None
    verdict: str
    transaction: TransactionView | None

    @classmethod
    def of(cls, one: OpenTransaction) -> OpenTransactionView:
        return cls(
            partition_text(one.partition),
            *one.producer,
            known(one.first_timestamp_ms),
            one.verdict.value,
            transaction_view(one.known) if one.known is not None else None,
        )

    @property
    def known_coordinator_epoch(self) -> int | None:
        return known(self.coordinator_epoch)

    @property
    def open_from(self) -> int | None:
        return known(self.start_offset)

    @property
    def last_time(self) -> str:
        return iso_time(self.last_timestamp_ms)

    @property
    def transactional_id(self) -> str | None:
        return self.transaction.transactional_id if self.transaction is not None else None


class StableOffsetView(View, frozen=True):
    """What holds the last stable offset of a partition; `release` is the command that releases
    readers, None when there is only waiting."""

    partition: str
    last_stable_offset: int
    high_watermark: int
    verdict: str
    release: str | None
    open: list[OpenTransactionView]

    @classmethod
    def of(cls, one: StableOffset) -> StableOffsetView:
        return cls(
            partition_text(one.partition),
            one.last_stable_offset,
            one.high_watermark,
            one.verdict.value,
            release_of(one.open[0]) if one.open else None,
            [OpenTransactionView.of(transaction) for transaction in one.open],
        )


class AbortedTransaction(View, frozen=True):
    """The partition in which a producer's transaction was aborted past its coordinator."""

    partition: str
    producer_id: int


class TerminatedTransaction(View, frozen=True):
    """A transactional id whose producer was fenced, and whether it had an open transaction."""

    transactional_id: str
    was_open: bool


def partition_text(where: TopicPartition) -> str:
    """ "topic:0", as commands take it."""
    return f"{where.topic}:{where.partition}"


def transaction_view(found: TransactionDescription) -> TransactionView:
    """The view of a description."""
    return TransactionView(*_fields(found))


def described_transaction(
    found: TransactionDescription, refusing: list[OpenTransaction]
) -> DescribedTransaction:
    """The same, with those that refuse its marker."""
    refused_by = [partition_text(one.partition) for one in refusing]
    return DescribedTransaction(*_fields(found), refused_by)


def _fields(
    found: TransactionDescription,
) -> tuple[str, int, int, int, str, int, int | None, list[str]]:
    return (
        found.transactional_id,
        found.coordinator_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        known(found.start_ms),
        [partition_text(where) for where in found.partitions],
    )


# -- in sentences ----------------------------------------------------------------------------------


def explanation(one: StableOffset, now_ms: int) -> list[str]:
    """What holds the last stable offset at `now_ms` (since 1970), and what would release it: a
    paragraph for a partition that is held, a line for one that is not."""
    behind = one.high_watermark - one.last_stable_offset
    if one.verdict is Verdict.NOTHING:
        return [f"{one.partition}: nothing is held, readers reach offset {one.high_watermark}"]
    first = f"{one.partition}: readers wait at offset {one.last_stable_offset}, {behind} before "
    lines = [f"{first}the high watermark {one.high_watermark}"]
    if not one.open:
        return [*lines, "  no transaction is open any more: look again"]
    oldest = one.open[0]
    lines.append(f"  producer {_producer(oldest, now_ms)}")
    lines.append(f"  coordinator: {_coordinator(oldest, now_ms)}")
    lines += [f"  {text}" for text in _advice(oldest, now_ms)]
    if len(one.open) > 1:
        lines.append(f"  behind it {len(one.open) - 1} more transaction(s) are open:")
        lines += [
            f"    producer {_producer(later, now_ms)}: {later.verdict.value}"
            for later in one.open[1:]
        ]
    return lines


def _producer(one: OpenTransaction, now_ms: int) -> str:
    producer = one.producer
    text = f"{producer.producer_id} epoch {producer.producer_epoch} has a transaction open from"
    text += f" offset {producer.start_offset} on"
    if one.first_timestamp_ms >= 0:
        since_s = max(0, now_ms - one.first_timestamp_ms) // 1000
        text += f", since {iso_time(one.first_timestamp_ms)} ({since_s} s)"
    if producer.last_timestamp_ms >= 0:
        text += f", last wrote {iso_time(producer.last_timestamp_ms)}"
    return text


def _coordinator(one: OpenTransaction, now_ms: int) -> str:
    known = one.known
    if known is None:
        return "none knows the producer id"
    text = f"broker {known.coordinator_id} has it as transactional id {known.transactional_id}, "
    text += f"{known.state}, epoch {known.producer_epoch}"
    if known.start_ms >= 0 and not known.is_over:
        running_s = max(0, now_ms - known.start_ms) // 1000
        text += f", for {running_s} s of at most {known.timeout_ms // 1000}"
    if one.partition not in known.partitions:
        text += ", without this partition"
    return text


def _advice(one: OpenTransaction, now_ms: int) -> list[str]:
    """What this means, and what would release the readers."""
    release = release_of(one)
    known: TransactionDescription | None = one.known
    match one.verdict:
        case Verdict.HANGING:
            return ["it hangs: no coordinator will ever end it", f"to release: {release}"]
        case Verdict.ENDING:
            return [
                "it is decided, and its marker is still to be written here: this takes moments",
                "if it lasts: the partition has too few in-sync replicas, or the coordinator "
                "cannot reach its leader",
            ]
        case Verdict.REFUSED:
            return refusal_of(one)
        case Verdict.OVERDUE:
            return [
                "it has taken longer than its timeout: its coordinator should have aborted it",
                f"to release: {release}",
            ]
    assert known is not None, one
    timeout = iso_time(known.start_ms + known.timeout_ms)
    if known.timeout_ms >= NEVER_MS:
        ends = "it never times out (two-phase commit): its producer ends it"
    elif now_ms <= known.start_ms + known.timeout_ms:
        ends = f"its producer ends it, or its timeout at {timeout}"
    else:
        every_s = ENDED_EVERY_MS // 1000
        ends = (
            f"it timed out at {timeout}: its coordinator, which looks every {every_s} s, aborts it"
        )
    return [ends, f"to release now: {release}"]


def refusal_of(one: OpenTransaction) -> list[str]:
    """Why the partition refuses the marker of a transaction that is decided, and for how long."""
    assert one.known is not None, one
    producer, known = one.producer, one.known
    forgotten = f"{one.partition} has forgotten the producer (producer.id.expiration.ms after "
    forgotten += f"{iso_time(producer.last_timestamp_ms)})"
    if producer.producer_epoch > known.producer_epoch:
        return [
            f"{one.partition} refuses its marker, INVALID_PRODUCER_EPOCH: somebody wrote one with "
            f"producer epoch {producer.producer_epoch}, the coordinator's has "
            f"{known.producer_epoch}",
            f"the coordinator asks again: {known.state} lasts until {forgotten}",
        ]
    return [
        f"{one.partition} refuses its marker, TRANSACTION_COORDINATOR_FENCED: somebody wrote one "
        f"with coordinator epoch {producer.coordinator_epoch}, the coordinator's has "
        f"{one.coordinator_epoch}",
        f"the coordinator asks again: {known.state} lasts until the leader epoch of the id's "
        f"partition of __transaction_state has reached {producer.coordinator_epoch} (every "
        f"election adds one), or until {forgotten}",
    ]


def release_of(one: OpenTransaction) -> str | None:
    """The command that releases readers; None when there is only waiting."""
    if one.verdict in (Verdict.ENDING, Verdict.REFUSED):
        return None
    if one.verdict is Verdict.HANGING or one.known is None:
        where = shlex.quote(f"{one.partition.topic}:{one.partition.partition}")
        return f"fencepost transactions abort {where} --start-offset {one.producer.start_offset}"
    return f"fencepost transactions force-terminate {_shell_word(one.known.transactional_id)}"


def _shell_word(text: str) -> str:
    """`text` for a shell; as `$'...'`, with escapes, where it is not all printable."""
    if text.isprintable():
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{escaped(quoted)}'"
