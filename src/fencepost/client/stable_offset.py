"""Why a last stable offset does not advance: what holds it, and what would release it.

`judge` is the whole decision, without I/O: a transaction that is open in a partition, what the
coordinators know of its producer, and the time. `explaining` asks for what it needs,
`finding_open_transactions` about every open transaction that is old. Both are conversations;
`explain` and `open_transactions` carry them out blocking, `client.aio.AsyncAdmin` in asyncio.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fencepost.batch.header import iter_headers
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.faces import blocking
from fencepost.client.fetch_core import FetchCore, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, listing_offsets
from fencepost.client.transaction_admin import (
    PartitionProducer,
    TransactionDescription,
    describing_producers,
    describing_transaction,
    finding_transactions_of,
    listing_transactions,
    reading_coordinator_epoch,
)
from fencepost.wire.errors import ErrorCode

ENDED_EVERY_MS: Final = 10_000
"""How often coordinators look for transactions that took too long
(`transaction.abort.timed.out.transaction.cleanup.interval.ms`)."""
NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that never times out (two-phase commit, KIP-939)."""
ENDING_ON_DISK: Final = ("PrepareCommit", "PrepareAbort")
ENDING: Final = (*ENDING_ON_DISK, "PrepareEpochFence")


class Verdict(Enum):
    """What holds the last stable offset of a partition."""

    NOTHING = "nothing"
    """It is at the high watermark."""
    PASSING = "passing"
    """No open transaction is left: the next look will find it released."""
    ONGOING = "ongoing"
    """A transaction that its producer may still end, and its coordinator will when it times out."""
    OVERDUE = "overdue"
    """One that has timed out, and its coordinator has not ended."""
    ENDING = "ending"
    """One that is decided: its coordinator is still to write the marker here."""
    REFUSED = "refused"
    """One that is decided, but the partition refuses its coordinator's marker: another client wrote
    one with a later epoch of the coordinator or of the producer."""
    HANGING = "hanging"
    """One that no coordinator knows of: none will ever end it."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, or has ended there and nowhere else (REFUSED).
    `first_timestamp_ms` is of its first batch, -1 when that could not be read; `known` is what a
    coordinator knows of the producer id, `coordinator_epoch` its epoch or -1 (not asked)."""

    partition: TopicPartition
    producer: PartitionProducer
    first_timestamp_ms: int
    known: TransactionDescription | None
    verdict: Verdict
    coordinator_epoch: int = -1


@dataclass(frozen=True, slots=True)
class StableOffset:
    """A partition with what holds its last stable offset: all open transactions, first one first;
    `verdict` is that of the first."""

    partition: TopicPartition
    last_stable_offset: int
    high_watermark: int
    verdict: Verdict
    open: tuple[OpenTransaction, ...]


def judge(
    partition: TopicPartition,
    producer: PartitionProducer,
    known: TransactionDescription | None,
    now_ms: int,
    coordinator_epoch: int = -1,
) -> Verdict:
    """What becomes of a transaction that is open in `partition`. A coordinator ends what it has the
    partition in, with epochs that are not below those that the partition knows; its own is not
    looked at if it is -1."""
    has_it = (
        known is not None
        and known.producer_id == producer.producer_id
        and partition in known.partitions
        and known.producer_epoch >= producer.producer_epoch
    )
    if known is None or not has_it:
        return Verdict.HANGING
    if known.state in ENDING:
        is_refused = 0 <= coordinator_epoch < producer.coordinator_epoch
        return Verdict.REFUSED if is_refused else Verdict.ENDING
    if known.state != "Ongoing":
        return Verdict.HANGING
    ends_ms = known.start_ms + known.timeout_ms + ENDED_EVERY_MS
    if known.timeout_ms < NEVER_MS and now_ms > ends_ms:
        return Verdict.OVERDUE
    return Verdict.ONGOING


def explaining(
    view: ClusterView[Any], partitions: Iterable[TopicPartition], now_ms: int
) -> Conversation[list[StableOffset]]:
    """What holds the last stable offset of each partition; `now_ms` is milliseconds since 1970.

    Coordinators are asked before partitions are asked again, so that a transaction that ends in
    between is not taken for one that hangs.
    """
    wanted = sorted(partitions)
    stable = yield from _offsets(view, wanted, "read_committed")
    marks = yield from _offsets(view, wanted, "read_uncommitted")
    held = [one for one in wanted if stable[one] < marks[one]]
    found = yield from finding_open_transactions(view, held, now_ms)
    results = []
    for partition in wanted:
        here = tuple(one for one in found if one.partition == partition)
        verdict = Verdict.NOTHING if partition not in held else Verdict.PASSING
        results.append(
            StableOffset(
                partition,
                stable[partition],
                marks[partition],
                here[0].verdict if here else verdict,
                here,
            )
        )
    return results


def finding_open_transactions(
    view: ClusterView[Any],
    partitions: list[TopicPartition],
    now_ms: int,
    *,
    older_than_ms: int = -1,
) -> Conversation[list[OpenTransaction]]:
    """The transactions open in partitions, by partition and first offset; those whose last record
    is not `older_than_ms` (-1: all) are left out."""

    def still_open() -> Conversation[dict[tuple[TopicPartition, int, int, int], PartitionProducer]]:
        described = (yield from describing_producers(view, partitions)) if partitions else {}
        return {
            (partition, one.start_offset, one.producer_id, one.producer_epoch): one
            for partition, producers in described.items()
            for one in producers
            if one.is_open and now_ms - one.last_timestamp_ms > older_than_ms
        }

    before = yield from still_open()
    known = yield from finding_transactions_of(view, (one.producer_id for one in before.values()))
    epochs = {}
    for producer_id, one in known.items():
        if one.state in ENDING:
            epochs[producer_id] = yield from reading_coordinator_epoch(view, one.transactional_id)
    after = (yield from still_open()) if before else {}
    found = []
    for key, producer in sorted(after.items(), key=lambda item: item[0]):
        if key not in before:
            continue
        partition = key[0]
        told = known.get(producer.producer_id)
        epoch = epochs.get(producer.producer_id, -1)
        found.append(
            OpenTransaction(
                partition,
                producer,
                (yield from _timestamp_at(view, partition, producer.start_offset)),
                told,
                judge(partition, producer, told, now_ms, epoch),
                epoch,
            )
        )
    return found


def finding_refused_ends(
    view: ClusterView[Any], partitions: Iterable[TopicPartition]
) -> Conversation[list[OpenTransaction]]:
    """The transactions that are decided, with those of `partitions` that refuse the marker."""
    among = frozenset(partitions)
    found: list[OpenTransaction] = []
    for listed in (yield from listing_transactions(view, states=ENDING_ON_DISK)):
        try:
            known = yield from describing_transaction(view, listed.transactional_id)
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue  # it has expired since it was listed
        refused = yield from finding_refusals(view, known)
        found += [one for one in refused if one.partition in among]
    return found


def finding_refusals(
    view: ClusterView[Any], known: TransactionDescription
) -> Conversation[list[OpenTransaction]]:
    """The partitions that refuse the marker of a transaction that is decided.

    The coordinator is asked again afterwards: a marker that it wrote meanwhile, or one that its
    successor wrote, is not taken for another client's.
    """
    if known.state not in ENDING or not known.partitions:
        return []
    described = yield from describing_producers(view, known.partitions)
    epoch = yield from reading_coordinator_epoch(view, known.transactional_id)
    found = [
        OpenTransaction(partition, producer, -1, known, Verdict.REFUSED, epoch)
        for partition, producers in described.items()
        for producer in producers
        if producer.producer_id == known.producer_id
        and (
            producer.producer_epoch > known.producer_epoch
            or 0 <= epoch < producer.coordinator_epoch
        )
    ]
    if not found:
        return []
    now = yield from describing_transaction(view, known.transactional_id)
    is_same = (now.state, now.producer_epoch) == (known.state, known.producer_epoch)
    return [one for one in found if is_same and one.partition in now.partitions]


explain = blocking(explaining)
open_transactions = blocking(finding_open_transactions)
refused_ends = blocking(finding_refused_ends)
refused_by = blocking(finding_refusals)
"""The same with an `Admin`, blocking."""


def _offsets(
    view: ClusterView[Any], partitions: list[TopicPartition], isolation_level: str
) -> Conversation[dict[TopicPartition, int]]:
    listed = yield from listing_offsets(
        view, dict.fromkeys(partitions, LATEST), isolation_level=isolation_level
    )
    return {partition: found.offset for partition, found in listed.items()}


def _timestamp_at(
    view: ClusterView[Any], partition: TopicPartition, offset: int
) -> Conversation[int]:
    """Timestamp of the batch with `offset`, -1 when it is not there (deleted meanwhile)."""
    try:
        wanted = {partition: FetchPosition(offset)}
        fetched = yield from FetchCore(view).fetching(wanted, max_wait_ms=0)
    except ClientError:
        return -1
    for one in fetched:
        for _, header in iter_headers(one.records):
            if header.last_offset >= offset:
                return header.base_timestamp
    return -1
