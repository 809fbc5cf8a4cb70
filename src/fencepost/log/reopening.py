"""Opening a log that is there: its segments are recovered, then whatever is known of them.

`recovery` settles which segments there are and where the last one ends. Afterwards the leader
epochs are brought into agreement with the log (`epoch_recovery`), and producer state is that of the
newest sound snapshot and the batches behind it (`replay`). The transaction indexes of all segments
that were read are made again on the way.

The topic id in `partition.metadata` is checked first: a directory of another topic is left as it
is.
"""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk, sync_and_close
from fencepost.log.epoch_recovery import recover_epochs
from fencepost.log.errors import (
    CorruptFileError,
    DurableDataLostError,
    InconsistentTopicIdError,
    LogError,
)
from fencepost.log.load_params import LoadLogParams
from fencepost.log.loaded import LoadedLog, write_topic_id
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
    params: LoadLogParams,
    *,
    is_new: bool,
) -> LoadedLog:
    """See `PartitionLog.open`; `is_new` if the directory was made just now."""
    topic_id, id_written = _settle_topic_id(disk, directory, params)
    recovery = SegmentRecovery(disk, cache, directory, config, params)
    recovery.report.was_unclean = not params.clean_shutdown and not is_new
    try:
        return _reopen(recovery, params, topic_id, id_written=id_written, is_new=is_new)
    except (LogError, OSError):
        recovery.close()
        raise


def _reopen(
    recovery: SegmentRecovery,
    params: LoadLogParams,
    topic_id: Uuid | None,
    *,
    id_written: bool,
    is_new: bool,
) -> LoadedLog:
    """Recover the segments, and find out what is known of them. LogError, OSError."""
    recovery.find_segments()
    recovery.recover()
    try:
        return _finish(recovery, params, topic_id, id_written=id_written, is_new=is_new)
    except CorruptFileError as error:
        # Damage in what was not read until now, since it had been closed in order.
        sound_end = recovery.sound_end()
        if not params.accept_loss:
            raise DurableDataLostError(
                error.path, error.reason, error.position, sound_end=sound_end
            ) from error
        recovery.recover_again(sound_end)
        return _finish(recovery, params, topic_id, id_written=id_written, is_new=is_new)


def _finish(
    recovery: SegmentRecovery,
    params: LoadLogParams,
    topic_id: Uuid | None,
    *,
    id_written: bool,
    is_new: bool,
) -> LoadedLog:
    """What is known of the segments that recovery has left: epochs, producers, names.

    CorruptFileError (the log), OSError.
    """
    disk, directory = recovery.disk, recovery.directory
    if recovery.segments[-1].next_offset < params.start_offset and not recovery.holds_anything:
        recovery.start_over()
    end_offset = recovery.segments[-1].next_offset
    start = first_base = recovery.segments[0].base_offset
    if params.start_offset <= end_offset:
        start = max(params.start_offset, first_base)
    epochs_path = f"{directory}/{LEADER_EPOCH_FILE}"
    epochs = recover_epochs(
        disk, epochs_path, recovery.segments, recovery.scanned_epochs, start, end_offset
    )
    recovery.report.epochs_rebuilt = epochs.was_rebuilt
    producers = ProducerStates()
    row = SegmentRow(disk, recovery.cache, directory, recovery.segments, recovery.snapshots)
    row.remove_stray_snapshots(end_offset)
    _replay(recovery, row, producers, end_offset, params.high_watermark)
    producers.remove_expired(params.wall_ms, params.producer_id_expiration_ms)
    must_settle = recovery.report.was_unclean and not recovery.is_untouched
    if recovery.report.was_unclean and topic_id is not None:
        _write_topic_id_again(disk, directory, must_sync=must_settle)
    if must_settle:
        disk.sync_dir(directory)
        if not params.is_name_durable:
            disk.sync_dir(directory.rpartition("/")[0] or "/")
    recovery.report.end_offset = end_offset
    if not must_settle and end_offset == 0:
        # Untouched so far, perhaps for several lives: nothing of it has ever been synced.
        is_new = id_written = True
    is_new = is_new or recovery.made_first_segment or id_written
    return LoadedLog(
        row,
        start,
        end_offset,
        end_offset,
        params.gaps_below,
        epochs.cache,
        epochs.differs_from_file,
        producers,
        topic_id,
        id_written and topic_id is not None and not must_settle,
        is_new,
        recovery.report,
    )


def _replay(
    recovery: SegmentRecovery,
    row: SegmentRow,
    producers: ProducerStates,
    end_offset: int,
    high_watermark: int | None,
) -> None:
    """Producer state, and the transaction indexes of scanned segments, which become durable."""
    scanned_from = recovery.scanned_from
    index_from = settle_active(row, end_offset) if scanned_from is None else scanned_from
    load_producers(
        recovery.disk,
        row,
        producers,
        end_offset,
        index_from,
        high_watermark,
        recovery.producers_from,
    )
    if scanned_from is None:
        return
    for segment in row.segments:
        if segment.base_offset >= scanned_from and not segment.is_active:
            sync_and_close(segment.write_txn_index())


def _write_topic_id_again(disk: Disk, directory: str, *, must_sync: bool) -> None:
    """The last process may have left it in the cache only (KAFKA-10101). OSError."""
    file = disk.open(f"{directory}/{PARTITION_METADATA_FILE}")
    try:
        write_again(file, 0, file.size())
        if must_sync:
            file.sync()
    finally:
        file.close()


def _settle_topic_id(disk: Disk, directory: str, params: LoadLogParams) -> tuple[Uuid | None, bool]:
    """The directory's topic id, and whether it was written now because there was none."""
    topic_id = params.topic_id
    try:
        known = read_partition_metadata(disk, directory)
    except CorruptFileError:
        # Torn by a crash before anything in the directory was durable; otherwise damaged.
        if params.recovery_point > 0 or topic_id is None:
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
