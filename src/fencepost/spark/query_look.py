"""A streaming query's checkpoint held against the cluster: how far it is behind, and whether the
log still has what it read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from fencepost.arrow.archives import Archive
from fencepost.arrow.checkpoint import Source, read_checkpoint
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.storage import Storage
from fencepost.client.cluster import Cluster
from fencepost.spark.lag import measure_lag
from fencepost.views.queries import QueryPartition, QueryView


def look_at_query(
    cluster: Cluster, directory: Path | Storage, archive: Archive | None = None
) -> QueryView:
    """The checkpoint in `directory`, of our source or of Spark's own, and the partitions that its
    sources read. What is in `archive` is not lost. CheckpointError, ClientError,
    ArchiveReadError."""
    checkpoint = read_checkpoint(directory)
    rows = [row for source in checkpoint.sources for row in _rows(cluster, source, archive)]
    return QueryView(
        checkpoint.query_id,
        checkpoint.state,
        checkpoint.planned_batch,
        checkpoint.committed_batch,
        [source.name for source in checkpoint.sources if not source.is_topics],
        rows,
    )


def _rows(cluster: Cluster, source: Source, archive: Archive | None) -> Iterator[QueryPartition]:
    """A source's partitions, those that are new in the planned batch among them."""
    planned, committed = source.planned or StreamOffset({}), source.committed or StreamOffset({})
    begins = {where: Position(offset) for where, offset in planned.begins.items()}
    begins.update(committed.positions)  # `begins` are of partitions that had no other beginning
    asked = StreamOffset(
        {**planned.positions, **begins}, {**planned.topic_ids, **committed.topic_ids}
    )
    now_ms = time.time() * 1000
    for where, lag in sorted(measure_lag(cluster, asked, archive=archive).items()):
        begin, end = begins.get(where), planned.positions.get(where)
        oldest_ms = lag.oldest_unread_ms if begin else None
        yield QueryPartition(
            source.name,
            where.topic,
            where.partition,
            begin.offset if begin else None,
            end.offset if end else None,
            lag.start_offset,
            lag.end_offset,
            lag.records_behind if begin else None,
            lag.leader_epoch,
            oldest_ms,
            None if oldest_ms is None else max(0, int(now_ms - oldest_ms)),
            lag.condition,
            None if lag.loss is None else lag.loss.detail,
        )
