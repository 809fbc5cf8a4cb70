"""`fencepost spark checkpoint show`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, open_cluster
from fencepost.cli.output import print_json, print_table_of
from fencepost.cli.spark_checkpoint.opened import checkpoint_errors, open_checkpoint

if TYPE_CHECKING:
    from fencepost.spark.checkpoint_edit import Opened


@command
def show(arguments: argparse.Namespace) -> int:
    """Everything that the checkpoint says of topics."""
    from fencepost.views.checkpoints import CheckpointPartition

    with checkpoint_errors():
        view = _view(open_checkpoint(arguments, whole=True), _sinks(arguments))
    if arguments.json:
        print_json(view)
        return 0
    print(*view.lines, sep="\n")
    if view.partitions:
        print_table_of(CheckpointPartition, view.partitions)
    return 0


def _view(opened: Opened, sinks: dict[str, str] | None) -> Any:
    from fencepost.spark.checkpoint_edit import backups_of
    from fencepost.views.checkpoints import CheckpointOperator, CheckpointSource, CheckpointView

    checkpoint = opened.checkpoint
    query = checkpoint.query_id
    return CheckpointView(
        query,
        checkpoint.state,
        checkpoint.planned_batch,
        checkpoint.committed_batch,
        len(opened.files),
        opened.newest.watermark_ms if opened.newest else None,
        [CheckpointSource(s.name, opened.connector(s.name)) for s in checkpoint.sources],
        [CheckpointOperator(one.number, one.name) for one in opened.operators],
        backups_of(opened.storage),
        None if sinks is None else [name for name, of in sinks.items() if of == query],
        [row for source in checkpoint.sources for row in _rows(source)],
    )


def _rows(source: Any) -> list[Any]:
    from fencepost.arrow.offsets import StreamOffset
    from fencepost.views.checkpoints import CheckpointPartition

    planned = source.planned or StreamOffset({})
    committed = source.committed or StreamOffset({})
    rows = []
    for where in sorted({*planned.positions, *committed.positions}):
        end, begin = planned.positions.get(where), committed.positions.get(where)
        newest = end or begin
        epoch = newest.leader_epoch if newest else -1
        rows.append(
            CheckpointPartition(
                source.name,
                where.topic,
                where.partition,
                begin.offset if begin else None,
                end.offset if end else None,
                planned.begins.get(where),
                epoch if epoch >= 0 else None,
                {**committed.topic_ids, **planned.topic_ids}.get(where.topic),
            )
        )
    return rows


def _sinks(arguments: argparse.Namespace) -> dict[str, str] | None:
    """Exactly-once sinks and the queries that decided last there; None without brokers to ask."""
    if arguments.bootstrap_server is None:  # most of what is done here needs no brokers
        return None
    from fencepost.cli.spark_sinks import with_pyspark

    with_pyspark()
    from fencepost.spark.sinks import known_sinks

    with open_cluster(arguments) as cluster:
        return {sink.name: sink.decision.query for sink in known_sinks(cluster) if sink.decision}
