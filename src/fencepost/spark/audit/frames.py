"""The results of an audit: as DataFrames, and as files in any storage.

    PATH/findings/part-00000.parquet    (or .json, a line for each row)
    PATH/ranges/part-00000.parquet

The driver has all of them, so it writes them itself: without Spark's committers and Hadoop's file
systems, as archives are written. A file is replaced as a whole; then what else is in its directory
is removed, such as the files of an earlier audit in the other format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.arrow.storage import Storage, storage_at
from fencepost.spark.audit.auditing import Outcome
from fencepost.spark.audit.model import ComparedRange, Finding

FINDINGS_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replica", pa.int32()),
        ("severity", pa.string()),
        ("check", pa.string()),
        ("start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("other_replica", pa.int32()),
        ("other_leader_epoch", pa.int32()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("text", pa.string()),
    ]
)
RANGES_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("replicas", pa.list_(pa.int32())),
        ("batches", pa.int64()),
        ("is_equal", pa.bool_()),
    ]
)
FORMATS: Final = ("parquet", "json")


class AuditResult:
    """What an audit has found. `outcome` has the same as Python objects."""

    def __init__(self, spark: Any, outcome: Outcome) -> None:
        self._spark = spark
        self.outcome = outcome

    @property
    def is_clean(self) -> bool:
        """Whether there are no errors and no warnings."""
        return self.outcome.is_clean

    @property
    def findings(self) -> list[Finding]:
        """All findings, by partition, replica and offset."""
        return self.outcome.findings

    @property
    def ranges(self) -> list[ComparedRange]:
        """All ranges that were compared."""
        return self.outcome.ranges

    def findings_frame(self) -> Any:
        """A DataFrame with a row for each finding."""
        return self._frame(self._rows()["findings"])

    def ranges_frame(self) -> Any:
        """A DataFrame with a row for each range that was compared."""
        return self._frame(self._rows()["ranges"])

    def write(
        self,
        path: str | os.PathLike[str] | Storage,
        format: str = "parquet",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write both to `path`/findings and `path`/ranges, in place of what is there. `path` is a
        local one, or a URI (s3a://, gs://, ...), with `options` of its store as `storage_at` takes
        them. ValueError for a format that is none, OSError."""
        if format not in FORMATS:
            raise ValueError(f"format {format!r} is none of {', '.join(FORMATS)}")
        storage = path if isinstance(path, Storage) else storage_at(path, options)
        for name, rows in self._rows().items():
            place = f"{name}/part-00000.{format}"
            storage.write_bytes(place, _encoded(rows, format))
            for entry in storage.list(name):
                if entry.path != place:
                    storage.delete(entry.path)

    def _rows(self) -> dict[str, pa.Table]:
        return {
            "findings": _table(self.findings, FINDINGS_SCHEMA),
            "ranges": _table(self.ranges, RANGES_SCHEMA),
        }

    def _frame(self, rows: pa.Table) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        values = [tuple(row.values()) for row in rows.to_pylist()]
        return self._spark.createDataFrame(values, from_arrow_schema(rows.schema))


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _encoded(rows: pa.Table, format: str) -> bytes:
    if format == "json":
        kept = (
            {name: value for name, value in row.items() if value is not None}
            for row in rows.to_pylist()
        )
        return b"".join(json.dumps(row).encode() + b"\n" for row in kept)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return bytes(sink.getvalue())
