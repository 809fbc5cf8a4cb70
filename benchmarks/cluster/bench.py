"""Brokers that replicate: what followers cost while nothing is written.

    python benchmarks/cluster/bench.py [--partitions N,N,...] [--seconds S]

Nothing is asserted. The aim is an idle round of at most 2 ms of CPU with 1,000 partitions.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.cluster import idle_rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="10,1000,10000")
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    counts = [int(text) for text in given.partitions.split(",")]
    rows = [
        [
            f"{one.partitions:,}",
            f"{idle_rounds.machine_us(one.partitions):.0f}",
            f"{one.follower_ms:.2f}",
            f"{one.leader_ms:.2f}",
        ]
        for one in idle_rounds.processes(counts, given.seconds)
    ]
    headings = ["partitions", "machine us", "follower ms", "leader ms"]
    print(peers.table(headings, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
