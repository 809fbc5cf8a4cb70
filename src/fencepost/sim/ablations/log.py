"""Logs that skip a check when they append, recover, index or compact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.log import epoch_recovery, producers, readable_log, scanning, segment
from fencepost.log.appendable_log import AppendableLog
from fencepost.log.cleaner.filter import BatchFilter
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.log_dir import LogDir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.producers import OK, ProducerStates
from fencepost.log.recovery import SegmentRecovery
from fencepost.log.segment import Segment
from fencepost.sim.ablations.ablation import (
    Ablation,
    ablation,
    always,
    in_brokers,
    in_transactions,
    patched,
)


def _decode_as_far_as_it_goes(cls: object, path: str, data: bytes) -> LeaderEpochCache:
    """Every whole line behind the first two of a leader-epoch checkpoint."""
    cache = LeaderEpochCache()
    for line in data.split(b"\n")[2:-1]:
        epoch, start_offset = map(int, line.split())
        cache.assign(epoch, start_offset)
    return cache


_complete_transaction = ProducerStates.complete_transaction


def _complete_and_keep_the_time(self: ProducerStates, header: Any, coordinator_epoch: int) -> int:
    """The marker is noted, and the time of the last batch stays."""
    state = self.get(header.producer_id)
    before_ms = -1 if state is None else state.last_timestamp_ms
    first_offset = _complete_transaction(self, header, coordinator_epoch)
    if state is not None:
        state.last_timestamp_ms = before_ms
    return first_offset


_append_as_follower = AppendableLog.append_as_follower


def _append_without_index(self: AppendableLog, *args: Any, **kwargs: Any) -> Any:
    """The batch is appended, and the transaction index stays as it was."""
    end_offset = self.end_offset
    result = _append_as_follower(self, *args, **kwargs)
    self._row.active.txn_index.truncate(end_offset)
    return result


_truncate_to = PartitionLog.truncate_to


def _truncate_to_below_the_end(self: PartitionLog, offset: int) -> None:
    if offset < self.end_offset:
        _truncate_to(self, offset)


_cut = SegmentRecovery._cut


def _cut_and_forget_to_sync(self: SegmentRecovery, scanned: list[Segment]) -> None:
    was_untouched, self.is_untouched = self.is_untouched, True
    _cut(self, scanned)
    self.is_untouched = was_untouched


def _cut_nothing(self: SegmentRecovery, scanned: list[Segment]) -> None:
    for one in scanned:
        one.size_bytes = one.file.size()
    _cut(self, scanned)


TABLE: Final[Mapping[str, Ablation]] = {
    # S53: what was found sound once is applied without another look at its checksum.
    "applies-corrupt-batches": ablation(
        "a batch that is corrupted between its append and its commit is in its leader's image",
        patched((segment, "check_crc", always(True))),
        "S53",
        searched=False,
    ),
    # A leader-epoch checkpoint counts as far as it can be read, whatever the batches say.
    "believes-a-torn-file": in_brokers(
        "a replica takes batches of one epoch for those of the one before",
        patched(
            (LeaderEpochCache, "decode", classmethod(_decode_as_far_as_it_goes)),
            (epoch_recovery, "_agree", always(True)),
        ),
        "S32",
        searched=False,
    ),
    # Compaction removes a batch that has lost its records, also if it is the last of its producer.
    "cleaners-forget-producers": in_brokers(
        "a batch that is sent again is there twice, once the log was copied",
        patched((BatchFilter, "_is_producers_last", always(False))),
        "S66",
        faults=("kill", "lost-disk"),
        in_compaction=True,
    ),
    # A producer is forgotten a day after its last batch, whenever its last marker was written.
    "expires-by-data-alone": in_transactions(
        "a marker that comes late is taken from a producer that is further (KAFKA-9144)",
        patched((ProducerStates, "complete_transaction", _complete_and_keep_the_time)),
        "S62",
        searched=False,
    ),
    # A follower does not take down which transactions were aborted, and becomes leader.
    "followers-index-no-aborts": in_transactions(
        "a new leader gives what was aborted to consumers of committed data",
        patched((AppendableLog, "append_as_follower", _append_without_index)),
        "S70",
    ),
    # A log whose leader-epoch checkpoint is gone starts without epochs (KAFKA-16541).
    "forgets-epochs-without-their-file": in_brokers(
        "a replica whose file of epochs is lost does not know whose its batches are",
        patched(
            (epoch_recovery, "_from_batches", lambda segments, start_offset: LeaderEpochCache())
        ),
        "S32",
        searched=False,
    ),
    # Who reads committed data is not told which transactions were aborted.
    "gives-what-is-aborted": in_transactions(
        "a consumer of committed data is given what was aborted",
        patched((readable_log, "find_aborted", always(()))),
        "S75",
    ),
    # A follower's epoch cache keeps the epoch that it led and wrote nothing in.
    "keeps-an-epoch-without-records": in_brokers(
        "a follower is answered for ever that its log diverges from its leader's at its end",
        patched((PartitionLog, "truncate_to", _truncate_to_below_the_end)),
        "S05",
        searched=False,
    ),
    # S87: recovery leaves what follows the last whole batch where it is.
    "keeps-torn-batches": in_brokers(
        "what is written behind a torn batch cannot be read",
        patched((SegmentRecovery, "_cut", _cut_nothing)),
        "S87",
        searched=False,
    ),
    # A user's record with the key of a marker supersedes the marker (KAFKA-14055).
    "markers-have-keys": in_transactions(
        "a transaction that is committed becomes part of the next one, and is aborted",
        patched((BatchFilter, "_has_keys", staticmethod(always(True)))),
        "S66",
        in_compaction=True,
    ),
    # A leader appends whatever an idempotent producer sends.
    "producers-are-not-looked-up": in_brokers(
        "a batch that is sent again is there twice",
        patched((ProducerStates, "check", always(OK))),
        "S68",
        "S69",
    ),
    # S52: what a restarted node finds at the end of its log counts, whatever its checksums say.
    "recovers-without-crc-checks": ablation(
        "recovery takes a batch with a CRC mismatch for sound",
        patched((scanning, "check_crc", always(True))),
        "S52",
        searched=False,
    ),
    # S88: what a process has left in the page cache is served when it is found, and is not synced.
    "serves-before-recovery-has-synced": in_brokers(
        "a consumer has read what was recovered, and a power cut takes it (KAFKA-10101)",
        patched((SegmentRecovery, "_cut", _cut_and_forget_to_sync)),
        "S88",
        searched=False,
    ),
    # Behind the last sequence of a producer comes none: it does not begin again at 0.
    "sequences-never-wrap": in_brokers(
        "a producer is refused for ever when its sequences are used up",
        patched((producers, "SEQUENCE_MAX", (1 << 32) - 1)),
        "S68",
    ),
    # Compaction removes tombstones, and markers that no reader needs, as soon as it meets them.
    "tombstones-go-at-once": in_transactions(
        "a consumer that read a record before it was deleted never reads the tombstone (KIP-534)",
        patched((BatchFilter, "_has_passed", always(True))),
        "S66",
        in_compaction=True,
    ),
    # The marker of a clean shutdown is left beside a log that could not be recovered (KAFKA-13773).
    "trusts-what-was-not-recovered": in_brokers(
        "a log that could not be recovered for want of space is never recovered",
        patched((LogDir, "_was_all_recovered", always(True))),
        "S15",
        searched=False,
    ),
}
