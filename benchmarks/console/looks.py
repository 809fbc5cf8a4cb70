"""The commonest looks at a cluster, by the console and by Kafdrop: start, memory, time, requests.

    python benchmarks/console/looks.py [--kafdrop kafdrop.jar] [--topics 200] [--groups 50]
        [--repeat 9]

Both look at one Fencepost broker, whose metrics tell how many requests a look cost it. They take
turns at each look; a time is the median of `--repeat`, of the whole answer, after two that are not
counted. Requests are the fewest of several looks, since consoles also look in the background.
Without a jar of Kafdrop (github.com/obsidiandynamics/kafdrop) the console is measured alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from fencepost.testing.ports import free_ports
from fencepost.views.tables import draw_table

PARTITIONS: Final = 3
RECORDS: Final = 10_000
START_TIMEOUT_S: Final = 180.0
SETTLING_S: Final = 10.0
LOOKS_COUNTED: Final = 7
COUNTED: Final = re.compile(r"^kafka_network_requestmetrics_requests_total\S* (\S+)$", re.M)
BOTH: Final = "fencepost", "kafdrop"


@dataclass
class Console:
    """One that runs: where it is, its process, and how long it took to its first page."""

    url: str
    process: psutil.Process
    start_s: float

    def rss_mb(self) -> float:
        """Resident memory in MB."""
        return float(self.process.memory_info().rss) / 1e6

    def look(self, path: str) -> float:
        """How long a page takes, in ms."""
        began = time.perf_counter()
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            answer.read()
        return (time.perf_counter() - began) * 1e3


# What is looked at: the paths of both, None where there is no such page.
LOOKS: Final = {
    "topics": ("/topics?rows=1000", "/"),
    "a topic, with offsets": ("/topics/topic-000?show=contents", "/topic/topic-000"),
    "records of a partition": (
        "/topics/topic-000/records?partitions=0&order=oldest&from=0&limit=100",
        "/topic/topic-000/messages?partition=0&offset=0&count=100&keyFormat=DEFAULT&format=DEFAULT",
    ),
    "groups": ("/groups?rows=1000", None),
    "a group's lag": ("/groups/group-00", "/consumer/group-00"),
    "brokers": ("/brokers", "/"),
    "a broker": ("/brokers/1", "/broker/1"),
    "configs of the brokers": ("/configs", None),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kafdrop", type=Path, metavar="JAR")
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=9)
    chosen = parser.parse_args()
    (metrics,) = free_ports(1)
    config = {"fencepost.metrics.listener": str(metrics)}
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(faults=False, config=config))
        fill(cluster.bootstrap_servers, chosen.topics, chosen.groups)
        consoles = [stack.enter_context(ours(cluster.bootstrap_servers))]
        if chosen.kafdrop is not None:
            consoles.append(stack.enter_context(kafdrop(cluster.bootstrap_servers, chosen.kafdrop)))
        time.sleep(SETTLING_S)
        print_looks(consoles, f"http://127.0.0.1:{metrics}/metrics", chosen.repeat)
    return 0


def fill(servers: str, topics: int, groups: int) -> None:
    """Topics of three partitions, the first with many records, and groups that have read half."""
    with Client(servers) as client:
        admin = Admin(client)
        names = [f"topic-{number:03}" for number in range(topics)]
        for name in names:
            admin.create_topic(name, PARTITIONS, 1)
        admin.wait_for_topic(names[-1])
        producer = Producer(client)
        for number in range(RECORDS):
            value = b'{"number": %d, "text": "%s"}' % (number, b"x" * 80)
            producer.send(names[0], value, b"k%d" % number)
        for name in names[1:]:
            producer.send(name, b"value", b"key")
        producer.flush()
        read = {
            TopicPartition(names[0], number): CommittedOffset(1_000) for number in range(PARTITIONS)
        }
        for number in range(groups):
            admin.alter_group_offsets(f"group-{number:02}", read)


@contextlib.contextmanager
def ours(servers: str) -> Iterator[Console]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "fencepost.cli.main", "console", "-b", servers]
    with started([*command, "--port", str(port)], f"http://127.0.0.1:{port}") as console:
        yield console


@contextlib.contextmanager
def kafdrop(servers: str, jar: Path) -> Iterator[Console]:
    (port,) = free_ports(1)
    java = ["java", "-jar", str(jar), f"--kafka.brokerConnect={servers}"]
    ports = [f"--server.port={port}", f"--management.server.port={port}"]
    with started([*java, *ports], f"http://127.0.0.1:{port}") as console:
        yield console


@contextlib.contextmanager
def started(command: list[str], url: str) -> Iterator[Console]:
    """A process until the block ends, from when its first page is there."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        console = Console(url, psutil.Process(process.pid), 0.0)
        while True:
            try:
                console.look("/")
                break
            except OSError:
                if time.monotonic() - began > START_TIMEOUT_S or process.poll() is not None:
                    raise
                time.sleep(0.05)
        console.start_s = time.monotonic() - began
        yield console
    finally:
        process.terminate()
        process.wait()


def requests_of(metrics: str) -> float:
    """How many requests the broker has had, of all kinds."""
    with urllib.request.urlopen(metrics, timeout=30) as answer:
        return sum(map(float, COUNTED.findall(answer.read().decode())))


def cost(console: Console, path: str, metrics: str) -> float:
    """The requests of one look: the fewest of several, as consoles look in the background too."""

    def once() -> float:
        before = requests_of(metrics)
        console.look(path)
        return requests_of(metrics) - before

    return min(once() for _ in range(LOOKS_COUNTED))


def print_looks(consoles: list[Console], metrics: str, repeat: int) -> None:
    """The table, with the load of the machine before and after."""
    load = os.getloadavg()[0]
    rows = []
    for name, paths in LOOKS.items():
        told: list[str] = []
        pairs = list(zip(consoles, paths, strict=False))
        times: list[list[float]] = [[] for _ in pairs]
        for number in range(repeat + 2):
            for kept, (console, path) in zip(times, pairs, strict=True):
                if path is not None:
                    took = console.look(path)
                    if number >= 2:
                        kept.append(took)
        for kept, (console, path) in zip(times, pairs, strict=True):
            if path is None:
                told += ["–", "–"]
            else:
                asked = f"{cost(console, path, metrics):.0f}"
                told += [f"{statistics.median(kept):.0f}", asked]
        rows.append((name, *told))
    names = [f"{name} {what}" for name in BOTH[: len(consoles)] for what in ("ms", "requests")]
    print(*draw_table(("look", *names), rows), sep="\n")
    for name, console in zip(BOTH, consoles, strict=False):
        print(f"{name}: first page after {console.start_s:.1f} s, {console.rss_mb():.0f} MB now")
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    sys.exit(main())
