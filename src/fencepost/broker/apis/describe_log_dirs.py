"""DescribeLogDirs (key 35) v1-5: how much of which partition lies in which log directory.

One entry per directory of `log.dirs`. Asked for topics, it lists those of their partitions that are
here and says nothing of the others; null asks for all. Sizes are those of the segment files, not of
indexes; the lag is how far the log's end is behind the high watermark it has heard of, 0 on a
leader. A copy on its way to another directory (`is_future_key`) is listed where it will be, with
how far it is behind the log that it will replace. An offline directory is 56 with nothing in it.
The volume's size (v4) is -1 where the system does not tell.
"""

from __future__ import annotations

import os
from collections.abc import Generator

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.broker.storage.data_dirs import DataDir
from fencepost.broker.storage.storage import Storage
from fencepost.runtime.log_dir_moves import LogDirMoves
from fencepost.runtime.replicas import ReplicaManager
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER
from fencepost.wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from fencepost.wire.errors import ErrorCode

UNKNOWN_SIZE = -1


@handles(DescribeLogDirsRequest)
def handle(
    context: RequestContext,
    request: DescribeLogDirsRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    storage: Storage,
    replicas: ReplicaManager,
    moves: LogDirMoves,
) -> Pieces:
    """Describe the directories."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER):
        return DescribeLogDirsResponse(error_code=refusal)
    found = yield from _partitions(replicas, moves, request)
    may_be_cordoned = metadata.image.has_cordoned_directories
    results = []
    for data_dir in storage.data_dirs:
        if replicas.offline_reason is not None or not data_dir.is_online:
            error = int(ErrorCode.KAFKA_STORAGE_ERROR)
            results.append(DescribeLogDirsResult(error_code=error, log_dir=data_dir.path))
            continue
        total_bytes, usable_bytes = _volume_bytes(data_dir.path)
        results.append(
            DescribeLogDirsResult(
                log_dir=data_dir.path,
                topics=[
                    DescribeLogDirsTopic(
                        name=name, partitions=sorted(entries, key=lambda one: one.partition_index)
                    )
                    for name, entries in sorted(found.get(data_dir, {}).items())
                ],
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=may_be_cordoned and data_dir.path in storage.cordoned,
            )
        )
    return DescribeLogDirsResponse(results=results)


def _partitions(
    replicas: ReplicaManager, moves: LogDirMoves, request: DescribeLogDirsRequest
) -> Generator[None, None, dict[DataDir, dict[str, list[DescribeLogDirsPartition]]]]:
    """What was asked for, by directory and topic."""
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
    found: dict[DataDir, dict[str, list[DescribeLogDirsPartition]]] = {}
    for hosted in list(replicas.all()):
        yield
        if wanted is not None and hosted.index not in wanted.get(hosted.topic, ()):
            continue
        lag = max(hosted.machine.high_watermark - hosted.log.end_offset, 0)
        found.setdefault(hosted.data_dir, {}).setdefault(hosted.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=hosted.index,
                partition_size=hosted.log.size_bytes,
                offset_lag=lag,
            )
        )
    for data_dir, future in list(moves.futures()):
        hosted = future.hosted
        if wanted is None or hosted.index in wanted.get(hosted.topic, ()):
            found.setdefault(data_dir, {}).setdefault(hosted.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=hosted.index,
                    partition_size=future.size_bytes,
                    offset_lag=future.offset_lag,
                    is_future_key=True,
                )
            )
    return found


def _volume_bytes(path: str) -> tuple[int, int]:
    """Size of the volume and what we may still write to it."""
    try:
        volume = os.statvfs(path)
    except OSError:
        return UNKNOWN_SIZE, UNKNOWN_SIZE
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
