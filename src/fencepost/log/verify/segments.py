"""One segment of a partition: its batches, shown to every check, and its indexes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.disk import index_bytes_max
from fencepost.log.dump.batches import FoundBatch, UnreadableBytes, scan_batches
from fencepost.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file
from fencepost.log.offset_index import POSITION_MAX
from fencepost.log.verify.epochs import EpochCheck
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.files import Files, OpenFile
from fencepost.log.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from fencepost.log.verify.offsets import OffsetCheck
from fencepost.log.verify.problems import Counts, Problem, Severity, unreadable
from fencepost.log.verify.transactions import TransactionCheck

Progress = Callable[[int], None]
"""Told how many bytes of segments have been read so far."""


@dataclass
class Checks:
    """What sees the batches of a partition, in order."""

    offsets: OffsetCheck
    epochs: EpochCheck
    transactions: TransactionCheck


class SegmentVerifier:
    """Verifies segments of one partition, one after the other.

    `observe` is shown every batch and what is none. Without `with_crc` content is not read, and
    batches are believed.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        facts: PartitionFacts,
        checks: Checks,
        counts: Counts,
        *,
        is_deep: bool = False,
        with_crc: bool = True,
        progress: Progress | None = None,
        observe: Callable[[FoundBatch | UnreadableBytes], None] | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._facts = facts
        self._checks = checks
        self._counts = counts
        self._is_deep = is_deep
        self._with_crc = with_crc
        self._progress = progress or _no_progress
        self._observe = observe
        self.latest_epoch = -1

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def run(self, base: int, following: int | None) -> Iterator[Problem]:
        """All problems of the segment at `base`; the next one begins at `following`. OSError."""
        offsets, transactions = self._checks.offsets, self._checks.transactions
        path = self._path(offset_file(base, LOG_SUFFIX))
        yield from offsets.begin(path, base)
        if offsets.is_thinned:
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
            yield from self._check_batches(path, base, file, indexes, is_last=following is None)
            self._counts.bytes += size
            yield from offsets.end()
            for index in indexes:
                if isinstance(index, OffsetIndexCheck):
                    yield from index.end(size)
                else:
                    yield from index.end()
        if offsets.is_thinned:
            transactions.lose_sight()
        yield from transactions.end(base, size, is_settled=is_settled)
        self._counts.segments += 1

    def _check_batches(
        self,
        path: str,
        base: int,
        file: OpenFile,
        indexes: list[OffsetIndexCheck | TimeIndexCheck],
        *,
        is_last: bool,
    ) -> Iterator[Problem]:
        for found in scan_batches(
            file, base_offset=base, with_data=self._wants_data, with_crc=self._with_crc
        ):
            if self._observe is not None:
                self._observe(found)
            if isinstance(found, UnreadableBytes):
                self._checks.transactions.lose_sight()
                yield self._unreadable(path, found, is_last=is_last)
                continue
            yield from self._check_batch(path, found)
            for index in indexes:
                yield from index.batch(found.position, found.header)
            self._progress(self._counts.bytes + found.position)

    def _wants_data(self, header: BatchHeader) -> bool:
        return self._is_deep or (header.is_control and header.producer_id >= 0)

    def _unreadable(self, path: str, found: UnreadableBytes, *, is_last: bool) -> Problem:
        end_offset = self._checks.offsets.next_offset or 0
        is_torn = found.is_tail and is_last and not self._facts.is_clean
        is_torn = is_torn and end_offset >= (self._facts.recovery_point or 0)
        if is_torn:
            reason = f"{found.reason}: the next start cuts it off"
            return Problem(path, found.position, Severity.WARNING, "tail", reason)
        reason = f"{found.size_bytes} bytes are no batch: {found.reason}"
        return Problem(path, found.position, Severity.ERROR, "batch", reason)

    def _check_batch(self, path: str, found: FoundBatch) -> Iterator[Problem]:
        header, transactions = found.header, self._checks.transactions
        self._counts.batches += 1
        self.latest_epoch = max(self.latest_epoch, header.partition_leader_epoch)
        yield from self._checks.offsets.batch(found.position, header)
        if not found.is_sound:
            transactions.lose_sight()
            yield crc_problem(path, found)
            return
        yield from self._checks.epochs.batch(path, found.position, header)
        if self._checks.offsets.is_thinned:
            transactions.lose_sight()
        data = found.data if header.is_control else None
        yield from transactions.batch(header, data)
        if self._is_deep and found.data is not None:
            try:
                read_batch(found.data, 0, header)
            except BatchError as error:
                offsets = header.base_offset, header.next_offset
                yield Problem(path, found.position, Severity.ERROR, "records", str(error), *offsets)

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
                checks.append(TimeIndexCheck(path, file, base))
        return checks


def crc_problem(path: str, found: FoundBatch) -> Problem:
    """The problem of a batch whose CRC does not hold."""
    header = found.header
    reason = (
        f"CRC mismatch in the batch of offsets {header.base_offset}-{header.last_offset}:"
        f" {found.crc:#010x}, not {header.crc:#010x}"
    )
    offsets = header.base_offset, header.next_offset
    return Problem(path, found.position, Severity.ERROR, "crc", reason, *offsets)


def _no_progress(_: int) -> None:
    """No progress is shown."""
