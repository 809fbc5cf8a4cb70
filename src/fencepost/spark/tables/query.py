"""The streaming query from a topic into a table of latest values.

source = {"kafka.bootstrap.servers": "kafka-1:9092", "subscribe": "shop.public.orders"}
query = latest(
    spark, source, "/data/orders",
    decode="debezium", schema="id long, name string, amount double", key="id",
)
query.awaitTermination()
read(spark, "/data/orders").show()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fencepost.arrow.checkpoint import read_checkpoint
from fencepost.arrow.storage import Storage, storage_at
from fencepost.spark.ddl import quoted
from fencepost.spark.options import source_options
from fencepost.spark.tables.batches import (
    ON_ERROR,
    MergeOptions,
    Reach,
    apply_batch,
    require_accepted,
)
from fencepost.spark.tables.bucket_task import BucketReport
from fencepost.spark.tables.columns import OWN, evolved_columns, require_usable
from fencepost.spark.tables.decoding import RAW_COLUMNS, Decoding, Registry
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.events import BYTES, DEBEZIUM, DECODES, FLAT, UNAVAILABLE
from fencepost.spark.tables.lakes import LAKES, LakeTable, arrow_schema_of, in_lake
from fencepost.spark.tables.meanings import semantic_nodes
from fencepost.spark.tables.order import ORDERS, SOURCE, TOPIC
from fencepost.spark.tables.spark_tasks import in_spark
from fencepost.spark.tables.versions import CHECKPOINT, PARQUET, Settings, Version, Versions

BUCKETS: Final = 16
BUCKETS_MAX: Final = 10_000
BATCH_RECORDS: Final = 1_000_000
_REFUSED: Final = {"includeheaders", "plainoffsets", "topic", "checkpointlocation", "assign"}


def latest(
    spark: Any,
    source: Mapping[str, str],
    path: str | Path,
    *,
    decode: str = BYTES,
    schema: Any = None,
    key: str | Sequence[str] = "key",
    order: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
    key_registry: str | Mapping[str, Any] | None = None,
    semantic_types: Mapping[str, str] | None = None,
    placeholder: str = UNAVAILABLE,
    buckets: int | None = None,
    format: str = PARQUET,
    options: MergeOptions | None = None,
    interval: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    on_batch: Callable[[Version], None] | None = None,
) -> Any:
    """Start the query; a StreamingQuery.

    `source` are options of `.format("fencepost")` for streams, with `subscribe` naming one topic;
    it is read from the earliest offset unless they say otherwise. Without `interval` the query ends
    when it has taken in what was there when it began; with one ("10 seconds") it goes on.

    `decode` is `bytes` (columns `key` and `value` as they are), `json`, `debezium` or `flat`, which
    take `schema`, the table's columns in Spark's words or as a StructType, and `key`, those that
    tell rows apart. `registry` is as for `fencepost.spark.formats.decode`, for values, and
    `key_registry` for keys; without, both are JSON. `semantic_types` says of columns what the
    schemas of events do not say, for example `{"created": "MicroTimestamp"}` (`meanings`), and is
    to be given in every run. `order` is `topic`, `timestamp` or `source`
    (`order`); by default `source` where the decoding knows of sources. `buckets` (16 by default, by
    which a batch's cost is divided), `decode`, `key` and `order` are the table's from its beginning
    on, and need not be given again.

    `format` is `parquet`, or `delta` or `iceberg` where Spark has them (`lakes`).

    `on_batch` is told of every new version. One query at a time may write to a table. TableError;
    what the query itself fails with is raised by `awaitTermination`.
    """
    versions = Versions(storage_at(path, storage_options))
    given, topic = stream_options(source)
    options = _checked(options or MergeOptions(), given)
    columns = columns_of(spark, decode, schema)
    settings = settings_of(decode, key, order, buckets or BUCKETS, format)
    types = tuple(sorted((semantic_types or {}).items()))
    semantic_nodes(dict(types), columns.names)
    place = for_spark(versions.storage.uri)
    make = None if format == PARQUET else LakeTable(spark, format, place).make
    settings = prepare(versions, settings, columns, make).settings
    plain = settings.decode, settings.key, columns, settings.buckets
    registries = _registry(registry), _registry(key_registry)
    decoding = Decoding(*plain, *registries, placeholder, types)
    frame = spark.readStream.format("fencepost").options(**given).load()
    return _started(
        frame, _writer(versions, decoding, topic, options, on_batch), interval, versions
    )


def _started(
    frame: Any, write: Callable[[Any, int], None], interval: str | None, versions: Versions
) -> Any:
    trigger = {"availableNow": True} if interval is None else {"processingTime": interval}
    writer = frame.writeStream.foreachBatch(write).trigger(**trigger)
    return writer.option("checkpointLocation", checkpoint_of(versions.storage)).start()


def _checked(options: MergeOptions, given: Mapping[str, str]) -> MergeOptions:
    """The options with what the source's say. TableError, OptionError."""
    if options.on_error not in ON_ERROR:
        raise TableError(f"on_error={options.on_error!r}: must be one of {', '.join(ON_ERROR)}")
    source = source_options(given, streaming=True)
    return replace(options, fail_on_data_loss=source.fail_on_data_loss)


def _writer(
    versions: Versions,
    decoding: Decoding,
    topic: str,
    options: MergeOptions,
    on_batch: Callable[[Version], None] | None,
) -> Callable[[Any, int], None]:
    """What `foreachBatch` calls."""
    checkpoint = versions.storage.within(CHECKPOINT)
    place = for_spark(versions.storage.uri)
    format = versions.require_newest().settings.format

    def accept(reports: Sequence[BucketReport]) -> None:
        require_accepted(reports, topic, options.on_error)

    def write(frame: Any, batch: int) -> None:
        query, reach = _reach(checkpoint, topic, batch)
        run = in_spark(frame)
        if format != PARQUET:
            run = in_lake(frame, place, format, query, batch, accept)
        done = apply_batch(versions, decoding, query, batch, reach, options, run)
        if done is not None and on_batch is not None:
            on_batch(done)

    return write


def stream_options(source: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The source's options with the table's defaults, and the topic. TableError."""
    for name in source:
        if name.lower() in _REFUSED:
            raise TableError(f"option {name} is not for tables")
    given = {name.lower(): str(value) for name, value in source.items()}
    topics = [one.strip() for one in given.get("subscribe", "").split(",") if one.strip()]
    if len(topics) != 1:
        raise TableError("a table is of one topic: name it by subscribe")
    defaults = {"startingoffsets": "earliest", "maxoffsetspertrigger": str(BATCH_RECORDS)}
    return {**defaults, **given}, topics[0]


def columns_of(spark: Any, decode: str, schema: Any) -> pa.Schema:
    """The table's columns as Arrow has them. TableError."""
    if decode not in DECODES:
        raise TableError(f"decode={decode!r}: must be one of {', '.join(DECODES)}")
    if decode == BYTES:
        if schema is not None:
            raise TableError(f"decode={BYTES!r} has the columns key and value, and takes no schema")
        return RAW_COLUMNS
    if schema is None:
        raise TableError(f"decode={decode!r} needs a schema, the table's columns")
    if isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    found = arrow_schema_of(schema)
    return pa.schema([pa.field(one.name, one.type) for one in found])


def settings_of(
    decode: str,
    key: str | Sequence[str],
    order: str | None,
    buckets: int,
    format: str = PARQUET,
) -> Settings:
    """What the table is. TableError."""
    order = order or (SOURCE if decode in (DEBEZIUM, FLAT) else TOPIC)
    if order not in ORDERS:
        raise TableError(f"order={order!r}: must be one of {', '.join(ORDERS)}")
    if not 1 <= buckets <= BUCKETS_MAX:
        raise TableError(f"buckets={buckets}: must be from 1 to {BUCKETS_MAX}")
    if format not in (PARQUET, *LAKES):
        raise TableError(f"format={format!r}: must be one of {', '.join((PARQUET, *LAKES))}")
    return Settings(decode, (key,) if isinstance(key, str) else tuple(key), order, buckets, format)


def prepare(
    versions: Versions,
    settings: Settings,
    columns: pa.Schema,
    make: Callable[[pa.Schema], None] | None = None,
) -> Version:
    """The table's newest version; the first one is made where there is no table. Before that `make`
    is given all columns that rows will have. TableError for a table that is of another kind, or
    cannot take the columns in."""
    require_usable(columns, settings.key)
    found = versions.newest()
    if found is None:
        if make is not None:
            make(pa.schema([*columns, *OWN]))
        return versions.publish(Version(settings, columns))
    wanted = replace(settings, buckets=found.settings.buckets)
    if found.settings != wanted:
        raise TableError(
            f"{versions.storage.uri}: is a table with {_said(found.settings)}, not {_said(wanted)}"
        )
    all_columns = evolved_columns(found.columns, columns, found.settings.key)
    if make is not None:
        make(pa.schema([*all_columns, *OWN]))
    return found


def _said(settings: Settings) -> str:
    return (
        f"decode={settings.decode}, key={','.join(settings.key)}, order={settings.order}, "
        f"format={settings.format}"
    )


def checkpoint_of(storage: Storage) -> str:
    """Where the table's query keeps its checkpoint, as Spark takes it."""
    return for_spark(storage.uri_of(CHECKPOINT))


def for_spark(uri: str) -> str:
    """A location under the name that Hadoop has a file system for."""
    if uri.startswith("s3://"):
        return "s3a://" + uri.removeprefix("s3://")
    return uri.replace("file:///", "file:/", 1) if uri.startswith("file:///") else uri


def _registry(given: str | Mapping[str, Any] | None) -> Registry | None:
    if given is None:
        return None
    return tuple(sorted(({"url": given} if isinstance(given, str) else dict(given)).items()))


def _reach(checkpoint: Storage, topic: str, batch: int) -> tuple[str, Reach]:
    """The query's id and what its batch reads. CheckpointError."""
    found = read_checkpoint(checkpoint)
    source = found.sources[0] if found.sources else None
    if found.planned_batch != batch or source is None or source.planned is None:
        raise TableError(
            f"{checkpoint.uri}: batch {batch} runs, but planned is {found.planned_batch}"
        )
    begins = source.committed.positions if source.committed else {}
    ranges = {}
    for where, end in source.planned.positions.items():
        before = begins[where].offset if where in begins else None
        ranges[where.partition] = (source.planned.begins.get(where, before), end.offset)
    return found.query_id or "", Reach(topic, source.planned.topic_ids.get(topic, ""), ranges)


def read(
    spark: Any,
    path: str | Path,
    version: int | None = None,
    *,
    own_columns: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """A version of the table as a DataFrame, by default the newest. With `own_columns` also
    partition, offset, timestamp and so on of the record that each row is of. TableError."""
    versions = Versions(storage_at(path, storage_options))
    found = versions.require_newest() if version is None else versions.read(version)
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = pa.schema([*found.columns, *OWN]) if own_columns else found.columns
    schema = from_arrow_schema(columns, prefer_timestamp_ntz=True)
    if found.settings.format != PARQUET:
        if version is not None:
            raise TableError(f"{path}: versions of {found.settings.format} are read by itself")
        table = LakeTable(spark, found.settings.format, for_spark(versions.storage.uri))
        return table.rows().where("NOT __deleted").select(*map(quoted, columns.names))
    files = [one.rows for one in found.buckets.values() if one.rows is not None]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(
        *(for_spark(versions.storage.uri_of(file)) for file in files)
    )


def read_errors(
    spark: Any, path: str | Path, *, storage_options: Mapping[str, Any] | None = None
) -> Any:
    """The records that were put aside, with the reason: `partition`, `offset`, `timestamp_ms`,
    `key`, `value`, `error`. TableError."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from fencepost.spark.tables.bucket_task import ERROR_COLUMNS

    versions = Versions(storage_at(path, storage_options))
    schema = from_arrow_schema(ERROR_COLUMNS)
    files = versions.require_newest().errors
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(
        *(for_spark(versions.storage.uri_of(file)) for file in files)
    )
