"""The data source `fencepost`: what `.format("fencepost")` gives for reading and writing.

Spark finds it through the package `pyspark_fencepost` and makes an instance per plan, from options
with lower-cased keys. Everything wrong with options, schemas and modes is raised from here, before
a task is started.

Spark starts processes of its own to find the data source, to ask for its schema, to plan a read and
to write, and a stream has another. Each loads this module; what only some of them need is imported
where they ask for it, since loading all of it takes longer than any of them has to do.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from fencepost.spark.columns import default_schema

if TYPE_CHECKING:
    from fencepost.spark.options import SinkOptions
    from fencepost.spark.reader import BatchReader
    from fencepost.spark.stream import StreamReader
    from fencepost.spark.writer import BatchWriter, StreamWriter

log = logging.getLogger("fencepost.spark")


class FencepostDataSource(DataSource):
    """Kafka topics as DataFrames, without a jar: batch and streaming, both ways."""

    @classmethod
    def name(cls) -> str:
        return "fencepost"

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source."""
        if not self.options.get("includeHeaders"):
            return default_schema(include_headers=False)
        from fencepost.spark.options import wants_headers

        return default_schema(include_headers=wants_headers(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        from fencepost.spark.options import source_options
        from fencepost.spark.projection import Projection
        from fencepost.spark.reader import BatchReader

        return BatchReader(source_options(self.options, streaming=False), Projection(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """For `spark.readStream`."""
        from fencepost.spark.options import source_options
        from fencepost.spark.projection import Projection
        from fencepost.spark.stream import HAS_ADMISSION_CONTROL, StreamReader

        options = source_options(self.options, streaming=True)
        if options.max_offsets_per_trigger is not None and not HAS_ADMISSION_CONTROL:
            log.warning("before PySpark 4.2 the first batch of every run cannot be limited")
        return StreamReader(options, Projection(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write.mode("append")`."""
        from fencepost.spark.writer import BatchWriter

        if overwrite:
            from fencepost.spark.errors import SinkError

            raise SinkError(
                'topics cannot be overwritten; use df.write.format("fencepost").mode("append")',
                mode="overwrite",
            )
        return BatchWriter(self._sink_options(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """For `df.writeStream`; output mode complete appends the whole result every time."""
        from fencepost.spark.writer import StreamWriter

        return StreamWriter(self._sink_options(schema))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        from fencepost.spark.options import sink_options
        from fencepost.spark.writer import check_schema

        options = sink_options(self.options)
        check_schema(schema, options.topic, keep_timestamps=options.keep_timestamps)
        return options
