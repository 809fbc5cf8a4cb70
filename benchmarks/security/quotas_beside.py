"""What client quotas cost beside Apache Kafka: requests of clients that are charged, and of others.

    python benchmarks/security/quotas_beside.py [--seconds S] [--rounds R] [--peer NAME]...

Default quotas of all clients for bytes produced, bytes fetched and request time, so high that they
never throttle: what is measured is the charging. Brokers and cases take turns, the cases on the
same brokers, behind rounds that warm them; medians are shown. Requests a second share the machine
with the generator; microseconds are of the broker's own CPU for each request. Fencepost syncs
before it acknowledges, Apache Kafka does not. `quotas.py` measures ours alone, without sockets.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker import loads
from fencepost.client import Cluster
from fencepost.client.client_quotas import ClientQuotaEntity, altering_client_quotas

NEVER: Final = 1e15
KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
EVERY_CLIENT: Final = ClientQuotaEntity.of({"client-id": None})
WARMING_ROUNDS: Final = 2
LOADS: Final = {
    "Produce, 1 record x 50": loads.produces(1, 50),
    "Fetch 4 KB x 16, sessions": loads.fetches(4_096, 16, in_session=True),
}
CASES: Final = ("no quota", "never exceeded")

Found = dict[tuple[str, str, str], list[float]]
"""Microseconds of CPU for a request, by load, broker and case."""


def set_quotas(peer: peers.Peer, case: str) -> None:
    """Have the broker charge every client, or none."""
    value = NEVER if case == "never exceeded" else None
    with Cluster(peer.bootstrap) as cluster:
        cluster.run(altering_client_quotas(cluster, {EVERY_CLIENT: dict.fromkeys(KEYS, value)}))


def run(arguments: argparse.Namespace, names: list[str]) -> Found:
    """Measure."""
    found: Found = {}
    with ExitStack() as stack:
        running = [stack.enter_context(getattr(peers, name)()) for name in names]
        warming = min(WARMING_ROUNDS, arguments.rounds)
        for number in range(arguments.rounds + warming):
            print(f"round {number + 1} of {arguments.rounds + warming}", file=sys.stderr)
            for case in CASES:
                for peer in running:
                    set_quotas(peer, case)
                    for name, measure in LOADS.items():
                        figures = measure(peer, arguments.seconds)
                        if number >= warming:
                            found.setdefault((name, peer.name, case), []).append(figures.cpu_us)
    return found


def table(found: Found) -> str:
    """The medians, and what charging adds."""
    rows = []
    for (load, broker, case), rounds in sorted(found.items(), key=lambda one: one[0][:2]):
        cpu_us = statistics.median(rounds)
        more_us = cpu_us - statistics.median(found[load, broker, CASES[0]])
        rows.append([load, broker, case, f"{cpu_us:.1f}", f"{more_us:+.1f}"])
    return peers.table(["load", "broker", "quotas", "CPU us", "more"], rows)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window")
    parser.add_argument("--rounds", type=int, default=3, help="behind those that warm")
    parser.add_argument("--peer", action="append", choices=("fencepost", "apache"))
    arguments = parser.parse_args()
    names = [one for one in peers.available() if one in (arguments.peer or ("fencepost", "apache"))]
    print(table(run(arguments, names)))
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
