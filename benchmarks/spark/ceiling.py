"""What any Python data source or sink can reach at best: rows of memory, rows into nothing.

Spark's transport between JVM and Python worker is all they cost. They know no Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from fencepost.arrow.ranges import ROWS_PER_BATCH
from fencepost.spark.columns import default_schema


class Ceiling(DataSource):
    """Options: `rows`, `size` of a value in bytes, `partitions`; `step` rows in a micro-batch."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> Any:
        return default_schema(include_headers=False)

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(schema, self.options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(schema, self.options)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return _StreamWriter()


@dataclass
class _Rows(InputPartition):
    count: int


def _memory(schema: Any, size_bytes: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of the size ours are, with the columns ours have."""
    batch_rows = min(rows, ROWS_PER_BATCH)
    columns = [
        pa.array([b"%d" % number for number in range(batch_rows)], pa.binary()),
        pa.array([bytes(size_bytes)] * batch_rows, pa.binary()),
        pa.array(["topic"] * batch_rows),
        pa.array([0] * batch_rows, pa.int32()),
        pa.array(range(batch_rows), pa.int64()),
        pa.array([1_700_000_000_000_000] * batch_rows, pa.timestamp("us", "UTC")),
        pa.array([0] * batch_rows, pa.int32()),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema, timezone="UTC"))
    while rows > 0:
        yield batch.slice(0, min(rows, batch_rows))
        rows -= batch_rows


class _Reader(DataSourceReader):
    def __init__(self, schema: Any, options: Any) -> None:
        self.schema, self.options = schema, dict(options)

    def partitions(self) -> list[InputPartition]:
        count = int(self.options["partitions"])
        return [_Rows(int(self.options["rows"]) // count) for _ in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _memory(self.schema, int(self.options["size"]), partition.count)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`step` rows a micro-batch until `rows` were given."""

    def __init__(self, schema: Any, options: Any) -> None:
        self.schema, self.options = schema, dict(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass  # there is no more than `rows` anyway

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(int(self.options["step"]))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"rows": min(start["rows"] + int(self.options["step"]), int(self.options["rows"]))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Rows(end["rows"] - start["rows"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _memory(self.schema, int(self.options["size"]), partition.count)


class _Nothing:
    """Takes every batch and keeps none."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _Writer(_Nothing, DataSourceArrowWriter):
    pass


class _StreamWriter(_Nothing, DataSourceStreamArrowWriter):
    pass
