"""How long a bystander waits while other clients fetch much and read nothing of it.

    python benchmarks/broker/unread.py [--clients N]... [--fetch-mb MB] [--seconds S] [--peer NAME]

For each number of clients (none, 5, 50 and 200 unless told otherwise): a broker of its own with
64 MB in one partition, clients that send one Fetch of 40 MB each at the same moment and never read,
and one more connection that asks for ApiVersions, one request after the other, from before they
come until the seconds are over. Shown are the times that this one waited, the resident memory of
the broker, and the load of the machine. Client and broker share the machine, so compare rows of one
run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker import frames
from fencepost.wire.api import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.frame import encode_request

CLIENTS: Final = (0, 5, 50, 200)
TOPIC: Final = "unread"
MB: Final = 1_000_000
WRITTEN: Final = 64
"""Batches of a megabyte."""
AHEAD_S: Final = 0.5
"""The bystander is alone for so long."""
API_VERSIONS_VERSION: Final = 3


class Bystander(threading.Thread):
    """Asks for ApiVersions, one request at a time, and takes the times."""

    def __init__(self, bootstrap: str, ends_s: float) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self._where = bootstrap
        self._ends_s = ends_s

    def run(self) -> None:
        """Until the time is up."""
        frame = bytes(encode_request(ApiVersionsRequest(), API_VERSIONS_VERSION, 1, "bystander"))
        with frames.asker(self._where) as one:
            while time.monotonic() < self._ends_s:
                began = time.perf_counter()
                one.ask(frame, ApiVersionsResponse, API_VERSIONS_VERSION)
                self.times_s.append(time.perf_counter() - began)
                time.sleep(0.001)


def prepare(bootstrap: str) -> None:
    """Write what is fetched."""
    frames.create_topic(bootstrap, TOPIC, 1)
    for _ in range(WRITTEN):
        frames.write_once(bootstrap, TOPIC, 1, MB)


def measure(peer: peers.Peer, clients: int, fetch_bytes: int, seconds: float) -> list[str]:
    """One row of the table."""
    host, _, port = peer.bootstrap.rpartition(":")
    frame = frames.fetch_frame([(TOPIC, 0, 0)], fetch_bytes)
    with contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(clients)
        ]
        bystander = Bystander(peer.bootstrap, time.monotonic() + AHEAD_S + seconds)
        bystander.start()
        time.sleep(AHEAD_S)
        cpu_s = peer.cpu_s()
        for sock in socks:
            sock.sendall(frame)
        bystander.join()
        cpu_s = peer.cpu_s() - cpu_s
    times_s = bystander.times_s
    return [
        str(clients),
        f"{len(times_s):,}",
        *(f"{peers.percentile(times_s, share) * 1e3:.1f}" for share in (50, 99)),
        f"{max(times_s) * 1e3:.0f}",
        f"{cpu_s:.1f}",
        f"{peer.rss_mb():.0f}",
        f"{os.getloadavg()[0]:.1f}",
    ]


HEADINGS: Final = [
    "clients",
    "answers",
    "p50 ms",
    "p99 ms",
    "longest ms",
    "broker CPU s",
    "RSS MB",
    "load",
]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, action="append", help="that read nothing")
    parser.add_argument("--fetch-mb", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--peer", choices=("fencepost", "apache"), default="fencepost")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the broker stops, too
    rows = []
    for clients in arguments.clients or CLIENTS:
        with getattr(peers, arguments.peer)() as peer:
            prepare(peer.bootstrap)
            rows.append(measure(peer, clients, arguments.fetch_mb * MB, arguments.seconds))
    print(peers.table(HEADINGS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
