"""What TLS costs: produce and consume over it and in plain text, beside Apache Kafka.

    python benchmarks/security/bench.py [--megabytes N] [--rounds R]

The same client code (librdkafka), settings and records for every broker, and one certificate for
all of them (P-256, TLS 1.3), in interleaved rounds of one run. MB/s are the client's, which has to
encrypt, too; milliseconds of CPU for each megabyte are the broker's own. Fencepost syncs before it
acknowledges, Apache Kafka does not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.clients.bench import one_round
from fencepost.testing.certificates import CertificateAuthority

RECORD_BYTES = 1000


def tls_configs(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Keys of a broker that has TLS where it else has plain text, and of its clients."""
    authority = CertificateAuthority()
    trusted = str(authority.write(directory))
    broker = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").write(directory)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
    }
    return broker, {"security.protocol": "SSL", "ssl.ca.location": trusted}


@contextlib.contextmanager
def running(name: str, directory: Path) -> Iterator[list[peers.Peer]]:
    """The broker of this name twice: in plain text, and over TLS."""
    broker, client = tls_configs(directory)
    start = getattr(peers, name)
    with start() as plain, start(**broker) as secured:
        secured.name += ", TLS"
        secured.client = client
        yield [plain, secured]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200, help="produced in a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    records = options.megabytes * 1_000_000 // RECORD_BYTES
    with contextlib.ExitStack() as stack:
        brokers: list[peers.Peer] = []
        for name in peers.available():
            if name != "mock":
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                brokers += stack.enter_context(running(name, directory))
        found: dict[str, list[dict[str, float]]] = {one.name: [] for one in brokers}
        for number in range(options.rounds + 1):
            print(f"round {number} of {options.rounds}", file=sys.stderr)
            for one in brokers:
                measured = one_round(one, records, RECORD_BYTES)
                if number:  # the first round warms everybody up
                    found[one.name].append(measured)
    print(table(found, options.megabytes))
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def table(found: dict[str, list[dict[str, float]]], megabytes: int) -> str:
    """The medians."""
    rows = []
    for name, rounds in found.items():
        median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        rows.append(
            [
                name,
                *(f"{megabytes / median[key]:.0f}" for key in ("produce", "consume")),
                *(
                    f"{1000 * median[f'cpu_{key}'] / megabytes:.2f}"
                    for key in ("produce", "consume")
                ),
            ]
        )
    headings = ["broker", "produce MB/s", "consume MB/s", "produce CPU ms/MB", "consume CPU ms/MB"]
    return peers.table(headings, rows)


if __name__ == "__main__":
    main()
