"""What authorization costs: one-record Produce requests without an authorizer, and with ACLs.

    python benchmarks/security/acls.py [--seconds S] [--rounds R] [--connections C] [--acls N]...

Beside Apache Kafka in one run. Clients do not log in. The first ACL lets every user do everything
to the topics that are written, by a prefix; the others are about other users and topics. Requests a
second share the machine with the generator; microseconds are of the broker's own CPU for each
request. Brokers and numbers of ACLs take turns, and medians are shown. Fencepost syncs before it
acknowledges, Apache Kafka does not.
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
from fencepost.broker.config.keys.authorization import (
    ALLOW_EVERYONE_KEY,
    AUTHORIZER_KEY,
    STANDARD_AUTHORIZER,
)
from fencepost.client import Admin, Cluster
from fencepost.client.acls import AclBinding, AclBindingFilter
from fencepost.machines.image.acls import AclOperation, Pattern, ResourceType

COUNTS: Final = (0, 100, 10_000)
PER_REQUEST: Final = 1_000
PREFIX: Final = "produce-"
"""Of the topics of `loads.produces`."""
AUTHORIZED: Final = {AUTHORIZER_KEY: STANDARD_AUTHORIZER, ALLOW_EVERYONE_KEY: "true"}
WITHOUT: Final = "none"


def binding(number: int) -> AclBinding:
    """The ACL of that number."""
    if not number:
        return AclBinding(ResourceType.TOPIC, PREFIX, "User:*", AclOperation.ALL, Pattern.PREFIXED)
    operation = (AclOperation.READ, AclOperation.WRITE)[number % 2]
    return AclBinding(ResourceType.TOPIC, f"topic-{number // 2}", f"User:{number}", operation)


def set_acls(peer: peers.Peer, before: int, count: int) -> None:
    """Have the broker have so many ACLs, of which it has some."""
    with Cluster(peer.bootstrap) as cluster:
        admin = Admin(cluster)
        if count < before:
            admin.delete_acls([AclBindingFilter()])
            before = 0
        for first in range(before, count, PER_REQUEST):
            numbers = range(first, min(first + PER_REQUEST, count))
            admin.create_acls([binding(number) for number in numbers])


Found = dict[tuple[str, str], list[tuple[float, float]]]
"""Requests a second and microseconds of CPU for each, by broker and ACLs."""


def run(arguments: argparse.Namespace, names: list[str]) -> Found:
    """Measure."""
    measure = loads.produces(1, arguments.connections)
    found: Found = {}
    with ExitStack() as stack:
        plain = [stack.enter_context(getattr(peers, name)()) for name in names]
        authorized = [stack.enter_context(getattr(peers, name)(**AUTHORIZED)) for name in names]
        before = 0
        for number in range(arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", file=sys.stderr)
            cases = [(peer, WITHOUT) for peer in plain]
            for count in [None, *(arguments.acls or COUNTS)]:
                if count is not None:
                    for peer in authorized:
                        set_acls(peer, before, count)
                    before = count
                    cases = [(peer, f"{count:,}") for peer in authorized]
                for peer, acls in cases:
                    figures = measure(peer, arguments.seconds)
                    if number or not arguments.rounds:  # the first round warms everybody up
                        seen = (figures.requests_per_s, figures.cpu_us)
                        found.setdefault((peer.name, acls), []).append(seen)
    return found


def table(found: Found) -> str:
    """The medians, and what each costs more than without an authorizer."""
    rows = []
    for (name, acls), rounds in sorted(found.items(), key=lambda one: one[0][0]):
        per_second, cpu_us = (statistics.median(column) for column in zip(*rounds, strict=True))
        without_us = statistics.median(cpu for _, cpu in found[name, WITHOUT])
        more = f"{100 * (cpu_us / without_us - 1):+.0f} %"
        rows.append([name, acls, f"{per_second:,.0f}", f"{cpu_us:.1f}", more])
    return peers.table(["broker", "ACLs", "requests/s", "CPU us", "more CPU"], rows)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each window")
    parser.add_argument("--rounds", type=int, default=3, help="behind one that warms; 0: that one")
    parser.add_argument("--connections", type=int, default=50, help="with five in flight each")
    parser.add_argument("--acls", type=int, action="append", help="instead of 0, 100 and 10,000")
    parser.add_argument("--peer", action="append", choices=("fencepost", "apache"))
    arguments = parser.parse_args()
    names = [one for one in peers.available() if one in (arguments.peer or ("fencepost", "apache"))]
    print(table(run(arguments, names)))
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
