"""The commonest looks at a cluster, by the console and by others: start, memory, time, requests.

    python benchmarks/console/looks.py [--kafdrop JAR] [--akhq JAR] [--kafbat JAR]
        [--redpanda PROGRAM] [--java JAVA] [--topics 1000] [--groups 50] [--repeat 9]

All look at one Fencepost broker, whose metrics tell how many requests a look cost it. They take
turns at each look; a time is the median of `--repeat`, of the whole answer, after two that are not
counted. Requests are the fewest of several looks, since consoles also look in the background. They
are started one after another; a start ends with the first answer to "topics" that has a topic in
it. Without another console's program the console is measured alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.console.consoles import FENCEPOST, LOOKS, OTHERS, Kind, Place, Request
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from fencepost.testing.ports import free_ports
from fencepost.views.tables import draw_table

PARTITIONS: Final = 3
RECORDS: Final = 10_000
START_TIMEOUT_S: Final = 300.0
LOOK_TIMEOUT_S: Final = 120.0
SETTLING_S: Final = 10.0
UNCOUNTED: Final = 2
LOOKS_COUNTED: Final = 7
COUNTED: Final = re.compile(r"^kafka_network_requestmetrics_requests_total\S* (\S+)$", re.M)


@dataclass
class Console:
    """One that runs: where it is, its process, how long it took to start, and its memory then."""

    kind: Kind
    url: str
    process: psutil.Process
    start_s: float = 0.0
    started_mb: float = 0.0

    def rss_mb(self) -> float:
        """Resident memory in MB."""
        return float(self.process.memory_info().rss) / 1e6

    def answer(self, request: Request) -> bytes:
        """The whole answer. Raises OSError if there is none, or one that is not 200."""
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        asked = urllib.request.Request(self.url + request.path, request.body, headers)
        with urllib.request.urlopen(asked, timeout=LOOK_TIMEOUT_S) as answer:
            return bytes(answer.read())

    def look(self, name: str) -> float:
        """How long a look takes, in ms. Raises ValueError if its answer is not of this cluster."""
        request = self.kind.requests[name]
        began = time.perf_counter()
        answer = self.answer(request)
        took = (time.perf_counter() - began) * 1e3
        expected = request.in_answer or LOOKS[name]
        if expected not in answer:
            raise ValueError(f"{self.kind.name}, {name}: {expected!r} is not in {answer[:200]!r}")
        return took


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for kind in OTHERS:
        parser.add_argument(f"--{kind.name}", type=Path, metavar="PATH", help=kind.program)
    parser.add_argument("--java", default="java", help="what runs their jars")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=9)
    chosen = parser.parse_args()
    programs = [(FENCEPOST, Path(sys.executable))]
    given = ((kind, getattr(chosen, kind.name)) for kind in OTHERS)
    programs += [(kind, program) for kind, program in given if program is not None]
    (metrics,) = free_ports(1)
    config = {"fencepost.metrics.listener": str(metrics)}
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster(faults=False, config=config))
        fill(cluster.bootstrap_servers, chosen.topics, chosen.groups)
        load = os.getloadavg()[0]
        consoles = []
        for kind, program in programs:
            (port,) = free_ports(1)
            place = Place(cluster.bootstrap_servers, port, program, chosen.java, directory)
            consoles.append(stack.enter_context(started(kind, place)))
        time.sleep(SETTLING_S)
        print_looks(consoles, f"http://127.0.0.1:{metrics}/metrics", chosen.repeat)
        print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
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
def started(kind: Kind, place: Place) -> Iterator[Console]:
    """A console until the block ends, from when its list of topics has a topic."""
    start = kind.start(place)
    for path, text in start.files.items():
        path.write_text(text)
    log = place.directory / f"{kind.name}.log"
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            start.command,
            cwd=place.directory if kind is not FENCEPOST else None,
            env={**os.environ, **start.environment},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        console = Console(kind, f"http://127.0.0.1:{place.port}", psutil.Process(process.pid))
        while True:
            try:
                console.look("topics")
                break
            except (OSError, ValueError):
                if time.monotonic() - began > START_TIMEOUT_S or process.poll() is not None:
                    sys.stderr.write(log.read_text(errors="replace")[-4000:])
                    raise
                time.sleep(0.05)
        console.start_s = time.monotonic() - began
        console.started_mb = console.rss_mb()
        yield console
    finally:
        process.terminate()
        process.wait()


def requests_of(metrics: str) -> float:
    """How many requests the broker has had, of all kinds."""
    with urllib.request.urlopen(metrics, timeout=LOOK_TIMEOUT_S) as answer:
        return sum(map(float, COUNTED.findall(answer.read().decode())))


def cost(console: Console, name: str, metrics: str) -> float:
    """The requests of one look: the fewest of several, as consoles look in the background too."""

    def once() -> float:
        before = requests_of(metrics)
        console.look(name)
        return requests_of(metrics) - before

    return min(once() for _ in range(LOOKS_COUNTED))


def times(consoles: list[Console], name: str, repeat: int) -> dict[str, list[float]]:
    """The times of a look by each console that has it, in ms; they take turns."""
    having = [console for console in consoles if name in console.kind.requests]
    taken: dict[str, list[float]] = {console.kind.name: [] for console in having}
    for number in range(UNCOUNTED + repeat):
        for console in having:
            took = console.look(name)
            if number >= UNCOUNTED:
                taken[console.kind.name].append(took)
    return taken


def print_looks(consoles: list[Console], metrics: str, repeat: int) -> None:
    """The table of looks, and a line of each console."""
    rows = []
    for name in LOOKS:
        taken = times(consoles, name, repeat)
        cells: list[str] = []
        for console in consoles:
            if console.kind.name in taken:
                median = statistics.median(taken[console.kind.name])
                cells += [f"{median:.0f}", f"{cost(console, name, metrics):.0f}"]
            else:
                cells += ["-", "-"]
        rows.append((name, *cells))
    names = [f"{console.kind.name} {what}" for console in consoles for what in ("ms", "requests")]
    print(*draw_table(("look", *names), rows), sep="\n")
    for console in consoles:
        print(
            f"{console.kind.name}: topics after {console.start_s:.1f} s; "
            f"{console.started_mb:.0f} MB then, {console.rss_mb():.0f} MB after the looks"
        )


if __name__ == "__main__":
    sys.exit(main())
