"""The results of an audit: as DataFrames, and as files."""

from __future__ import annotations

from typing import Any, Final

from fencepost.spark.audit.auditing import Outcome
from fencepost.spark.audit.model import ComparedRange, Finding

FINDINGS_SCHEMA: Final = (
    "topic string, partition int, replica int, severity string, check string, start_offset long,"
    " end_offset long, leader_epoch int, other_replica int, other_leader_epoch int, path string,"
    " position long, text string"
)
RANGES_SCHEMA: Final = (
    "topic string, partition int, start_offset long, end_offset long, replicas array<int>,"
    " batches long, is_equal boolean"
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
        return self._spark.createDataFrame([tuple(one) for one in self.findings], FINDINGS_SCHEMA)

    def ranges_frame(self) -> Any:
        """A DataFrame with a row for each range that was compared."""
        rows = [(*one[:4], list(one.replicas), *one[5:]) for one in self.ranges]
        return self._spark.createDataFrame(rows, RANGES_SCHEMA)

    def write(self, path: str, format: str = "parquet") -> None:
        """Write both DataFrames to `path`/findings and `path`/ranges, in place of what is there."""
        if format not in FORMATS:
            raise ValueError(f"format {format!r} is none of {', '.join(FORMATS)}")
        for name, frame in (("findings", self.findings_frame()), ("ranges", self.ranges_frame())):
            frame.coalesce(1).write.format(format).mode("overwrite").save(f"{path}/{name}")
