"""Leaders and followers of partitions without one of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fencepost.batch.record_batch import RecordBatch
from fencepost.log.divergence import EpochEnds, find_divergence
from fencepost.log.epochs import UNDEFINED_EPOCH, EpochEndOffset
from fencepost.machines.driver import Driver
from fencepost.machines.partition import (
    BecomeFollower,
    Produce,
    ProduceBlock,
    ProduceResult,
    following,
    queries,
)
from fencepost.machines.partition.acknowledging import Acknowledging
from fencepost.machines.partition.following import Following
from fencepost.machines.partition.inputs import Fetched
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.queries import CONSUMER_REPLICA_ID, LogView, PartitionQueries
from fencepost.machines.partition.roles import ReplicaRoles
from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_brokers,
    in_transactions,
    patched,
)

partition = partial(changed, "partition")


_wait = Acknowledging.wait


def _wait_for_nothing(
    self: Any,
    produce: Produce | ProduceBlock,
    last_offset: int,
    result: ProduceResult,
    batches: int = 1,
) -> None:
    """As the product does it, but for the wait of acks=1."""
    _wait(self, produce, last_offset, result, batches)
    if produce.acks == 1:
        self.for_disk.release(last_offset + 1)


_maybe_advance = Acknowledging.maybe_advance


def _advance_unsynced(self: Acknowledging, now_ms: int) -> None:
    """As the product does it, with all of the log for durable."""
    self._partition.durable_offset = self._partition.log_end_offset
    _maybe_advance(self, now_ms)


_step_become_follower = ReplicaRoles.step_become_follower


def _follow_and_truncate(self: ReplicaRoles, order: BecomeFollower, now_ms: int) -> None:
    """As the product does it, and then the cut."""
    is_new = order.leader_epoch > self._partition.leader_epoch
    _step_become_follower(self, order, now_ms)
    if is_new:
        follower = Following(self._partition, self._outbox)
        follower.truncate(self._partition.high_watermark, start_over=False)


_check_fetch = PartitionQueries.check_fetch


def _check_fetch_by_offset(self: PartitionQueries, **asked: Any) -> Any:
    """As the product does it, but for the epoch that a consumer names."""
    if asked.get("replica_id", CONSUMER_REPLICA_ID) < 0:
        asked["last_fetched_epoch"] = UNDEFINED_EPOCH
    return _check_fetch(self, **asked)


def _divergence_at_the_next_epoch(
    epochs: EpochEnds,
    last_fetched_epoch: int,
    fetch_offset: int,
    log_end: EpochEndOffset,
    snapshot: EpochEndOffset | None = None,
) -> EpochEndOffset | None:
    """As the product finds it, but under the epoch that was asked for."""
    end = epochs.end_offset_for(last_fetched_epoch, log_end.end_offset)
    if end.epoch == last_fetched_epoch or end.epoch < 0:
        return find_divergence(epochs, last_fetched_epoch, fetch_offset, log_end, snapshot)
    if end.end_offset >= fetch_offset:
        return None
    return EpochEndOffset(last_fetched_epoch, end.end_offset)


def _all_that_fits(log: LogView, answer: Fetched) -> list[RecordBatch]:
    return list(answer.batches) if answer.fetch_offset == log.end_offset else []


def _where_the_leader_says(
    epochs: object, answer: EpochEndOffset, log_end_offset: int, high_watermark: int
) -> int:
    """The leader's end, whatever our own epochs are."""
    return min(high_watermark if answer.end_offset < 0 else answer.end_offset, log_end_offset)


TABLE: Final[Mapping[str, Ablation]] = {
    # A leader answers acks=1 when the batch is in its page cache.
    "acknowledges-before-the-sync": in_brokers(
        "a power cut takes what the leader has acknowledged with acks=1",
        patched((Acknowledging, "wait", _wait_for_nothing)),
        "S94",
    ),
    # A leader counts whom it has asked for towards min.insync.replicas (before KIP-966).
    "acknowledges-with-the-proposed": in_brokers(
        "a replica that is eligible, of which the leader does not know, is elected without records",
        partition(isr_to_acknowledge_with=lambda _, isr, proposed: isr | proposed),
        "S19",
        searched=False,
    ),
    # A leader of an older epoch tells who knows a newer one where epochs end (before KIP-320).
    "answers-newer-epochs": in_brokers(
        "a follower cuts its log to agree with one that is cut itself later",
        partition(is_of_newer_epoch=always(False)),
        "S08",
        searched=False,
    ),
    # A leader that lacks an epoch says where its next one begins (KIP-101, before KIP-279).
    "answers-with-the-next-epoch": in_brokers(
        "a follower keeps what it wrote as a leader that its leader never heard of",
        patched((queries, "find_divergence", _divergence_at_the_next_epoch)),
        "S03",
        searched=False,
    ),
    # A follower appends all batches of an answer, whatever their epochs (KAFKA-18723).
    "appends-newer-epochs": in_brokers(
        "a follower has batches of an epoch whose start it has not agreed on",
        patched((following, "appendable", _all_that_fits)),
        "S31",
        searched=False,
    ),
    # The first batch of a transaction is appended whatever its coordinator knows of it.
    "appends-unverified": in_transactions(
        "a batch that comes late begins a transaction that no producer ends",
        partition(asks_coordinator=always(False), is_verified=always(True)),
        "S59",
    ),
    # A replica is asked for under the broker epoch it has when the request leaves (KAFKA-15221).
    "asks-with-the-newest-epoch": in_brokers(
        "a broker that has lost its disk is in sync, for what it had before",
        partition(epoch_to_ask_with=lambda _, proposed, fetched_since: fetched_since),
        "S11",
        searched=False,
    ),
    # A leader does not compare epochs for consumers (before KIP-320).
    "consumers-hear-of-no-cut": in_brokers(
        "a consumer reads on as if nothing had happened, and misses what came instead",
        patched((PartitionQueries, "check_fetch", _check_fetch_by_offset)),
        "S33",
        searched=False,
    ),
    # A leader counts what a follower has that goes by an older leader epoch (KIP-320, first try).
    "counts-fetches-of-older-epochs": in_brokers(
        "a follower in sync cuts what its leader has shown, when it gets an epoch in between",
        partition(is_of_older_epoch=always(False)),
        "S07",
        searched=False,
    ),
    # A follower cuts where its leader's epoch ends, though it never had that epoch (KIP-279).
    "cuts-where-the-leader-says": in_brokers(
        "a follower with an epoch of its own is answered for ever that its log diverges",
        patched((following, "truncation_target", _where_the_leader_says)),
        "S04",
        searched=False,
    ),
    # A leader takes it that what the controller refuses was never granted (KIP-497).
    "forgets-refused-proposals": in_brokers(
        "an in-sync set that was granted, in an answer that was lost, does not count",
        partition(is_undone=always(True)),
        "S17",
        searched=False,
    ),
    # What a replica is told before it is deleted is lost with its machine. In random
    # worlds few producers wait at the moment at which a topic is deleted.
    "forgets-who-waits-on-a-deleted-partition": in_brokers(
        "a producer on a partition that is deleted waits for ever",
        patched((Driver, "drain", always(None))),
        "S29",
        searched=False,
    ),
    # What a broker had fetched before it lost its disk counts for the one that is there now.
    "former-incarnations-vouch": in_brokers(
        "a broker with an empty disk is in sync, and elected (KIP-903, KAFKA-15221)",
        partition(
            is_former_incarnation=always(False), vouches=lambda _, fetched, registered: registered
        ),
        "S10",
        searched=False,
    ),
    # A leader goes by the in-sync set that it asks for, before the controller has granted it.
    "goes-by-what-it-asks-for": in_brokers(
        "a leader that was deposed while it was paused acknowledges what only it has",
        partition(counted_isr=lambda _, isr, proposed: proposed),
        "S23",
        searched=False,
    ),
    # A leader's high watermark takes its own page cache for its disk, as Kafka's does.
    "high-watermark-counts-unsynced": in_brokers(
        "consumers read what a power cut of the leader takes",
        patched((Acknowledging, "maybe_advance", _advance_unsynced)),
        "S02",
    ),
    # A follower that has reached the high watermark is in sync (KAFKA-7128).
    "joins-at-the-high-watermark": in_brokers(
        "a replica without what an earlier leader acknowledged is elected",
        partition(
            needed_to_join=lambda _, high_watermark, epoch_start_offset: high_watermark,
            must_be_caught_up=always(False),
        ),
        "S09",
        searched=False,
    ),
    # With too few in sync, who has reached the high watermark joins, however slow (KAFKA-19996).
    "joins-far-behind": in_brokers(
        "a slow follower enters the in-sync set and leaves it again, for ever",
        partition(must_be_caught_up=always(False)),
        "S26",
        searched=False,
    ),
    # A transaction is decided for readers as soon as its marker is in the leader's log.
    "markers-decide-at-once": in_transactions(
        "a consumer of committed data is given what only a marker that may be lost has decided",
        partition(decided_from=lambda _, high_watermark, end_offset: end_offset),
        "S65",
    ),
    # A leader shows what a replica lacks that it has just asked to have in sync (KIP-497).
    "proposed-replicas-do-not-count": in_brokers(
        "a replica that is about to be in sync is elected without what was acknowledged meanwhile",
        partition(counted_isr=lambda _, isr, proposed: isr),
        "S18",
        searched=False,
    ),
    # A marker of KIP-890 that comes again is refused.
    "refuses-repeated-markers": in_transactions(
        "a transaction whose marker is sent again never completes (KAFKA-19999)",
        partition(is_late_marker=always(True)),
        "S61",
    ),
    # A leader whose in-sync set is too small acknowledges and shows what it has (before KIP-966).
    "shows-with-too-few-in-sync": in_brokers(
        "what fewer brokers have than were asked for counts as safe",
        patched((LeaderState, "is_under_min_isr", always(False))),
        "S24",
    ),
    # What a coordinator has agreed to is appended also behind the marker that came meanwhile.
    "takes-old-answers": in_transactions(
        "a batch that comes late begins a transaction that no producer ends",
        partition(is_verified=always(True)),
        "S59",
        searched=False,
    ),
    # A new leader tells consumers where its log ends before it knows (KIP-207).
    "tells-an-end-of-before": in_brokers(
        "a consumer gets an end of the partition that is before what it has read",
        partition(knows_latest_offset=always(True)),
        "S22",
        searched=False,
    ),
    # A follower cuts its log to its own high watermark when it begins to follow (before KIP-101).
    "truncates-to-the-high-watermark": in_brokers(
        "a follower forgets what was acknowledged, and is elected",
        patched((ReplicaRoles, "step_become_follower", _follow_and_truncate)),
        "S01",
    ),
    # A follower that starts over takes no batch that begins before its leader's log does.
    "waits-for-a-whole-batch": in_brokers(
        "a follower whose leader's log begins in the middle of a batch never catches up",
        patched((following, "beginning_for", always(None))),
        "S21",
        searched=False,
    ),
    # A leader that reads a smaller in-sync set in metadata completes no produces (KAFKA-14334).
    "waits-for-who-is-out-of-sync": in_brokers(
        "a producer waits for a broker that is fenced, and sends its batch again",
        partition(advances_by_metadata=always(False)),
        "S34",
        searched=False,
    ),
}
