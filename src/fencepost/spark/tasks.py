"""What a task does: read one range with a Cluster that the Python worker keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fencepost.arrow import ranges
from fencepost.arrow.connections import cluster_for, drop
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.batch.columns import SCHEMA as DECODED
from fencepost.client.errors import ClientError
from fencepost.spark.columns import COLUMNS
from fencepost.spark.projection import Projection

assert set(DECODED.names) == set(COLUMNS)


def read_range(
    options: SourceOptions, projection: Projection, wanted: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """The records of `wanted`, as Spark wants them. Raises what `fencepost.arrow.ranges` does."""
    cluster = cluster_for(options.client)
    try:
        yield from projection.apply(ranges.read_range(cluster, options, projection.columns, wanted))
    except ClientError:
        drop(options.client)
        raise
