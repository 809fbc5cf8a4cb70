"""Streaming reads: `spark.readStream.format("fencepost")`; the decisions are in `stream_planner`.

Spark keeps one instance of the reader in a process of its own for the whole query and sends another
one, made from the same options, to the tasks. So the planner is made on first use and never
travels, and tasks get everything they need in their partition.

PySpark 4.1 has no admission control: it asks for the latest offset without saying from where, and
knows no read limits. The planner then counts from the end it planned last; only the first batch of
every run cannot be limited there. (Tried on 4.1.1 and 4.3.0.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from fencepost.arrow.backfill import survey_for
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.stream_planner import StreamPlanner
from fencepost.spark.errors import cluster_errors
from fencepost.spark.projection import Projection
from fencepost.spark.reader import RangePartition, wanted_range

if TYPE_CHECKING:
    from fencepost.spark.group_progress import GroupProgress

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_ADMISSION_CONTROL = True
except ImportError:  # PySpark 4.1
    HAS_ADMISSION_CONTROL = False
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

UNLIMITED_ROWS = 2**63 - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers Spark's questions with the planner's answers."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self.options = options
        self.projection = projection
        self._planner: StreamPlanner | None = None
        self._progress: GroupProgress | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_progress": None}

    @property
    def planner(self) -> StreamPlanner:
        """The planner of this process."""
        if self._planner is None:
            self._planner = StreamPlanner(self.options, survey_for(self.options))
        return self._planner

    def _finished(self, offset: dict[str, Any] | None) -> None:
        """A batch is finished, so a group may be told."""
        if self.options.commit_group is None:
            return
        if self._progress is None:
            from fencepost.spark.group_progress import GroupProgress

            self._progress = GroupProgress(self.options)
        self._progress.finished(offset)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Any limit but ReadAllAvailable stands for "as the options say"; Spark hands it back."""
        most, least = self.options.max_offsets_per_trigger, self.options.min_offsets_per_trigger
        if most is None and least is None and self.options.max_bytes_per_trigger is None:
            return ReadAllAvailable()
        return ReadMaxRows(most or UNLIMITED_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is all that this run reads."""
        with cluster_errors():
            self.planner.freeze()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query starts."""
        with cluster_errors():
            return self.planner.initial()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """The end of the next batch, `start` itself when there is nothing new. Spark asks only when
        the batch that ends at `start` is finished, also after the last batch of a run."""
        self._finished(start)
        limited = not (HAS_ADMISSION_CONTROL and isinstance(limit, ReadAllAvailable))
        with cluster_errors():
            return self.planner.next_end(start, limited=limited)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs, for the query's progress."""
        return self.planner.latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One range per task of the batch."""
        with cluster_errors():
            return [RangePartition(wanted) for wanted in self.planner.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        from fencepost.spark.collector import freeze_loaded
        from fencepost.spark.tasks import read_range  # decoding, which the planner does not need

        freeze_loaded()
        with cluster_errors():
            yield from read_range(self.options, self.projection, wanted_range(partition))

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends here is finished. The checkpoint has the offsets; a group is told
        them if the query asks for it."""
        self._finished(end)

    def stop(self) -> None:
        """Nothing that the end of the process would not do."""
