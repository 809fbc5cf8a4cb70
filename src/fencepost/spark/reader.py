"""Batch reads: `spark.read.format("fencepost")`.

The driver plans the ranges (`fencepost.arrow.batch_planner`) and makes a task of each; `tasks`
reads.

Filters narrow the ranges when spark.sql.python.filterPushdown.enabled is on. Spark refuses any
reader that overrides `pushFilters` while it is off (as by default), so the override hides in an
instance attribute that shows the base class's function to that check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from fencepost.arrow.backfill import survey_for
from fencepost.arrow.batch_planner import plan_batch
from fencepost.arrow.narrowing import Narrowing
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.spark.errors import cluster_errors
from fencepost.spark.filters import narrow
from fencepost.spark.projection import Projection


@dataclass
class RangePartition(InputPartition):
    """One task's range; all that a task gets beside the reader's options."""

    wanted: OffsetRange


class _HiddenOverride:
    """A `pushFilters` that Spark's check takes for the base class's own."""

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push
        self.__dict__["__func__"] = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks; holds options only."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self.options = options
        self.projection = projection
        self.narrowing = Narrowing()
        self.pushFilters: Any = _HiddenOverride(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        narrow(self.narrowing, filters)
        return filters  # Spark applies all of them again

    def partitions(self) -> list[InputPartition]:
        """One range per task."""
        with cluster_errors():
            ranges = plan_batch(self.options, survey_for(self.options), self.narrowing)
        return [RangePartition(wanted) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows. Of a plan without ranges Spark makes one task, with None for a range."""
        if type(partition) is InputPartition and partition.value is None:
            return
        from fencepost.spark.collector import freeze_loaded
        from fencepost.spark.tasks import read_range  # decoding, which no planner needs

        freeze_loaded()
        with cluster_errors():
            yield from read_range(self.options, self.projection, wanted_range(partition))


def wanted_range(partition: InputPartition) -> OffsetRange:
    """The range of a task; TypeError for a partition that is not ours, never silence."""
    if not isinstance(partition, RangePartition):
        raise TypeError(f"fencepost planned no partition {partition!r}")
    return partition.wanted
