"""An audit of replicas' log directories, as a Spark job: `audit`.

Every segment of every replica is read once, by executors that see the directories. Checked are
CRCs, that offsets follow each other without an unexplained gap, leader epochs (never falling, and
as `leader-epoch-checkpoint` has them), indexes, producer snapshots, and that replicas are equal
below the high watermark. Directories are Fencepost's or Apache Kafka's, in use or not; nothing is
changed or locked.

* `listing` finds what there is, `tasks` reads it with the checks of `fencepost.log.verify`;
* `stitching` makes one log of what its segments show, and one finding of one cause;
* `cover` says in which offsets replicas must agree, `comparing` where they do not;
* `auditing` is the course of it all, `spark_runner` runs it on executors, `frames` gives results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from fencepost.spark.audit.auditing import RANGE_OFFSETS, Audit, Outcome, Settings, Source
from fencepost.spark.audit.frames import AuditResult
from fencepost.spark.audit.model import AuditError, ComparedRange, Finding
from fencepost.spark.audit.spark_runner import Progress, SparkRunner

__all__ = [
    "AuditError",
    "AuditResult",
    "ComparedRange",
    "Finding",
    "Outcome",
    "Progress",
    "audit",
]

Place = str | PathLike[str]


def audit(
    spark: Any,
    directories: Place | Sequence[Place] = (),
    *,
    replicas: Mapping[int, Place | Sequence[Place]] | None = None,
    topics: Iterable[str] = (),
    is_deep: bool = False,
    range_offsets: int = RANGE_OFFSETS,
    progress: Callable[[Progress], None] | None = None,
) -> AuditResult:
    """Audit log directories with the executors of the session `spark`, all of which must see them.

    `directories` are log directories, each of which says by its `meta.properties` whose it is, and
    directories of clusters as `fencepost cluster` keeps them. `replicas` names log directories by
    the broker they are of. `topics` are regular expressions, one of which the whole name must
    match; without one all topics are audited, internal ones among them. `is_deep` decompresses and
    parses records, too. Replicas are compared in ranges of `range_offsets` offsets first; longer
    ones where there would be too many. `progress` is called from a thread, twice a second.

    AuditError where it cannot be done: a directory that an executor does not see, directories of
    different clusters, no partition of these topics, a Spark job that failed.
    """
    sources = [Source(str(one)) for one in _places(directories)]
    for number, places in (replicas or {}).items():
        sources += [Source(str(one), number) for one in _places(places)]
    if not sources:
        raise AuditError("there is no directory to audit")
    if range_offsets < 1:
        raise AuditError(f"ranges of {range_offsets} offsets cannot be compared")
    settings = Settings(tuple(topics), is_deep, range_offsets)
    outcome = Audit(SparkRunner(spark, progress), sources, settings).run()
    return AuditResult(spark, outcome)


def _places(given: Place | Sequence[Place]) -> list[Place]:
    return [given] if isinstance(given, str | PathLike) else list(given)
