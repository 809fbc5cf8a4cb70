"""A partition's directory: its segments from the first batch to the last, and all beside them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from itertools import zip_longest
from typing import TypeVar

from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.disk import index_bytes_max
from fencepost.log.dump.batches import FoundBatch, UnreadableBytes, scan_batches
from fencepost.log.dump.kinds import kind_of
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import decode_partition_metadata
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
    parse_partition_dir,
)
from fencepost.log.offset_index import POSITION_MAX
from fencepost.log.quorum_state import decode_quorum_state
from fencepost.log.verify.epochs import EpochCheck
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.files import Files, OpenFile
from fencepost.log.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from fencepost.log.verify.metadata_log import METADATA_DIR, check_snapshot, is_snapshot
from fencepost.log.verify.offsets import OffsetCheck
from fencepost.log.verify.problems import Counts, Problem, Severity, unreadable
from fencepost.log.verify.transactions import TransactionCheck
from fencepost.wire.types import Uuid

T = TypeVar("T")


Progress = Callable[[int], None]
"""Told how many bytes of segments have been read so far."""


class PartitionVerifier:
    """Verifies one partition's directory, once.

    Afterwards `topic_id` is what its `partition.metadata` says, and `end_offset` where the log
    ends.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        facts: PartitionFacts,
        counts: Counts,
        *,
        is_deep: bool = False,
        progress: Progress | None = None,
    ) -> None:
        name = directory.rstrip("/").rpartition("/")[2]
        parsed = parse_partition_dir(name)
        self._files = files
        self._directory = directory
        self._facts = facts
        self._counts = counts
        self._is_deep = is_deep
        self._is_metadata_log = name == METADATA_DIR
        self._progress = progress or _nobody_looks
        self._offsets = OffsetCheck(None if parsed is None else parsed[0], facts.cleaned_offset)
        self._epochs = EpochCheck(files, self._path(LEADER_EPOCH_FILE), facts)
        self._latest_epoch = -1
        self.topic_id: Uuid | None = None
        self.end_offset: int | None = None

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def run(self) -> Iterator[Problem]:
        """All problems. OSError."""
        names = self._files.list(self._directory)
        bases, snapshots = [], []
        for name in names:
            parsed = parse_offset_file(name)
            if parsed is not None and not parsed[2]:
                if parsed[1] == LOG_SUFFIX:
                    bases.append(parsed[0])
                elif parsed[1] == SNAPSHOT_SUFFIX:
                    snapshots.append(parsed[0])
        yield from self._check_names(names, set(bases))
        yield from self._epochs.begin()
        transactions = TransactionCheck(self._files, self._directory, self._facts, snapshots)
        if bases:
            yield from transactions.start(bases[0])
        for base, following in zip_longest(bases, bases[1:]):
            yield from self._check_segment(base, following, transactions)
            self._counts.segments += 1
        end_offset = self._offsets.next_offset or 0
        self.end_offset = end_offset
        yield from transactions.finish(end_offset)
        yield from self._epochs.end(end_offset)
        yield from self._check_facts(bases[0] if bases else 0, end_offset)
        yield from self._check_documents()
        for name in filter(is_snapshot, names):
            yield from check_snapshot(self._files, self._path(name))
        self._counts.partitions += 1

    # -- names

    def _check_names(self, names: list[str], bases: set[int]) -> Iterator[Problem]:
        for name in names:
            parsed = parse_offset_file(name)
            stage = parsed[2] if parsed is not None else ""
            if stage == DELETED_SUFFIX:
                yield self._leftover(name, Severity.NOTE, "waits to be deleted")
            elif stage in (CLEANED_SUFFIX, SWAP_SUFFIX):
                yield self._leftover(name, Severity.WARNING, "of an unfinished compaction")
            elif name.endswith((TEMPORARY_SUFFIX, ".part")):
                yield self._leftover(name, Severity.WARNING, "was being written")
            elif parsed is not None and parsed[1] in SEGMENT_SUFFIXES and parsed[0] not in bases:
                yield self._leftover(name, Severity.WARNING, "there is no segment of that offset")
            elif kind_of(self._path(name)) is None and not self._files.is_dir(self._path(name)):
                yield self._leftover(name, Severity.NOTE, "is no file of a log")

    def _leftover(self, name: str, severity: Severity, text: str) -> Problem:
        return Problem(self._path(name), None, severity, "leftover", text)

    # -- segments

    def _check_segment(
        self, base: int, following: int | None, transactions: TransactionCheck
    ) -> Iterator[Problem]:
        path = self._path(offset_file(base, LOG_SUFFIX))
        yield from self._offsets.begin(path, base)
        if self._offsets.is_thinned:
            transactions.lose_sight()
        transactions.begin()
        with ExitStack() as opened:
            file = opened.enter_context(closing(self._files.open(path)))
            size = file.size()
            if size > POSITION_MAX:
                reason = f"{size} bytes are more than an index can reach"
                yield Problem(path, POSITION_MAX, Severity.ERROR, "size", reason)
            is_settled = self._facts.is_settled(base + 1 if following is None else following)
            if following is None and not self._facts.is_clean:
                is_settled = False  # the indexes of the segment that grows are not on disk yet
            indexes = yield from self._open_indexes(opened, base, size, is_settled)
            for found in scan_batches(file, base_offset=base, with_data=self._wants_data):
                if isinstance(found, UnreadableBytes):
                    transactions.lose_sight()
                    yield self._unreadable(path, found, is_last=following is None)
                    continue
                yield from self._check_batch(path, found, transactions)
                for index in indexes:
                    yield from index.batch(found.position, found.header)
                self._progress(self._counts.bytes + found.position)
            self._counts.bytes += size
            yield from self._offsets.end()
            for index in indexes:
                if isinstance(index, OffsetIndexCheck):
                    yield from index.end(size)
                else:
                    yield from index.end()
        if self._offsets.is_thinned:
            transactions.lose_sight()
        yield from transactions.end(base, size, is_settled=is_settled)

    def _wants_data(self, header: BatchHeader) -> bool:
        return self._is_deep or (header.is_control and header.producer_id >= 0)

    def _unreadable(self, path: str, found: UnreadableBytes, *, is_last: bool) -> Problem:
        end_offset = self._offsets.next_offset or 0
        is_torn = found.is_tail and is_last and not self._facts.is_clean
        is_torn = is_torn and end_offset >= (self._facts.recovery_point or 0)
        if is_torn:
            reason = f"{found.reason}: the next start cuts it off"
            return Problem(path, found.position, Severity.WARNING, "tail", reason)
        reason = f"{found.size_bytes} bytes are no batch: {found.reason}"
        return Problem(path, found.position, Severity.ERROR, "batch", reason)

    def _check_batch(
        self, path: str, found: FoundBatch, transactions: TransactionCheck
    ) -> Iterator[Problem]:
        header = found.header
        self._counts.batches += 1
        self._latest_epoch = max(self._latest_epoch, header.partition_leader_epoch)
        yield from self._offsets.batch(found.position, header)
        if not found.is_sound:
            transactions.lose_sight()
            reason = (
                f"CRC mismatch in the batch of offsets {header.base_offset}-{header.last_offset}:"
                f" {found.crc:#010x}, not {header.crc:#010x}"
            )
            yield Problem(path, found.position, Severity.ERROR, "crc", reason)
            return
        yield from self._epochs.batch(path, found.position, header)
        if self._offsets.is_thinned:
            transactions.lose_sight()
        data = found.data if header.is_control else None
        yield from transactions.batch(header, data)
        if self._is_deep and found.data is not None:
            try:
                read_batch(found.data, 0, header)
            except BatchError as error:
                yield Problem(path, found.position, Severity.ERROR, "records", str(error))

    def _open_indexes(
        self, opened: ExitStack, base: int, size_bytes: int, is_settled: bool
    ) -> Generator[Problem, None, list[OffsetIndexCheck | TimeIndexCheck]]:
        """The checks of both indexes, as far as there is anything to check."""
        checks: list[OffsetIndexCheck | TimeIndexCheck] = []
        if not is_settled:
            return checks
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = self._path(offset_file(base, suffix))
            try:
                file: OpenFile = opened.enter_context(closing(self._files.open(path)))
            except FileNotFoundError:
                if size_bytes:
                    yield Problem(path, None, Severity.WARNING, "index", "is not there")
                continue
            except OSError as error:
                yield unreadable(path, "index", error)
                continue
            if (size := file.size()) > (most := index_bytes_max(size_bytes)):
                reason = f"has {size} bytes, more than {most}"
                yield Problem(path, None, Severity.WARNING, "index", reason)
                continue
            if suffix == INDEX_SUFFIX:
                checks.append(OffsetIndexCheck(path, file, base))
            else:
                checks.append(TimeIndexCheck(path, file, base, is_closed=True))
        return checks

    # -- what others say

    def _check_facts(self, first_base: int, end_offset: int) -> Iterator[Problem]:
        facts = self._facts
        path = self._directory
        for name, offset in (
            ("recovery point", facts.recovery_point),
            ("start offset", facts.start_offset),
            ("high watermark", facts.high_watermark),
            ("cleaner's offset", facts.cleaned_offset),
        ):
            if offset is not None and offset > end_offset:
                reason = f"its {name} is {offset}, behind the log's end, {end_offset}"
                yield Problem(path, None, Severity.ERROR, "checkpoint", reason)
        if not (facts.is_recorded and facts.is_clean) or self._is_metadata_log:
            return  # Kafka keeps no recovery point for the metadata log
        if facts.recovery_point is None:
            if end_offset > first_base:
                reason = "was closed cleanly, but no recovery point says so"
                yield Problem(path, None, Severity.WARNING, "checkpoint", reason)
        elif facts.recovery_point < end_offset:
            reason = f"was closed at {facts.recovery_point}, and ends at {end_offset}"
            yield Problem(path, None, Severity.ERROR, "checkpoint", reason)

    def _check_documents(self) -> Iterator[Problem]:
        path = self._path(PARTITION_METADATA_FILE)
        found = self._document(path, decode_partition_metadata)
        if isinstance(found, Problem):
            yield found
        else:
            self.topic_id = found
        path = self._path(QUORUM_STATE_FILE)
        state = self._document(path, decode_quorum_state)
        if isinstance(state, Problem):
            yield state
        elif state is not None and state.state.leader_epoch < self._latest_epoch:
            reason = f"epoch {state.state.leader_epoch}, but the log has {self._latest_epoch}"
            yield Problem(path, None, Severity.ERROR, "document", reason)

    def _document(self, path: str, decode: Callable[[str, bytes], T]) -> T | Problem | None:
        """What a small file says, or what is wrong with it; None if it is not there."""
        try:
            return decode(path, self._files.read(path))
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            return Problem(path, None, Severity.ERROR, "document", error.reason)
        except OSError as error:
            return unreadable(path, "document", error)


def _nobody_looks(_: int) -> None:
    """No progress is shown."""
