"""How many Produce requests a broker takes, and what one costs it in CPU time.

    python benchmarks/broker/bench.py [--rounds R] [--seconds S] [--only PEER ...]

A raw generator (`loadgen.py`) keeps prebuilt frames in flight, acks=all. Peers: Fencepost as it is
(fsync before ack), Fencepost with Kafka's page-cache behaviour, and Apache Kafka where it can run.
Rounds are interleaved and medians shown; the generator shares the machine with the broker, so
compare rows of one run with each other and with nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker import loadgen


@dataclass(frozen=True)
class Case:
    """One load."""

    name: str
    batch_bytes: int
    connections: int
    depth: int = 5


CASES = (
    Case("1 record, 1 connection", 1, 1),
    Case("1 record, 16 connections", 1, 16),
    Case("1 record, 50 connections", 1, 50),
    Case("16 KB, 16 connections", 16_384, 16),
    Case("256 KB, 4 connections", 262_144, 4),
    Case("1 MB, 4 connections", 1_000_000, 4),
)


@contextmanager
def page_cache() -> Iterator[peers.Peer]:
    """Fencepost that acknowledges what is in the page cache, as Kafka does."""
    with peers.fencepost(**{"log.flush.before.ack": "false"}) as peer:
        yield peers.Peer("fencepost, page cache", peer.bootstrap, peer.pid)


def contenders(
    only: list[str] | None,
) -> dict[str, Callable[[], AbstractContextManager[peers.Peer]]]:
    """The brokers to measure, by the name they go by on the command line."""
    found: dict[str, Callable[[], AbstractContextManager[peers.Peer]]] = {
        "fencepost": peers.fencepost,
        "page-cache": page_cache,
    }
    if "apache" in peers.available():
        found["apache"] = peers.apache
    return {name: make for name, make in found.items() if not only or name in only}


def measure(peer: peers.Peer, case: Case, seconds: float) -> dict[str, float]:
    """One round of one case."""
    arguments = argparse.Namespace(
        bootstrap=peer.bootstrap,
        topic=f"load-{case.batch_bytes}-{case.connections}",
        partitions=8,
        batch_bytes=case.batch_bytes,
        acks=-1,
        connections=case.connections,
        depth=case.depth,
        processes=1,
        seconds=seconds,
        pid=peer.pid or 0,
    )
    return loadgen.measure(arguments)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", action="append", choices=("fencepost", "page-cache", "apache"))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        running = [stack.enter_context(make()) for make in contenders(arguments.only).values()]
        rows = []
        for case in CASES:
            found: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in running}
            for _ in range(arguments.rounds):
                for peer in running:
                    found[peer.name].append(measure(peer, case, arguments.seconds))
            for name, rounds in found.items():
                rows.append([case.name, name, *figures(rounds)])
    headings = ["load (x5 in flight)", "broker", "requests/s", "MB/s", "p50 ms", "p99 ms", "CPU us"]
    print(peers.table(headings, rows))
    return 0


def figures(rounds: list[dict[str, float]]) -> list[str]:
    """Medians of the rounds, as the table shows them."""

    def median(key: str) -> float:
        return statistics.median(one.get(key, float("nan")) for one in rounds)

    return [
        f"{median('requests_per_s'):,.0f}",
        f"{median('mb_per_s'):,.1f}",
        f"{median('p50_ms'):.2f}",
        f"{median('p99_ms'):.2f}",
        f"{median('broker_cpu_us_per_request'):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
