"""A batch's records through Spark's tasks: into events, and by buckets into a table's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from fencepost.spark.tables.batches import RunTasks
from fencepost.spark.tables.bucket_task import BucketReport, BucketWork
from fencepost.spark.tables.decoding import Decoding, decode_records
from fencepost.spark.tables.merging import events_schema

_REPORTS: Final = "bucket int, report string"


def in_spark(frame: Any) -> RunTasks:
    """Runs a batch's work in Spark's tasks; `frame` are its records."""

    def run(decoding: Decoding, work: BucketWork) -> list[BucketReport]:
        def merge(number: tuple[Any, ...], events: pa.Table) -> pa.Table:
            bucket = number[0].as_py()
            report = work.merge_bucket(bucket, events)
            return pa.table(
                {"bucket": pa.array([bucket], pa.int32()), "report": [report.to_json()]}
            )

        merge.__annotations__ = {}  # Spark looks at them, and they are texts here
        grouped = events_of(frame, decoding).groupBy("bucket")
        reports = grouped.applyInArrow(merge, _REPORTS).collect()
        return [BucketReport.from_json(one.report) for one in reports]

    return run


def events_of(frame: Any, decoding: Decoding) -> Any:
    """The events of a batch's records, a DataFrame."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in batches:
            yield decode_records(one, decoding)

    records = frame.select(
        *(F.col(name).cast("binary").alias(name) for name in ("key", "value")),
        *("partition", "offset"),
        F.expr("unix_millis(timestamp)").alias("timestamp_ms"),
    )
    schema = from_arrow_schema(events_schema(decoding.columns), prefer_timestamp_ntz=True)
    return records.mapInArrow(decode, schema)
