"""Opening one log: one that is not there is begun, another is recovered (`reopening`).

Of a log that nothing is known of and that has no directory, nothing is looked for: whoever creates
ten thousand partitions waits for three new names each, and for no more. What recovers logs is not
loaded for it either.
"""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.loaded import OFFSET_MAX, LoadedLog, write_topic_id
from fencepost.log.producers import ProducerStates
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.types import Uuid


def load_log(
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
) -> LoadedLog:
    """See `PartitionLog.open`."""
    is_new = not disk.is_dir(directory)
    if is_new:
        disk.mkdir(directory)
        if recovery_point == start_offset == 0:
            gaps_below = OFFSET_MAX if accept_loss else cleaned_offset
            return _begin_log(disk, cache, directory, config, wall_ms, topic_id, gaps_below)
    # The first start of a node needs none of it: it begins all of its logs.
    from fencepost.log.reopening import reopen_log

    return reopen_log(
        disk,
        cache,
        directory,
        config,
        recovery_point=recovery_point,
        clean_shutdown=clean_shutdown,
        high_watermark=high_watermark,
        start_offset=start_offset,
        cleaned_offset=cleaned_offset,
        wall_ms=wall_ms,
        topic_id=topic_id,
        producer_id_expiration_ms=producer_id_expiration_ms,
        accept_loss=accept_loss,
        is_gapless=is_gapless,
        is_name_durable=is_name_durable,
        is_new=is_new,
    )


def _begin_log(
    disk: Disk,
    cache: SegmentCache,
    directory: str,
    config: LogConfig,
    wall_ms: int,
    topic_id: Uuid | None,
    gaps_below: int,
) -> LoadedLog:
    """The log of a directory made just now: what recovery finds in an empty one. OSError."""
    if topic_id is not None:
        write_topic_id(disk, directory, topic_id)
    segment = Segment(disk, cache, directory, 0, wall_ms=wall_ms)
    segment.create(config.roll_bytes if config.preallocate else 0)
    return LoadedLog(
        row=SegmentRow(disk, cache, directory, [segment], set()),
        start_offset=0,
        end_offset=0,
        recovery_point=0,
        gaps_below=gaps_below,
        epochs=LeaderEpochCache(),
        epochs_changed=False,
        producers=ProducerStates(),
        topic_id=topic_id,
        topic_id_written=topic_id is not None,
        is_new=True,
    )
