"""The source of the query that archives: its tasks write what they read, and name the files.

It plans as `.format("fencepost")` does and is asked by Spark in the same way, so checkpoints,
limits and losses are the same. Only a task's rows differ: records never enter the JVM, which would
take seven times the processor time of reading and writing records of 1 kB. For that reason Spark
counts files as the query's input rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.arrow.options import SourceOptions
from fencepost.arrow.storage import Storage
from fencepost.spark.archive.writing import as_rows, write_files
from fencepost.spark.columns import default_schema
from fencepost.spark.options import source_options
from fencepost.spark.projection import Projection
from fencepost.spark.stream import StreamReader

FOLDERS: Final = ("topic", "date")
_FIRST_DAY: Final = -719_162  # 0001-01-01, the first date that Spark and Python know
_LAST_DAY: Final = 2_932_896  # 9999-12-31


@dataclass(frozen=True, slots=True)
class Target:
    """Where tasks write."""

    storage: Storage
    place: str
    """A directory of it that this query alone writes to."""


class ArchivingReader(StreamReader):
    """Reads as a stream's reader, and has its tasks write."""

    def __init__(self, options: SourceOptions, target: Target) -> None:
        super().__init__(options, Projection(default_schema(include_headers=True)))
        self.target = target

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The paths of a task's files."""
        rows = map(dated, super().read(partition))
        yield as_rows(write_files(rows, self.target.storage, self.target.place, FOLDERS))


def archiving_source(target: Target) -> type[DataSource]:
    """The data source of one query, for `spark.dataSource.register`; its options are those of
    `.format("fencepost")`."""

    class ArchivingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"fencepost {target.place}"

        def schema(self) -> StructType:
            return StructType([StructField("path", StringType())])

        def streamReader(self, schema: StructType) -> ArchivingReader:  # noqa: N802
            return ArchivingReader(source_options(self.options, streaming=True), target)

    return ArchivingSource


def dated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Records with the date of their timestamp in UTC, whatever the session's time zone is; none
    where the year has not four digits."""
    days = rows.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.date32())
    number = days.cast(pa.int32())
    is_date = pc.and_(pc.greater_equal(number, _FIRST_DAY), pc.less_equal(number, _LAST_DAY))
    return rows.append_column("date", pc.if_else(is_date, days, None))
