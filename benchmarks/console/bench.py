"""How long the console's lists take on a large cluster: server time of each page, from a sample.

    python benchmarks/console/bench.py [--topics 10000] [--partitions 10] [--brokers 12]
        [--groups 1000] [--repeat 5]

The sample is made up, and no cluster is there: these pages ask none. A page's time is that of the
whole request through the console's routes, up to the last byte of the answer, as wall time and as
CPU time of the process (the smallest of several, in ms). What the sampler's thread does once for
each sample is listed apart: its counts, and the comparison with the sample before. A page fails
the run if it takes longer than its budget in CPU time, or asks the cluster anything.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from fencepost.client.config import ClientConfig
from fencepost.client.groups import ListedGroup
from fencepost.client.metadata import Node, PartitionInfo, TopicInfo
from fencepost.console.changes import changes_between
from fencepost.console.pages.replication import MinIsr
from fencepost.console.sample import Sample
from fencepost.console.sampling import sharing_topics
from fencepost.console.session import Session, now_ms
from fencepost.console.summary import Summary
from fencepost.console.web.application import application
from fencepost.views.tables import draw_table
from fencepost.wire.types import Uuid

HOST: Final = "127.0.0.1:8093"
OVERVIEW_MS: Final = 300.0
LIST_MS: Final = 150.0
PAGES: Final = (
    ("/", OVERVIEW_MS),
    ("/?since=start", OVERVIEW_MS),
    ("/topics", LIST_MS),
    ("/topics?order=trouble", LIST_MS),
    ("/topics?filter=topic-00099", LIST_MS),
    ("/topics?first=9000&rows=1000", LIST_MS),
    ("/replication?details=none", LIST_MS),
    ("/replication?details=none&first=90000", LIST_MS),
    ("/replication?details=none&show=under-replicated&rows=200", LIST_MS),
    ("/replication?details=none&show=not-preferred&filter=99", LIST_MS),
    ("/replication?details=none&show=at-min-isr", LIST_MS),
    ("/brokers", LIST_MS),
    ("/changes?since=start", LIST_MS),
    ("/api/topics", LIST_MS),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    parser.add_argument("--brokers", type=int, default=12)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    sizes = chosen.topics, chosen.partitions, chosen.brokers, chosen.groups
    before, after = made_up(*sizes, epoch=0), made_up(*sizes, epoch=1)
    print_sampler(before, after, chosen.repeat)
    return asyncio.run(print_pages(before, sharing_topics(before, after), chosen.repeat))


def made_up(topics: int, partitions: int, brokers: int, groups: int, *, epoch: int) -> Sample:
    """A sample; one partition of a hundred lacks a replica in sync, and with another `epoch` has
    another leader."""
    nodes = {id_: Node(id_, f"broker-{id_}", 9092, f"rack-{id_ % 3}") for id_ in range(brokers)}

    def partition(topic: int, number: int) -> PartitionInfo:
        first = topic * partitions + number
        replicas = tuple((first + place) % brokers for place in range(min(3, brokers)))
        is_troubled = first % 100 == 0
        leader = replicas[epoch] if is_troubled else replicas[0]
        isr = replicas[:-1] if is_troubled else replicas
        return PartitionInfo(number, leader, epoch * is_troubled, replicas, isr, ())

    return Sample(
        taken_at_ms=now_ms() - 60_000 + 60_000 * epoch,
        took_ms=1.0,
        cluster_id="made up",
        controller_id=0,
        brokers=nodes,
        fenced=frozenset(),
        topics={
            f"topic-{topic:05}": TopicInfo(
                f"topic-{topic:05}",
                Uuid(topic.to_bytes(16, "big")),
                False,
                {number: partition(topic, number) for number in range(partitions)},
            )
            for topic in range(topics)
        },
        groups=[ListedGroup(f"group-{n:04}", "Stable", "consumer", "") for n in range(groups)],
        quorum=None,
        requests={},
        errors={},
    )


def print_sampler(before: Sample, after: Sample, repeat: int) -> None:
    """What the sampler's thread does once for each sample, besides asking."""
    shared = sharing_topics(before, after)
    work: dict[str, Callable[[], Any]] = {
        "counts (once for each sample)": lambda: Summary.of(after),
        "share topics with the sample before": lambda: sharing_topics(before, after),
        "compare with the sample before": lambda: list(changes_between(before, shared)),
    }
    rows = [(name, *map(_shown, _smallest(doing, repeat))) for name, doing in work.items()]
    print(*draw_table(("in the background", "wall ms", "CPU ms"), rows), "", sep="\n")


def _smallest(doing: Callable[[], Any], repeat: int) -> tuple[float, float]:
    walls, cpus = [], []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        doing()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls) * 1000, min(cpus) * 1000


def _shown(number_ms: float) -> str:
    return f"{number_ms:.1f}"


async def print_pages(before: Sample, after: Sample, repeat: int) -> int:
    """The pages' times; 1 if one is over its budget or asks the cluster."""
    session = Session(ClientConfig(bootstrap_servers="127.0.0.1:1"))
    for sample in (before, after):
        session.samples.keep(sample)
        session.summary(sample)
    session.sampler.newest = after
    least = session.memory(MinIsr)
    least.taken_at_ms, least.by_topic = now_ms(), dict.fromkeys(after.topics, 2)
    routes = application(session, frozenset({HOST}))
    rows, slow = [], []
    for path, budget_ms in PAGES:
        walls, cpus, size = [], [], 0
        for _ in range(repeat):
            wall, cpu = time.perf_counter(), time.process_time()
            status, size = await _get(routes, path)
            walls.append((time.perf_counter() - wall) * 1000)
            cpus.append((time.process_time() - cpu) * 1000)
            assert status == 200, (path, status)
        rows.append((path, f"{min(walls):.1f}", f"{min(cpus):.1f}", f"{budget_ms:.0f}", size))
        if min(cpus) > budget_ms:
            slow.append(path)
    assert not session.cluster.metadata.nodes, "a list asked the cluster"
    print(*draw_table(("page", "wall ms", "CPU ms", "budget ms", "bytes"), rows), sep="\n")
    if slow:
        print(f"over budget: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


async def _get(routes: Any, path: str) -> tuple[int, int]:
    """The status and the size of an answer."""
    found: dict[str, int] = {"status": 0, "size": 0}
    before, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": before,
        "raw_path": before.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", HOST.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8093),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        found["status"] = message.get("status", found["status"])
        found["size"] += len(message.get("body", b""))

    await routes(scope, receive, send)
    return found["status"], found["size"]


if __name__ == "__main__":
    sys.exit(main())
