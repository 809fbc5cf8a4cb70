"""Applications that must use both workers of a standalone cluster, and what shows that they did.

The master's own word comes late: an application takes its leave of it by a message that is not
answered, so it may have ended before the master counts it as completed, or its executors before
the application, whose cores are then no longer counted.
"""

from __future__ import annotations

from fencepost.testing.spark_standalone import SparkStandalone

ON_BOTH = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}
"""Of an application that starts no task before both executors are there, of a core each."""


def workers_of_applications(spark: SparkStandalone) -> list[set[int]]:
    """For each application, in their order, the workers that ran an executor of it: there is the
    directory in which it ran."""
    found: dict[str, set[int]] = {}
    for number in range(len(spark.workers)):
        for executor in spark.directory.glob(f"worker-{number}/app-*/*/"):
            found.setdefault(executor.parent.name, set()).add(number)
    return [found[name] for name in sorted(found)]
