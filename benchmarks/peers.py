"""The brokers that benchmarks compare: Fencepost, Apache Kafka, and librdkafka's mock cluster.

Each is a context manager that yields a `Peer` on a free loopback port and stops it afterwards.
Apache Kafka comes from Maven Central through the interop suite's fixtures; where it is out of
reach, the benchmark goes on without it and says so.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# An installed broker has its bytecode beside its sources; one that may not write it compiles 250
# modules at every start, and that is not what is compared.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@dataclass
class Peer:
    """A running broker: what to call it, where it listens, and its process if it has its own."""

    name: str
    bootstrap: str
    pid: int | None
    client: dict[str, str] = field(default_factory=dict)
    """What librdkafka's clients of it need besides."""

    def cpu_s(self) -> float:
        """CPU seconds its process has used so far (0 for the mock, which lives in the client)."""
        if self.pid is None:
            return 0.0
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    def rss_mb(self) -> float:
        """Resident memory in MB."""
        return psutil.Process(self.pid).memory_info().rss / 1e6 if self.pid else float("nan")


@contextlib.contextmanager
def fencepost(**config: str) -> Iterator[Peer]:
    """`fencepost serve` in a child process."""
    from fencepost.testing import Cluster

    with Cluster(faults=False, config=dict(config)) as cluster:
        yield Peer("fencepost", cluster.bootstrap_servers, cluster.pid)


@contextlib.contextmanager
def apache(**config: str) -> Iterator[Peer]:
    """Apache Kafka's broker in a child process, with the JVM settings that it ships with."""
    from tests.interop.apache import KAFKA_VERSION, apache_broker

    with (
        tempfile.TemporaryDirectory() as directory,
        apache_broker(Path(directory), tuned_jvm=True, **config) as broker,
    ):
        yield Peer(f"apache-{KAFKA_VERSION}", broker.bootstrap_servers, broker.process.pid)


@contextlib.contextmanager
def mock() -> Iterator[Peer]:
    """librdkafka's mock cluster, which keeps records in memory and checks next to nothing."""
    from confluent_kafka import Producer

    host = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
    broker = next(iter(host.list_topics(timeout=10).brokers.values()))
    yield Peer("librdkafka mock", f"{broker.host}:{broker.port}", None)


def available() -> list[str]:
    """Names of the peers that can run here, with a line on standard error for those that cannot."""
    names = ["fencepost", "mock"]
    from tests.interop.apache import KAFKA
    from tests.interop.maven import JarsUnavailableError

    try:
        KAFKA.jars()
        names.insert(1, "apache")
    except JarsUnavailableError as error:
        print(f"without Apache Kafka: {error}", file=sys.stderr)
    return names


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, columns padded so that it reads well on a terminal too."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(headings, *rows)]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in lines
    )


def percentile(times: list[float], hundredth: int) -> float:
    """The smallest time that so many in a hundred do not exceed."""
    ranked = sorted(times)
    return ranked[min(len(ranked) - 1, -(-len(ranked) * hundredth // 100) - 1)]
