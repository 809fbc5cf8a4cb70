"""The streaming query from topics into an archive.

    source = {"kafka.bootstrap.servers": "kafka-1:9092", "subscribe": "orders"}
    query = archive_topics(spark, source, "/data/archive")
    query.awaitTermination()

Parquet goes through `batches`, exactly once for every reader. Other formats, such as `delta`, are
written by their own streaming sinks, which keep their own logs of what counts (`tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fencepost.arrow.options import SourceOptions
from fencepost.spark.archive.batches import (
    COLUMNS,
    DATE,
    Written,
    archive_batch,
    recover,
    write_frame,
)
from fencepost.spark.archive.layout import ArchiveError, Layout, for_spark
from fencepost.spark.archive.state import PARQUET, STOPPED_AT_LOSS, State, write_state
from fencepost.spark.archive.tables import start_table
from fencepost.spark.options import source_options

BATCH_RECORDS: Final = 1_000_000
TASK_RECORDS: Final = 250_000
_REFUSED: Final = {"includeheaders", "plainoffsets", "topic", "checkpointlocation"}


def archive_topics(
    spark: Any,
    source: Mapping[str, str],
    directory: str | Path,
    *,
    format: str = PARQUET,
    interval: str | None = None,
    on_batch: Callable[[Written], None] | None = None,
) -> Any:
    """Start the query; a StreamingQuery.

    `source` are options of `.format("fencepost")` for streams: brokers, topics, where to start
    (`startingOffsets`, here earliest unless told), `failOnDataLoss`, limits. Without `interval` the
    query ends when it has archived what was there when it began; with one ("10 seconds") it goes
    on. `on_batch` is told of every batch (Parquet only).

    One run at a time may write to an archive: hold `Layout(directory).lock("writer", ...)`.
    ArchiveError; what the query itself fails with is raised by `awaitTermination`.
    """
    options = _options(source)
    layout = Layout(Path(directory))
    prepare(layout, format, stops_at_loss=source_options_of(source).fail_on_data_loss)
    frame = spark.readStream.format("fencepost").options(**options).load()
    if format == PARQUET:
        return _with_trigger(_parquet_writer(frame, layout, on_batch), layout, interval).start()
    dated = _dated(frame)
    empty = spark.createDataFrame([], dated.schema)
    return start_table(_with_trigger(dated.writeStream, layout, interval), empty, layout, format)


def source_options_of(source: Mapping[str, str]) -> SourceOptions:
    """The source's options with the archive's defaults, checked. ArchiveError, OptionError."""
    return source_options(_options(source), streaming=True)


def _options(source: Mapping[str, str]) -> dict[str, str]:
    for name in source:
        if name.lower() in _REFUSED:
            raise ArchiveError(f"option {name} is the archive's own")
    given = {name.lower(): value for name, value in source.items()}
    defaults = {
        "startingoffsets": "earliest",
        "maxoffsetspertrigger": str(BATCH_RECORDS),
        "maxrecordsperpartition": str(TASK_RECORDS),
    }
    return {**defaults, **given, "includeheaders": "true"}


def prepare(layout: Layout, format: str, *, stops_at_loss: bool = True) -> None:
    """Make the archive's own directory, or put right what an earlier run left in it. Keeps whether
    a run did not stop at data loss.

    ArchiveError for a directory that has something else in it, or an archive of another format.
    """
    if not layout.state_path.is_file():
        _require_empty(layout)
        layout.private.mkdir(parents=True, exist_ok=True)
        write_state(layout, State(settings={"format": format, STOPPED_AT_LOSS: stops_at_loss}))
    with layout.lock("layout", wait=True):
        state = recover(layout)
        if state.stopped_at_loss and not stops_at_loss:
            settings = {**state.settings, STOPPED_AT_LOSS: False}
            write_state(layout, replace(state, settings=settings))
    if state.data_format != format:
        raise ArchiveError(
            f"{layout.directory}: is an archive of format {state.data_format}, not {format}"
        )
    layout.clear(layout.staging)
    layout.staging.mkdir()


def _require_empty(layout: Layout) -> None:
    if not layout.directory.exists():
        return
    if not layout.directory.is_dir():
        raise ArchiveError(f"{layout.directory}: is no directory")
    others = [path for path in layout.directory.iterdir() if path != layout.private]
    if others:
        raise ArchiveError(
            f"{layout.directory}: is no archive and not empty: there is {others[0].name}"
        )


def _with_trigger(writer: Any, layout: Layout, interval: str | None) -> Any:
    writer = writer.option("checkpointLocation", for_spark(layout.checkpoint))
    if interval is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=interval)


def _dated(frame: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.withColumn("date", F.expr(DATE)).select("topic", *COLUMNS)


def _parquet_writer(frame: Any, layout: Layout, on_batch: Callable[[Written], None] | None) -> Any:
    def write(batch_frame: Any, batch: int) -> None:
        written = archive_batch(layout, batch, lambda place: write_frame(batch_frame, place))
        if written is not None and on_batch is not None:
            on_batch(written)

    return frame.writeStream.foreachBatch(write)
