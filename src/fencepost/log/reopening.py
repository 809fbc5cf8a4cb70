"""Opening a log that is there: its segments are recovered, then whatever is known of them.

`recovery` settles which segments there are and where the last one ends. Afterwards the leader
epochs are brought into agreement with the log (`epoch_recovery`), and producer state is that of the
newest sound snapshot and the batches behind it (`replay`). The transaction indexes of all segments
that were read are made anew on the way.

The topic id in `partition.metadata` is checked first: a directory of another topic is left as it
is.
"""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epoch_recovery import recover_epochs
from fencepost.log.errors import (
    CorruptFileError,
    DurableDataLostError,
    InconsistentTopicIdError,
)
from fencepost.log.loaded import OFFSET_MAX, LoadedLog, write_topic_id
from fencepost.log.meta import read_partition_metadata
from fencepost.log.names import LEADER_EPOCH_FILE, PARTITION_METADATA_FILE
from fencepost.log.producers import ProducerStates
from fencepost.log.recovery import SegmentRecovery
from fencepost.log.replay import load_producers, settle_active
from fencepost.log.scanning import write_again
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.types import Uuid


def reopen_log(
    disk: Disk,
    cache: SegmentCache,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    clean_shutdown: bool,
    high_watermark: int | None,
    start_offset: int,
    cleaned_offset: int,
    wall_ms: int,
    topic_id: Uuid | None,
    producer_id_expiration_ms: int,
    accept_loss: bool,
    is_gapless: bool,
    is_name_durable: bool,
    is_new: bool,
) -> LoadedLog:
    """See `PartitionLog.open`; `is_new` if the directory was made just now."""
    known_id, id_written = _settle_topic_id(disk, directory, topic_id, recovery_point)
    loader = SegmentRecovery(disk, cache, directory, config, wall_ms)
    loader.cleaned_offset = cleaned_offset
    loader.is_gapless = is_gapless
    loader.gaps_below = OFFSET_MAX if accept_loss else cleaned_offset
    loader.report.was_unclean = not clean_shutdown and not is_new
    loader.find_segments(start_offset)
    loader.recover(recovery_point, start_offset, clean_shutdown, accept_loss)

    def finish() -> LoadedLog:
        return _finish(
            loader,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
            start_offset=start_offset,
            wall_ms=wall_ms,
            topic_id=known_id,
            id_written=id_written,
            is_new=is_new,
            is_name_durable=is_name_durable,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )

    try:
        return finish()
    except CorruptFileError as error:
        # Damage in what was not read until now, since it had been closed in order.
        sound_end = loader.sound_end()
        if not accept_loss:
            raise DurableDataLostError(
                error.path, error.reason, error.position, sound_end=sound_end
            ) from error
        loader.recover(min(recovery_point, sound_end), start_offset, False, True)
        loader.report.lost_from_offset = sound_end
        return finish()


def _finish(
    loader: SegmentRecovery,
    *,
    recovery_point: int,
    high_watermark: int | None,
    start_offset: int,
    wall_ms: int,
    topic_id: Uuid | None,
    id_written: bool,
    is_new: bool,
    is_name_durable: bool,
    producer_id_expiration_ms: int,
) -> LoadedLog:
    """What is known of the segments that recovery has left: epochs, producers, names.

    CorruptFileError (the log), OSError.
    """
    disk, directory = loader.disk, loader.directory
    if loader.segments[-1].next_offset < start_offset and not loader.holds_anything:
        loader.start_over(start_offset)
    end_offset = loader.segments[-1].next_offset
    first_base = loader.segments[0].base_offset
    start = max(start_offset, first_base) if start_offset <= end_offset else first_base
    epochs_path = f"{directory}/{LEADER_EPOCH_FILE}"
    epochs = recover_epochs(
        disk, epochs_path, loader.segments, loader.scanned_epochs, start, end_offset
    )
    loader.report.epochs_rebuilt = epochs.was_rebuilt
    producers = ProducerStates()
    row = SegmentRow(disk, loader.cache, directory, loader.segments, loader.snapshots)
    row.remove_stray_snapshots(end_offset)
    _replay(disk, row, producers, end_offset, loader.scanned_from, high_watermark)
    producers.remove_expired(wall_ms, producer_id_expiration_ms)
    must_settle = loader.report.was_unclean and not loader.is_untouched
    if loader.report.was_unclean and topic_id is not None:
        _write_topic_id_again(disk, directory, must_sync=must_settle)
    if must_settle:
        disk.sync_dir(directory)
        if not is_name_durable:
            disk.sync_dir(directory.rpartition("/")[0] or "/")
    loader.report.end_offset = end_offset
    if not must_settle and end_offset == 0:
        # Untouched so far, perhaps for several lives: nothing of it has ever been synced.
        is_new = id_written = True
    is_new = is_new or loader.made_first_segment or id_written
    return LoadedLog(
        row,
        start,
        end_offset,
        end_offset if loader.is_durable else min(recovery_point, end_offset),
        loader.gaps_below,
        epochs.cache,
        epochs.differs_from_file,
        producers,
        topic_id,
        id_written and topic_id is not None and not must_settle,
        is_new,
        loader.report,
    )


def _replay(
    disk: Disk,
    row: SegmentRow,
    producers: ProducerStates,
    end_offset: int,
    scanned_from: int | None,
    high_watermark: int | None,
) -> None:
    """Producer state, and the transaction indexes of scanned segments, which become durable."""
    index_from = settle_active(row, end_offset) if scanned_from is None else scanned_from
    load_producers(disk, row, producers, end_offset, index_from, high_watermark)
    if scanned_from is None:
        return
    for segment in row.segments:
        if segment.base_offset >= scanned_from and not segment.is_active:
            for file in segment.write_txn_index():
                file.sync()
                file.close()


def _write_topic_id_again(disk: Disk, directory: str, *, must_sync: bool) -> None:
    """The last process may have left it in the cache only (KAFKA-10101). OSError."""
    file = disk.open(f"{directory}/{PARTITION_METADATA_FILE}")
    try:
        write_again(file, 0, file.size())
        if must_sync:
            file.sync()
    finally:
        file.close()


def _settle_topic_id(
    disk: Disk, directory: str, topic_id: Uuid | None, recovery_point: int
) -> tuple[Uuid | None, bool]:
    """The directory's topic id, and whether it was written now because there was none."""
    try:
        known = read_partition_metadata(disk, directory)
    except CorruptFileError:
        # Torn by a crash before anything in the directory was durable; otherwise damaged.
        if recovery_point > 0 or topic_id is None:
            raise
        known = None
    if known is None and topic_id is not None:
        write_topic_id(disk, directory, topic_id)
        return topic_id, True
    if known is not None and topic_id is not None and known != topic_id:
        raise InconsistentTopicIdError(
            f"{directory} belongs to topic id {known}, not to {topic_id}"
        )
    return known, False
