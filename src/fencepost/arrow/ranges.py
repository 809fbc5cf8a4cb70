"""Reading one range of one partition into Arrow, noticing if what is there is not that range.

Besides what the fetcher checks (topic id, divergence while reading) the reader knows in which
leader epoch the range's end had been reached when it was planned. All records of the range existed
then, so none can have a higher epoch; one that has was written by a later leader over what had been
there.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from dataclasses import replace

import pyarrow as pa

from fencepost.arrow.archives import Ranges, clipped, held_of
from fencepost.arrow.errors import DamagedRecordsError, DataLossError, TimestampError
from fencepost.arrow.loss import UNKNOWN_END, Loss, recreated
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.batch.columns import decode_columns
from fencepost.batch.errors import BatchError
from fencepost.batch.header import iter_headers
from fencepost.batch.records import first_offset, read_records
from fencepost.client.cluster import Cluster
from fencepost.client.errors import (
    ClientError,
    DeadlineExceeded,
    LogTruncated,
    OffsetOutOfRange,
    UnknownTopic,
)
from fencepost.client.fetch_core import Fetched
from fencepost.client.fetcher import Fetcher
from fencepost.client.offsets import EARLIEST, LATEST, list_offsets, offsets_for_leader_epochs
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger("fencepost.arrow")

# JVM and Python spend least per record with 16 to 64 thousand rows in a batch.
ROWS_PER_BATCH = 32_768
# As fast as more, and a worker has some 40 MB less resident when values are large and compressed.
BYTES_PER_BATCH = 4 * 1024 * 1024
MICROS_MAX = 2**63 - 1


def read_range(
    cluster: Cluster, options: SourceOptions, columns: tuple[str, ...], wanted: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """The records of `wanted`, with `columns` alone. Raises DataLossError, unless
    `fail_on_data_loss` is off, which logs; DamagedRecordsError, TimestampError, ClientError."""
    try:
        yield from _Reading(cluster, options, columns).batches(wanted)
    except BatchError as error:
        raise DamagedRecordsError(wanted.partition, error) from error


class _Reading:
    def __init__(self, cluster: Cluster, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.options = options
        self.columns = columns
        self._second_tries = 3

    def batches(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Decoded columns of the range, going on after a loss where that is allowed."""
        left: OffsetRange | None = wanted
        if wanted.start < wanted.archive_below:
            end = min(wanted.end, wanted.archive_below)
            detail = "brokers and archive have no record there; brokers had deleted them before"
            yield from self._aged_out(wanted, end, detail)
            left = replace(wanted, start=end, from_earliest=False)
        last_epoch = -1
        while left is not None and left.size > 0:
            position = left.start
            try:
                for fetched in self._fetch(left, last_epoch):
                    yield from self._check_beginning(replace(left, start=position), fetched)
                    for rows in self._decode(left, fetched):
                        # From the first record on there is a middle, which may have no hole.
                        if left.from_earliest:
                            left = replace(left, from_earliest=False)
                        yield rows
                    position, last_epoch = fetched.next_offset, fetched.last_epoch
                return
            except (OffsetOutOfRange, LogTruncated, UnknownTopic) as error:
                left = replace(left, start=position)
                if isinstance(error, OffsetOutOfRange):
                    left = yield from self._after_out_of_range(left, error)
                else:
                    left = self._after_loss(left, error)
                if left is None or left.start != position or isinstance(error, LogTruncated):
                    last_epoch = -1  # what comes next does not follow on what was read
            except DeadlineExceeded as error:
                self._require_cut(replace(left, start=position), error)
                return

    def _fetch(self, left: OffsetRange, last_epoch: int) -> Iterator[Fetched]:
        topic = left.partition.topic
        pinned = {topic: Uuid.from_string(left.topic_id)} if left.topic_id else {}
        return Fetcher(self.cluster, topic_ids=pinned).read_range(
            left.partition,
            left.start,
            left.end,
            last_epoch=last_epoch,
            least_leader_epoch=left.leader_epoch,
            stall_timeout_ms=self.options.stall_timeout_ms,
        )

    def _decode(self, left: OffsetRange, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        if 0 <= left.leader_epoch < fetched.last_epoch:
            self._check_epochs(left, fetched)
        try:
            yield from decode_columns(
                fetched.records,
                topic=left.partition.topic,
                partition=left.partition.partition,
                start_offset=left.start,
                end_offset=left.end,
                columns=self.columns,
                max_rows=ROWS_PER_BATCH,
                max_bytes=BYTES_PER_BATCH,
                aborted=fetched.aborted,
                check_crc=self.options.client.check_crcs,
            )
        except BatchError as error:
            if error.code is ErrorCode.INVALID_TIMESTAMP:
                _raise_timestamp(left, fetched, error)
            raise

    def _check_beginning(self, left: OffsetRange, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        """Retention may have overtaken the read. Other gaps (compaction, markers, aborted
        transactions) are what a log may have, and look the same as loss."""
        if fetched.log_start_offset <= left.start:
            return
        first = first_offset(fetched.records)
        if first > left.start:
            detail = f"the log begins at offset {fetched.log_start_offset} now"
            yield from self._aged_out(left, min(first, left.end), detail)

    def _check_epochs(self, left: OffsetRange, fetched: Fetched) -> None:
        """The blob has batches of a later epoch; fine beyond the range, a rewrite within it."""
        for _, header in iter_headers(fetched.records):
            if header.base_offset >= left.end:
                return
            if header.partition_leader_epoch > left.leader_epoch:
                start = max(header.base_offset, left.start)
                detail = (
                    f"the batch at offset {header.base_offset} is of leader epoch "
                    f"{header.partition_leader_epoch}, but offset {left.end} had been reached in "
                    f"epoch {left.leader_epoch} when the range was planned"
                )
                self._report(Loss("rewritten", left.partition, start, left.end, detail))
                return

    def _after_loss(self, left: OffsetRange, error: ClientError) -> OffsetRange | None:
        """Report what `error` shows to be lost; what is left to read after that, if anything."""
        if isinstance(error, LogTruncated):
            loss = Loss(
                "rewritten", left.partition, error.diverging_offset, left.start, error.message
            )
            self._report(loss, error)
            return left
        self._report(self._gone(left, error), error)
        return None

    def _gone(self, left: OffsetRange, error: ClientError) -> Loss:
        """The topic of the plan is not there: deleted, or another one stands in its place."""
        where = left.partition
        end = left.end if left.end > left.start else UNKNOWN_END
        now = next(iter(self.cluster.describe([where.topic])), None)
        if now is None or now.error_code != ErrorCode.NONE or not left.topic_id:
            return Loss("deleted", where, left.start, end, error.message)
        if str(now.topic_id) == left.topic_id or where.partition not in now.partition_ids:
            return Loss("deleted", where, left.start, end, error.message)
        earliest = list_offsets(self.cluster, {where: EARLIEST})[where].offset
        return recreated(where, left.start, end, left.topic_id, str(now.topic_id), earliest)

    def _after_out_of_range(
        self, left: OffsetRange, error: OffsetOutOfRange
    ) -> Generator[pa.RecordBatch, None, OffsetRange]:
        """What is left to read, after rows that only the archive has."""
        where = left.partition
        earliest = list_offsets(self.cluster, {where: EARLIEST})[where].offset
        latest = list_offsets(self.cluster, {where: LATEST})[where].offset
        if earliest > left.start:
            lost_to = min(earliest, left.end)
            detail = (
                f"the log begins at offset {earliest} now; records were deleted before the read"
            )
            yield from self._aged_out(left, lost_to, detail, error)
            return replace(left, start=lost_to)
        if left.start <= latest and self._second_tries > 0:
            self._second_tries -= 1  # a leader that was just elected may have been behind
            return left
        detail = f"the log ends at offset {latest} now"
        self._report(Loss("truncated", where, latest, left.end, detail), error)
        return replace(left, start=left.end)

    def _aged_out(
        self, left: OffsetRange, end: int, detail: str, cause: ClientError | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Offsets that brokers have no more: the archive's rows of them, and what it does not have
        is lost."""
        archive = self.options.archive
        held: Ranges = ()
        if archive is not None and left.start < left.archive_until:
            held = held_of(archive, left.partition, left.topic_id)
        for low, high in clipped(held, left.start, min(end, left.archive_until)):
            if left.start < low:
                self._report_aged_out(left, low, detail, cause)
            assert archive is not None
            yield from archive.read(left.partition, left.topic_id, low, high, self.columns)
            left = replace(left, start=high, from_earliest=False)
        if left.start < end:
            self._report_aged_out(left, end, detail, cause)

    def _require_cut(self, left: OffsetRange, error: DeadlineExceeded) -> None:
        """Report that nothing came because the log was cut before the range's end: a leader says
        that the epoch in which that was reached ends earlier. Else `error` is raised."""
        where = left.partition
        if left.leader_epoch < 0:
            raise error
        try:
            found = offsets_for_leader_epochs(self.cluster, {where: left.leader_epoch})[where]
        except ClientError:
            raise error from None
        if not 0 <= found.end_offset < left.end:
            raise error
        detail = (
            f"offset {left.end} was reached in leader epoch {left.leader_epoch}, but epoch "
            f"{found.leader_epoch} ends at {found.end_offset}: a leader was elected that lacked "
            "these records"
        )
        lost_from = max(left.start, found.end_offset)
        self._report(Loss("truncated", where, lost_from, left.end, detail), error)

    def _report_aged_out(
        self, left: OffsetRange, lost_to: int, detail: str, cause: ClientError | None = None
    ) -> None:
        loss = Loss("aged out", left.partition, left.start, lost_to, detail)
        if left.from_earliest:
            log.warning("%s; continuing, as the read starts at the earliest offset", loss)
        else:
            self._report(loss, cause)

    def _report(self, loss: Loss, cause: ClientError | None = None) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError([loss]) from cause
        log.warning("data loss: %s", loss)


def _raise_timestamp(left: OffsetRange, fetched: Fetched, error: BatchError) -> None:
    """Raise the error of the first record whose time does not fit; damage is another error."""
    records = read_records(fetched.records, start_offset=max(left.start, error.offset or 0))
    for record in records:
        if record.offset < left.end and not -MICROS_MAX <= record.timestamp_ms * 1000 <= MICROS_MAX:
            where = left.partition
            raise TimestampError(where, record.offset, record.timestamp_ms) from error
