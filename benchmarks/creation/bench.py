"""How long CreateTopics takes, until every partition can be used, and what it costs the brokers.

    python benchmarks/creation/bench.py [--minutes M] [--nodes one|three]... [--kind NAME]...
                                        [--only TEXT]... [--rounds R]

One node (a broker and controller in a process, one replica), and a controller with three brokers
(three replicas), of ours and of Apache Kafka. Each figure is of processes that were started for it
and have created a topic before, with a partition for each broker; no other broker runs meanwhile.

"Answered" is until CreateTopics is; "led" until every partition's leader says where its log ends;
"written" until records with acks=all are acknowledged in ten partitions of each leader, the last
among them. CPU is of all processes of the cluster, from the kernel's accounting: until the answer,
and until they use little. A round is in turns; told are medians of rounds. A cluster that does not
take all of it in one request is sent several, one after the other. Nothing is asserted. The aim is
an answer in 1 s for 1,000 partitions, and in 5 s for 10,000.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.interop import apache

from benchmarks import peers
from benchmarks.broker.frames import RefusedError
from benchmarks.broker.pipes import cpu_s
from benchmarks.cluster import brokers
from benchmarks.creation.asking import PATIENCE_S, Asker, Wanted, pieces_of
from fencepost.client.errors import ClientError

CASES: Final = (
    Wanted(1, 1_000),
    Wanted(10, 100),
    Wanted(1_000, 1),
    Wanted(1, 10_000),
    Wanted(10, 1_000),
    Wanted(1_000, 10),
)
NODES: Final = {"one": 1, "three": len(brokers.BROKERS)}
RECORDS_MAX: Final = 10_000
"""Of metadata, that one request may come to."""
QUIET_CORES: Final = 0.15
"""What each process uses at most when it has no more to do."""
QUIET_S: Final = 1.0
QUIET_AFTER_S: Final = 90.0
TROUBLE: Final = (AssertionError, ClientError, OSError, RefusedError)


class Running(NamedTuple):
    """A cluster, and all of its processes."""

    kind: str
    bootstrap: str
    pids: list[int]

    def cpu_s(self) -> float:
        """What they have used so far, together."""
        return sum(map(cpu_s, self.pids))


class Cost(NamedTuple):
    """Seconds; the first three are of the clock, from the request on."""

    answered_s: float
    led_s: float
    written_s: float
    answer_cpu_s: float
    cpu_s: float
    requests: float
    load: float


@contextmanager
def running(kind: str, nodes: str) -> Iterator[Running]:
    """A new cluster."""
    if nodes == "one":
        with peers.fencepost() if kind == brokers.FENCEPOST else peers.apache() as peer:
            assert peer.pid is not None, "brokers have processes"
            yield Running(kind, peer.bootstrap, [peer.pid])
        return
    with (
        tempfile.TemporaryDirectory() as home,
        brokers.cluster_of(kind, Path(home)) as quorum,
    ):
        pids = [one.process.pid for one in quorum.nodes.values() if one.process is not None]
        yield Running(kind, quorum.nodes[brokers.BROKERS[0]].address, pids)


def settle(cluster: Running) -> None:
    """Until the processes use little, or for so long."""
    deadline_s = time.monotonic() + QUIET_AFTER_S
    while time.monotonic() < deadline_s:
        before_s = cluster.cpu_s()
        time.sleep(QUIET_S)
        if cluster.cpu_s() - before_s < QUIET_CORES * QUIET_S * len(cluster.pids):
            return
    print(f"{cluster.kind} is not quiet after {QUIET_AFTER_S:.0f} s", file=sys.stderr)


def measure(kind: str, nodes: str, wanted: Wanted) -> Cost:
    """One cluster, and one creation."""
    with running(kind, nodes) as cluster:
        asker = Asker(cluster.bootstrap)
        try:
            warm = Wanted(1, NODES[nodes], NODES[nodes], "warm")
            asker.create_first(warm)
            asker.write(asker.wait_until_led(warm))
            settle(cluster)
            wanted = wanted._replace(replicas=NODES[nodes])
            pieces = pieces_of(wanted, RECORDS_MAX)
            before_s, began_s = cluster.cpu_s(), time.perf_counter()
            asker.create(pieces)
            answered_s, answer_cpu_s = time.perf_counter() - began_s, cluster.cpu_s() - before_s
            led = asker.wait_until_led(wanted)
            led_s = time.perf_counter() - began_s
            asker.write(led)
            written_s, load = time.perf_counter() - began_s, os.getloadavg()[0]
            settle(cluster)
            used_s = cluster.cpu_s() - before_s
        finally:
            asker.close()
    return Cost(answered_s, led_s, written_s, answer_cpu_s, used_s, len(pieces), load)


def median(costs: list[Cost]) -> Cost:
    """Of each figure by itself."""
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def cells(cost: Cost | None) -> list[str]:
    """As a line of the table."""
    if cost is None:
        return ["-"] * 7
    seconds = [f"{value:.2f}" for value in cost[:5]]
    return [*seconds, f"{cost.requests:.0f}", f"{cost.load:.1f}"]


def ratios(ours: Cost | None, theirs: Cost | None) -> list[str]:
    """Our figures over Apache Kafka's."""
    if ours is None or theirs is None:
        return ["-"] * 5 + ["", ""]
    pairs = zip(ours[:5], theirs[:5], strict=True)
    return [*(f"{one / other:.2f}" for one, other in pairs), "", ""]


Found = dict[tuple[str, Wanted, str], list[Cost]]


def run(given: argparse.Namespace, cases: list[Wanted], kinds: list[str]) -> Found:
    """As many rounds as are wanted and there is time for."""
    ends_s = time.monotonic() + 60 * given.minutes
    found: Found = {}
    for number in range(given.rounds):
        for nodes in given.nodes or NODES:
            for wanted in cases:
                for kind in kinds:
                    what = f"round {number + 1} of {given.rounds}, {nodes}, {wanted}, {kind}"
                    if time.monotonic() > ends_s:
                        print(f"left out, {given.minutes:g} minutes are over: {what}")
                        continue
                    costs = found.setdefault((nodes, wanted, kind), [])
                    try:
                        costs.append(measure(kind, nodes, wanted))
                    except TROUBLE as error:
                        print(f"{what}: {str(error)[:500]}", flush=True)
                        continue
                    print(f"{what}: {'  '.join(cells(costs[-1]))}", file=sys.stderr, flush=True)
    return found


def rows_of(found: Found, kinds: list[str]) -> list[list[str]]:
    """The lines of the table, with ratios where both kinds were measured."""
    rows = []
    for nodes, wanted in dict.fromkeys((nodes, wanted) for nodes, wanted, _ in found):
        costs = [found.get((nodes, wanted, kind)) for kind in kinds]
        medians = [median(one) if one else None for one in costs]
        for kind, one in zip(kinds, medians, strict=True):
            rows.append([nodes, str(wanted), kind, *cells(one)])
        if kinds == list(brokers.KINDS):
            rows.append([nodes, str(wanted), "ratio", *ratios(*medians)])
    return rows


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="after which none is begun")
    parser.add_argument("--nodes", action="append", choices=NODES)
    parser.add_argument("--kind", action="append", choices=brokers.KINDS)
    parser.add_argument("--only", action="append", help="cases whose name has this in it")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    cases = [one for one in CASES if any(text in str(one) for text in given.only or [""])]
    if not cases:
        parser.error(f"no case is called so; there are: {'; '.join(map(str, CASES))}")
    kinds = [kind for kind in brokers.KINDS if kind in (given.kind or brokers.KINDS)]
    if brokers.APACHE in kinds and "apache" not in peers.available():
        kinds.remove(brokers.APACHE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the brokers stop, too
    apache.START_TIMEOUT_S = PATIENCE_S  # longer than a test waits, for a busy machine
    headings = ["nodes", "created", "", "answered s", "led s", "written s"]
    headings += ["CPU s until the answer", "CPU s", "requests", "load"]
    print(peers.table(headings, rows_of(run(given, cases, kinds), kinds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
