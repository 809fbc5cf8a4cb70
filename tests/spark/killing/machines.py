"""What jobs run on, and what of it can be killed from outside: brokers and executors."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import GROUP_KEY, TRANSACTION_KEY
from fencepost.client.errors import ClientError
from fencepost.client.groups import listing_groups
from fencepost.testing import Cluster as Served
from fencepost.testing.spark_standalone import SparkStandalone

from ...quick_java import quick_jvm
from ...waiting import eventually

FROM_OUTSIDE = ("broker", "coordinator", "executor")
"""Victims that the test kills; the others are killed by the process that takes the step."""
EXECUTOR = b"CoarseGrainedExecutorBackend"
"""In the command of every executor."""


@dataclass
class Machines:
    """Brokers and, if the job is not to run in its own process, a Spark cluster. `killed` are node
    ids and process ids, in their order."""

    served: Served
    standalone: SparkStandalone | None = None
    killed: list[int] = field(default_factory=list)
    _kinds: Any = field(default_factory=lambda: itertools.cycle((TRANSACTION_KEY, GROUP_KEY)))

    @property
    def spark_settings(self) -> dict[str, str]:
        """A session that tries tasks again, as a cluster's does anyhow."""
        settings = {
            "spark.master": "local[2,4]",
            "spark.ui.enabled": "false",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        }
        if self.standalone is not None:
            settings |= self.standalone.settings
            settings["spark.master"] = self.standalone.master_url
            settings["spark.executor.extraJavaOptions"] = quick_jvm()
        return settings

    def kill(self, victim: str, pid: int) -> Callable[[], None]:
        """SIGKILL, while the process `pid` is at the step; what brings it back."""
        if victim == "executor":
            return self._kill_executor(pid)
        if victim == "coordinator":
            return self._kill_coordinator()
        self.killed.append(self.served.pid)
        self.served.kill()

        def back() -> None:
            time.sleep(0.2)  # what was going on meets a broker that is gone
            self.served.start()

        return back

    def _kill_executor(self, pid: int) -> Callable[[], None]:
        """Of the task that is at the step; where no task is, one of them. Spark starts another."""
        assert self.standalone is not None
        executor = next((one for one in ancestors(pid) if is_executor(one)), None)
        if executor is None:
            executor = next(filter(is_executor, self.standalone.executor_processes))
        assert executor in self.standalone.executor_processes
        self.killed.append(executor)
        os.kill(executor, signal.SIGKILL)
        return lambda: None

    def _kill_coordinator(self) -> Callable[[], None]:
        """In turn that of the sink's transactions and that of its group; it comes back when another
        broker has taken over."""
        kind = next(self._kinds)
        servers = self.served.bootstrap_servers
        with Cluster(servers) as cluster:
            groups = [one.group_id for one in cluster.run(listing_groups(cluster))]
            # At the first steps of all there is none yet: then any sink's.
            sink = next((one for one in groups if one.startswith("fencepost-spark")), "sink")
            node = cluster.coordinator(sink, kind).node_id
        self.killed.append(node)
        self.served.kill(node)

        def is_taken_over() -> bool:
            try:
                with Cluster(servers) as cluster:
                    return cluster.find_coordinator(sink, kind).node_id != node
            except (ClientError, OSError):
                return False

        def back() -> None:
            eventually(is_taken_over, f"another coordinator of {sink} than {node}")
            self.served.start(node)

        return back


def ancestors(pid: int) -> list[int]:
    """The processes that a process descends from, itself first, as far as they are there."""
    found = []
    while pid > 1:
        found.append(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found


def is_executor(pid: int) -> bool:
    try:
        return EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
