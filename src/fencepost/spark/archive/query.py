"""The streaming query from topics into an archive.

    source = {"kafka.bootstrap.servers": "kafka-1:9092", "subscribe": "orders"}
    query = archive_topics(spark, source, "/data/archive")
    query.awaitTermination()

Parquet goes through `batches`, exactly once for every reader. Other formats, such as `delta`, are
written by their own streaming sinks, which keep their own logs of what counts (`tables`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Final

from fencepost.arrow.archive.layout import PRIVATE, STAGING, STATE, ArchiveError, Layout
from fencepost.arrow.archive.state import (
    CHECKPOINT_SETTING,
    PARQUET,
    STOPPED_AT_LOSS,
    State,
    checkpoint_location,
    read_state,
    update_state,
    write_first_state,
)
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.storage import canonical
from fencepost.spark.archive.batches import Written, archive_batch
from fencepost.spark.archive.source import Target, archiving_source
from fencepost.spark.archive.tables import dated_rows, start_table
from fencepost.spark.options import source_options

BATCH_RECORDS: Final = 1_000_000
TASK_RECORDS: Final = 250_000
_REFUSED: Final = {"includeheaders", "plainoffsets", "topic", "checkpointlocation"}


def archive_topics(
    spark: Any,
    source: Mapping[str, str],
    directory: str | PathLike[str] | Layout,
    *,
    format: str = PARQUET,
    interval: str | None = None,
    checkpoint: str | None = None,
    on_batch: Callable[[Written], None] | None = None,
) -> Any:
    """Start the query; a StreamingQuery.

    `source` are options of `.format("fencepost")` for streams: brokers, topics, where to start
    (`startingOffsets`, here earliest unless told), `failOnDataLoss`, limits. Without `interval` the
    query ends when it has archived what was there when it began; with one ("10 seconds") it goes
    on. `checkpoint` is where Spark keeps the query's, if not in the archive: for stores that Spark
    has no file system of. `on_batch` is told of every batch (Parquet only).

    One run at a time may write to an archive: hold `Layout(directory).lock("writer", ...)`.
    ArchiveError; what the query itself fails with is raised by `awaitTermination`.
    """
    options = _options(source)
    layout = directory if isinstance(directory, Layout) else Layout(directory)
    stops_at_loss = source_options_of(source).fail_on_data_loss
    state = prepare(layout, format, stops_at_loss=stops_at_loss, checkpoint=checkpoint)
    location = checkpoint_location(layout, state)
    if format == PARQUET:
        writer = _parquet_writer(spark, options, layout, on_batch)
        return _with_trigger(writer, location, interval).start()
    frame = spark.readStream.format("fencepost").options(**options).load()

    def with_trigger(writer: Any) -> Any:
        return _with_trigger(writer, location, interval)

    return start_table(dated_rows(frame), with_trigger, layout, format)


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


def prepare(
    layout: Layout, format: str, *, stops_at_loss: bool = True, checkpoint: str | None = None
) -> State:
    """Make the archive's own directory, or put right what an earlier run left in it. Keeps whether
    a run did not stop at data loss, and where the checkpoint is.

    ArchiveError for a directory that has something else in it, an archive of another format, or one
    with its checkpoint elsewhere.
    """
    settings: dict[str, Any] = {"format": format, STOPPED_AT_LOSS: stops_at_loss}
    if checkpoint is not None:
        settings[CHECKPOINT_SETTING] = checkpoint
    if not layout.storage.exists(STATE):
        _require_empty(layout)
        write_first_state(layout, State(settings=settings))

    def keep(state: State) -> State:
        if state.stopped_at_loss and not stops_at_loss:
            return replace(state, settings={**state.settings, STOPPED_AT_LOSS: False})
        return state

    found = read_state(layout)
    if found.data_format != format:
        raise ArchiveError(f"{layout}: is an archive of format {found.data_format}, not {format}")
    there = checkpoint_location(layout, found)
    if checkpoint is not None and canonical(checkpoint) != canonical(there):
        raise ArchiveError(f"{layout}: its checkpoint is in {there}, not in {checkpoint}")
    state = update_state(layout, keep)
    layout.storage.delete_all(STAGING)
    return state


def _require_empty(layout: Layout) -> None:
    if layout.is_local and layout.directory.exists() and not layout.directory.is_dir():
        raise ArchiveError(f"{layout}: is no directory")
    others = [name for name in layout.storage.names() if name != PRIVATE]
    if others:
        raise ArchiveError(f"{layout}: is no archive and not empty: there is {others[0]}")


def _with_trigger(writer: Any, checkpoint: str, interval: str | None) -> Any:
    writer = writer.option("checkpointLocation", checkpoint)
    if interval is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=interval)


def _parquet_writer(
    spark: Any,
    options: Mapping[str, str],
    layout: Layout,
    on_batch: Callable[[Written], None] | None,
) -> Any:
    place = f"{STAGING}/{secrets.token_hex(8)}"
    source = archiving_source(Target(layout.storage, place))
    spark.dataSource.register(source)
    frame = spark.readStream.format(source.name()).options(**options).load()

    def write(batch_frame: Any, batch: int) -> None:
        written = archive_batch(layout, batch, place, lambda: written_paths(batch_frame))
        if written is not None and on_batch is not None:
            on_batch(written)

    return frame.writeStream.foreachBatch(write)


def written_paths(frame: Any) -> list[str]:
    """Have the tasks of a batch write; the paths of its files."""
    return [row.path for row in frame.collect()]
