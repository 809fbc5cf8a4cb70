"""An archive that goes on in the topic into which it was replayed.

After a move to another cluster, say: the archive of topic A is replayed into B, producers go over
to B, and the archive takes what comes there from exactly where the replay ended, so that it has
every record once. Its query's checkpoint is changed to go on at these offsets of B, with the leader
epochs in which they were reached and B's id, so a topic that was created again, and records that
were rewritten since, are data loss as ever.

It is exact or refused. What the archive has of A must all have been replayed, and before the end of
the replay B must have nothing but what was replayed: that would never be archived.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fencepost.arrow.archive.layout import REPLAYS, ArchiveError, Layout
from fencepost.arrow.archive.state import checkpoint_of, counted_files, read_parquet_state
from fencepost.arrow.checkpoint import CheckpointError
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.client.cluster import Cluster
from fencepost.client.errors import UnknownTopic
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, list_offsets
from fencepost.spark.archive.replay_plan import Plan, read_plan
from fencepost.spark.archive.replay_target import ReplayEnd, read_end
from fencepost.spark.archive.replaying import offsets_path, read_offsets
from fencepost.spark.checkpoint_edit import Opened, open_checkpoint, plan_offsets


def continue_archive(layout: Layout, cluster: Cluster, name: str) -> dict[TopicPartition, Position]:
    """Have the archive's query go on where the replay `name` ended, in the topic that it wrote;
    those positions. `cluster` is the new topic's, and must read committed records only.

    ArchiveError where that cannot be exact, CheckpointError, ClientError, OSError.
    """
    with layout.lock("writer", wait=False, holder="a run that archives"):
        table = read_offsets(layout, name)
        place = layout.storage.within(f"{REPLAYS}/{name}")
        plan, end = read_plan(place), read_end(place)
        missing = [n for n in range(len(plan.steps)) if not place.exists(offsets_path(n))]
        if missing or end is None:
            raise ArchiveError(
                f"{layout}: the replay {name} is not done, or of a version that did not note "
                "where it ended: run it again, else replay under another name"
            )
        _require_all_replayed(layout, plan)
        _require_nothing_else(cluster, plan, end, table)
        state = read_parquet_state(layout)
        opened = open_checkpoint(checkpoint_of(layout, state), of_archive=True)
        if opened.checkpoint.committed_batch != state.batch:
            raise CheckpointError(
                f"{layout}: batch {state.batch} is archived, and Spark has noted "
                f"{opened.checkpoint.committed_batch}: run `fencepost archive run` once as before"
            )
        offset, source = _moved(opened, plan, end, str(layout))
        plan_offsets(opened, {source: offset}).apply(opened.storage)
    return dict(end.positions)


def _moved(opened: Opened, plan: Plan, end: ReplayEnd, place: str) -> tuple[StreamOffset, str]:
    """The offset of the archive's query with the old topic replaced, and its source."""
    (source,) = opened.checkpoint.sources[:1] or (None,)
    if source is None or source.committed is None:
        raise ArchiveError(f"{place}: its query has no offsets")
    ids = source.committed.topic_ids
    if ids.get(plan.new_topic) == end.topic_id:
        raise ArchiveError(f"{place}: goes on in {plan.new_topic} already")
    last_id = plan.steps[-1][0].topic_id
    if plan.topic not in ids or ids[plan.topic] != last_id:
        raise ArchiveError(
            f"{place}: its query reads {plan.topic} with the id {ids.get(plan.topic, 'unknown')}, "
            f"and what was replayed last is of {last_id or 'unknown'}"
        )
    kept = {
        where: position
        for where, position in source.committed.positions.items()
        if where.topic != plan.topic
    }
    if any(where.topic == plan.new_topic for where in kept):
        raise ArchiveError(
            f"{place}: its query reads {plan.new_topic} already, beside {plan.topic}"
        )
    others = {topic: one for topic, one in ids.items() if topic != plan.topic}
    topic_ids = {**others, plan.new_topic: end.topic_id}
    return StreamOffset({**kept, **end.positions}, topic_ids), source.name


def _require_all_replayed(layout: Layout, plan: Plan) -> None:
    """ArchiveError for records of the old topic that were archived and are not in the new one."""
    reached: dict[tuple[str, int], int] = {}
    for step in plan.steps:
        for piece in step:
            where = (piece.tag, piece.partition)
            reached[where] = max(piece.end, reached.get(where, 0))
    files, _ = counted_files(layout, read_parquet_state(layout))
    for file in files:
        if file.topic != plan.topic:
            continue
        end = reached.get((file.tag, file.partition), 0)
        if file.last >= end:
            raise ArchiveError(
                f"{layout}: has offsets of {plan.topic}-{file.partition} up to {file.last}, and "
                f"was replayed up to {end}: the new topic lacks what is between; replay it under "
                "another name into another topic"
            )


def _require_nothing_else(cluster: Cluster, plan: Plan, end: ReplayEnd, table: pa.Table) -> None:
    """ArchiveError where another topic has the name by now, and for records in the new topic that
    are before the replay's end and none of it."""
    try:
        now = str(cluster.topic(plan.new_topic).topic_id)
    except UnknownTopic as error:
        raise ArchiveError(f"topic {plan.new_topic} is not there: {error}") from error
    if now != end.topic_id:
        raise ArchiveError(
            f"topic {plan.new_topic} was deleted and created again since the replay: its id was "
            f"{end.topic_id} and is {now}"
        )
    starts = list_offsets(cluster, dict.fromkeys(end.positions, EARLIEST))
    for where, (low, high) in _gaps(table, end):
        if starts[where].offset > low:
            raise ArchiveError(
                f"{where}: begins at offset {starts[where].offset} now, so it is not known "
                f"whether there was anything but what was replayed from {low} on"
            )
        for fetched in Fetcher(cluster).read_range(where, low, high):
            for record in fetched.read_records(high):
                if record.offset >= low:
                    raise ArchiveError(
                        f"{where}: the record at offset {record.offset} is none that was replayed, "
                        f"and the replay ended at {high} or later: it would not be archived. "
                        "Replay into a topic that nothing else writes to meanwhile"
                    )


def _gaps(table: pa.Table, end: ReplayEnd) -> Iterator[tuple[TopicPartition, tuple[int, int]]]:
    """Offsets below the replay's end that have no replayed record: markers of its transactions, and
    what else there is."""
    runs: dict[TopicPartition, list[tuple[int, int]]] = {where: [] for where in end.positions}
    for row in table.to_pylist():
        first = row["new_first_offset"]
        count = row["last_offset"] - row["first_offset"] + 1
        where = TopicPartition(row["new_topic"], row["new_partition"])
        runs[where].append((first, first + count))
    for where, found in runs.items():
        reached = 0
        for low, high in sorted(found):
            if low > reached:
                yield where, (reached, low)
            reached = max(reached, high)
