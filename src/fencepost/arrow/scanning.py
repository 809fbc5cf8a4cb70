"""A planned read of topics as record batches.

A scan is a list of ranges and what to make of them; each iteration reads them again, through
connections of its own that are closed when it ends. Within a partition batches come by offset. With
one thread partitions come one after another, and the next fetch is in flight while the caller works
on a batch; with more, each thread reads partitions of its own (`lanes`).

Memory: a fetch (`max.partition.fetch.bytes`, 8 MiB by default) and the next one, and batches of at
most 32,768 rows or about 4 MiB; so much for each thread, and three batches more that wait for the
caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from fencepost.arrow.lanes import read_lanes
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.ranges import read_range
from fencepost.arrow.shape import Shape
from fencepost.client.cluster import Cluster

_SHOWN: Final = 10  # ranges in a scan's repr


class Scan:
    """Iterate for record batches, or hand it to what reads Arrow streams: it has
    `__arrow_c_stream__`, which pandas, Polars and DuckDB read.

    Reading raises DataLossError for records that the plan counted on and that are gone or were
    rewritten (logged with `on_data_loss="warn"`), DamagedRecordsError, TimestampError, TextError,
    and errors of the client.
    """

    def __init__(
        self,
        options: SourceOptions,
        shape: Shape,
        ranges: Sequence[OffsetRange],
        threads: int,
    ) -> None:
        self.ranges = tuple(ranges)
        """What is read, by partition and offset."""
        self._options = options
        self._shape = shape
        self._threads = threads

    def __repr__(self) -> str:
        shown = [f"{one.partition} {one.start}-{one.end}" for one in self.ranges[:_SHOWN]]
        if len(self.ranges) > _SHOWN:
            shown.append(f"and {len(self.ranges) - _SHOWN} more ranges")
        return f"<Scan of {sum(one.size for one in self.ranges)} offsets: {', '.join(shown)}>"

    @property
    def schema(self) -> pa.Schema:
        """That of all batches."""
        return self._shape.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        lanes: dict[object, list[int]] = {}
        for number, wanted in enumerate(self.ranges):
            # Pieces of a partition follow on each other in one lane, so that offsets do.
            lanes.setdefault(wanted.partition, []).append(number)
        for _, batch in self._numbered(list(lanes.values())):
            yield batch

    def read_all(self) -> pa.Table:
        """Everything, by partition and offset, in memory."""
        found = self._numbered([[number] for number in range(len(self.ranges))])
        numbered = sorted(found, key=lambda item: item[0])
        return pa.Table.from_batches([batch for _, batch in numbered], self.schema)

    def split(self) -> list[Scan]:
        """A scan for each range. Scans travel in pickles, so other processes can read them."""
        return [Scan(self._options, self._shape, [wanted], 1) for wanted in self.ranges]

    def reader(self) -> pa.RecordBatchReader:
        """One iteration, as Arrow's own kind of reader."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def _numbered(self, lanes: list[list[int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with the number of their range."""
        if self._threads == 1 or len(lanes) < 2:
            with Cluster(config=self._options.client) as cluster:
                for number in range(len(self.ranges)):
                    yield from self._read(cluster, number)
            return
        yield from read_lanes(lanes, self._threads, self._options.client, self._read)

    def _read(self, cluster: Cluster, number: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        wanted = self.ranges[number]
        for decoded in read_range(cluster, self._options, self._shape.decoded, wanted):
            for batch in self._shape.apply(wanted.partition, decoded):
                yield number, batch
