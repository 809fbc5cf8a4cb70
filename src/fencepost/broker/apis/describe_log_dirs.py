"""DescribeLogDirs (key 35) v1-5: how much of which partition lies in this broker's log directory.

There is one directory. Asked for topics, it lists those of their partitions that are here and says
nothing of the others; null asks for all. Sizes are those of the segment files, not of indexes; the
lag is how far the log's end is behind the high watermark it has heard of, 0 on a leader. An offline
directory is 56 with nothing in it. The volume's size (v4) is -1 where the system does not tell.

Deviations: copies on their way to another directory (`is_future_key`) and cordoned directories
(v5) do not exist here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.broker.registry import RequestContext, handles
from fencepost.wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker.node import Node

UNKNOWN_SIZE = -1


@handles(DescribeLogDirsRequest, versions="1-5")
def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the directory."""
    node = context.node
    path = node.config.log_dir
    if node.replicas.offline_reason is not None:
        offline = DescribeLogDirsResult(
            error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=str(path)
        )
        return DescribeLogDirsResponse(results=[offline])
    total_bytes, usable_bytes = _volume_bytes(path)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=str(path),
                topics=_topics(node, request),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        ]
    )


def _topics(node: Node, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for hosted in node.replicas.all():
        if wanted is not None and hosted.index not in wanted.get(hosted.topic, ()):
            continue
        lag = max(hosted.machine.high_watermark - hosted.log.end_offset, 0)
        found.setdefault(hosted.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=hosted.index,
                partition_size=hosted.log.size_bytes,
                offset_lag=lag,
            )
        )
    return [
        DescribeLogDirsTopic(
            name=name, partitions=sorted(found[name], key=lambda entry: entry.partition_index)
        )
        for name in sorted(found)
    ]


def _volume_bytes(path: Path) -> tuple[int, int]:
    """Size of the volume and what we may still write to it."""
    try:
        volume = os.statvfs(path)
    except OSError:
        return UNKNOWN_SIZE, UNKNOWN_SIZE
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
