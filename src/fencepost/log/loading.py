"""Opening one log: one that is not there is begun, another is recovered (`reopening`).

For a log without a directory, whose checkpoints are 0, no file is looked for: creating ten thousand
partitions costs three new names each, and no more. The modules that recover logs are not imported
for it either.
"""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.load_params import LoadLogParams
from fencepost.log.loaded import LoadedLog, write_topic_id
from fencepost.log.producers import ProducerStates
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_row import SegmentRow


def load_log(
    disk: Disk, cache: SegmentCache, directory: str, config: LogConfig, params: LoadLogParams
) -> LoadedLog:
    """See `PartitionLog.open`."""
    # One that was there when the broker started is looked for first; of another, making it tells.
    was_there = params.is_name_durable and disk.is_dir(directory)
    is_new = not was_there and disk.mkdir(directory)
    if is_new and params.recovery_point == params.start_offset == 0:
        return _begin_log(disk, cache, directory, config, params)
    # The first start of a node needs none of it: it begins all of its logs.
    from fencepost.log.reopening import reopen_log

    return reopen_log(disk, cache, directory, config, params, is_new=is_new)


def _begin_log(
    disk: Disk, cache: SegmentCache, directory: str, config: LogConfig, params: LoadLogParams
) -> LoadedLog:
    """The log of a directory made just now: what recovery finds in an empty one. OSError."""
    topic_id = params.topic_id
    if topic_id is not None:
        write_topic_id(disk, directory, topic_id)
    segment = Segment(disk, cache, directory, 0, wall_ms=params.wall_ms)
    segment.create(config.roll_bytes if config.preallocate else 0)
    # It is opened with the first record: that there are many new logs closes no file of another.
    cache.forget(segment)
    segment.close_file()
    return LoadedLog(
        row=SegmentRow(disk, cache, directory, [segment], set()),
        start_offset=0,
        end_offset=0,
        recovery_point=0,
        gaps_below=params.gaps_below,
        epochs=LeaderEpochCache(),
        epochs_changed=False,
        producers=ProducerStates(),
        topic_id=topic_id,
        topic_id_written=topic_id is not None,
        is_new=True,
    )
