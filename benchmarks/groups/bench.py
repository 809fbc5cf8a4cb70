"""Groups beside Apache Kafka: what joins, heartbeats at rest, failovers and share groups cost.

    python benchmarks/groups/bench.py [--only join|rest|failover|share] [--smoke] [...]

One node of each kind, both running all the time and measured in turns; the failover has a
controller and three brokers of each kind. `--sync both` has Apache Kafka sync before it
acknowledges, as ours does; `--sync none` has neither do it.

Members of consumer groups are raw heartbeats over eight connections from one process, which shares
the machine's cores with the brokers. "Join" is until every partition has a member and every member
has said what it has; "leave" is the same after one of them left. Heartbeats at rest are sent every
`--interval` seconds; "a member and second" is their cost at Kafka's interval of five seconds.
Share consumers have a connection each and acknowledge every record with the next fetch. Memory is
what the process has resident more than before, which for a JVM says little. Nothing is asserted.
Ratios are ours over Apache Kafka's, CPU first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.cluster import brokers
from benchmarks.groups import failover, members, shares
from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client

PARTS = ("join", "rest", "failover", "share")
KAFKAS_INTERVAL_S = 5.0
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
CREATED_AT_ONCE = 5_000
"""Partitions: Apache Kafka's controller refuses a request that makes more than 10,000 records."""
SHARE_PARTITIONS = 8
RESET = "share.auto.offset.reset"
GROUP, SET = 32, 0
"""Kafka's numbers for the configs of a group, and for setting one."""
SYNC = {
    "both": {"fencepost": {}, "apache": {"log.flush.interval.messages": "1"}},
    "none": {"fencepost": {"log.flush.before.ack": "false"}, "apache": {}},
}
"""Whether an acknowledged record is on the disk: ours is by default, Apache Kafka's is not."""


class Figures(NamedTuple):
    """What one broker did in one case; times and costs, of which less is better."""

    names: tuple[str, ...]
    values: tuple[float, ...]

    def cells(self) -> list[str]:
        """As cells of a table."""
        return [shown(one) for one in self.values]

    def ratios(self, other: Figures) -> list[str]:
        """These over the other's; "-" where there is nothing to divide by."""
        pairs = zip(self.values, other.values, strict=True)
        return [f"{one / two:.2f}" if two else "-" for one, two in pairs]


def shown(value: float) -> str:
    """A figure with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median_of(found: list[Figures]) -> Figures:
    """Each figure's median over the rounds."""
    columns = zip(*(one.values for one in found), strict=True)
    return Figures(found[0].names, tuple(map(statistics.median, columns)))


Case = Callable[[peers.Peer], Figures]


def compare(title: str, running: list[peers.Peer], case: Case, rounds: int) -> list[list[str]]:
    """Rows of one case: a row for each broker, in turns, and their ratios."""
    found: dict[str, list[Figures]] = {peer.name: [] for peer in running}
    for _ in range(rounds):
        for peer in running:
            found[peer.name].append(case(peer))
            print(f"    {title}, {peer.name}", *found[peer.name][-1].cells(), sep="  ", flush=True)
    medians = {name: median_of(many) for name, many in found.items()}
    rows = [[title, name, *one.cells()] for name, one in medians.items()]
    if len(medians) == 2:
        ours, theirs = medians.values()
        rows.append([title, "ratio", *ours.ratios(theirs)])
    for row in rows:
        print("  " + "  ".join(row), flush=True)
    return rows


def create_topic(peer: peers.Peer, partitions: int) -> str:
    """A topic with a name of its own."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with Client(peer.bootstrap) as client:
        admin = Admin(client)
        admin.create_topic(name, min(partitions, CREATED_AT_ONCE))
        admin.wait_for_topic(name)
        for count in range(CREATED_AT_ONCE, partitions, CREATED_AT_ONCE):
            admin.create_partitions(name, min(partitions, count + CREATED_AT_ONCE))
        client.coordinator(name)  # the first request for one creates the topic of groups
    return name


def wait_for_config(client: Client, group: str, key: str, value: str) -> None:
    """Until the broker has the group's config: the controller answers before it does."""
    deadline = time.monotonic() + shares.PATIENCE_S
    while [one.value for one in Admin(client).describe_configs(GROUP, group, [key])] != [value]:
        assert time.monotonic() < deadline, f"{group} has no {key}"
        time.sleep(0.01)


JOIN = ("CPU ms/member", "join s", "heartbeats", "leave s", "leave CPU ms/heartbeat", "KB/member")


def join(peer: peers.Peer, count: int, interval_s: float) -> Figures:
    """So many members join one group, then one leaves."""
    topic, group = create_topic(peer, count), f"group-{uuid.uuid4().hex[:8]}"

    async def run() -> Figures:
        crowd = members.crowd_of(count, group, topic, interval_s)
        await crowd.open(peer.bootstrap)
        try:
            before_s, before_mb = peer.cpu_s(), peer.rss_mb()
            joined = await crowd.beat_until(lambda: members.all_own(crowd, count))
            joined_s, after_mb = peer.cpu_s(), peer.rss_mb()
            left = members.Reached(0.0, 0)
            if count > 1:
                await crowd.leave(crowd.members[count // 2])
                left = await crowd.beat_until(lambda: members.all_own(crowd, count))
            left_s = peer.cpu_s()
            for member in list(crowd.members):
                await crowd.leave(member)
        finally:
            crowd.close()
        return Figures(
            JOIN,
            (
                (joined_s - before_s) * 1000 / count,
                joined.seconds,
                joined.heartbeats,
                left.seconds,
                (left_s - joined_s) * 1000 / max(1, left.heartbeats),
                max(0.0, after_mb - before_mb) * 1000 / count,
            ),
        )

    return asyncio.run(run())


REST = ("CPU ms/heartbeat", "CPU µs/member and s", "heartbeats/s", "cores")


def rest(peer: peers.Peer, count: int, interval_s: float, seconds: float) -> Figures:
    """So many members of a stable group heartbeat for some time."""
    topic, group = create_topic(peer, count), f"group-{uuid.uuid4().hex[:8]}"

    async def run() -> Figures:
        crowd = members.crowd_of(count, group, topic, interval_s)
        await crowd.open(peer.bootstrap)
        try:
            await crowd.beat_until(lambda: members.all_own(crowd, count))
            await crowd.beat_for(min(2.0, seconds))
            before_s, began = peer.cpu_s(), time.monotonic()
            done = await crowd.beat_for(seconds)
            used_s, took_s = peer.cpu_s() - before_s, time.monotonic() - began
            for member in list(crowd.members):
                await crowd.leave(member)
        finally:
            crowd.close()
        each_ms = used_s * 1000 / max(1, done.heartbeats)
        return Figures(
            REST,
            (
                each_ms,
                each_ms * 1000 / KAFKAS_INTERVAL_S,
                done.heartbeats / took_s,
                used_s / took_s,
            ),
        )

    return asyncio.run(run())


SHARE = ("CPU µs/record", "records/s", "seconds", "repeated")


def share(peer: peers.Peer, consumers: int, records: int) -> Figures:
    """So many share consumers read and acknowledge so many records."""
    topic, group = create_topic(peer, SHARE_PARTITIONS), f"share-{uuid.uuid4().hex[:8]}"
    with Client(peer.bootstrap) as client:
        Admin(client).alter_configs(GROUP, group, [ConfigChange(RESET, "earliest", SET)])
        wait_for_config(client, group, RESET, "earliest")
    made = shares.fill(peer.bootstrap, topic, SHARE_PARTITIONS, records)
    before_s = peer.cpu_s()
    done = asyncio.run(shares.consume(peer.bootstrap, group, topic, consumers, made))
    used_s = peer.cpu_s() - before_s
    return Figures(
        SHARE,
        (
            used_s * 1e6 / done.records,
            done.records / done.seconds,
            done.seconds,
            done.repeated,
        ),
    )


@contextlib.contextmanager
def nodes(kinds: list[str], sync: str) -> Iterator[list[peers.Peer]]:
    """The running brokers of the kinds that can run here."""
    starts = {"fencepost": peers.fencepost, "apache": peers.apache}
    wanted = [kind for kind in kinds if kind in peers.available()]
    with contextlib.ExitStack() as running:
        yield [
            running.enter_context(starts[kind](**{**SETTINGS, **SYNC[sync][kind]}))
            for kind in wanted
        ]


def numbers(text: str) -> list[int]:
    """ "1,8,64" as numbers."""
    return [int(word) for word in text.split(",")]


def show_nodes(given: argparse.Namespace, parts: list[str]) -> None:
    """Print what is measured of one node."""
    with nodes(given.kinds.split(","), given.sync) as running:
        for peer in running:  # a JVM that has just started would be measured compiling
            join(peer, given.warm_up, given.interval)
        if "join" in parts:
            rows: list[list[str]] = []
            for count in numbers(given.members):

                def joined(peer: peers.Peer, count: int = count) -> Figures:
                    return join(peer, count, given.interval)

                rows += compare(f"{count:,} members", running, joined, given.rounds)
            print(peers.table(["join", "", *JOIN], rows))
        if "rest" in parts:
            rows = []
            for count in numbers(given.members):

                def rested(peer: peers.Peer, count: int = count) -> Figures:
                    return rest(peer, count, given.interval, given.seconds)

                rows += compare(f"{count:,} members", running, rested, given.rounds)
            print(peers.table(["rest", "", *REST], rows))
        if "share" in parts:
            rows = []
            for count in numbers(given.consumers):

                def shared(peer: peers.Peer, count: int = count) -> Figures:
                    return share(peer, count, given.records)

                rows += compare(f"{count} consumers", running, shared, given.rounds)
            print(peers.table(["share", "", *SHARE], rows))


def show_failover(given: argparse.Namespace) -> None:
    """Print how long groups are without a coordinator when its broker is killed."""
    rows = []
    for kind in brokers.KINDS:
        if kind not in given.kinds.split(","):
            continue
        with tempfile.TemporaryDirectory() as home:
            found = failover.measure(kind, Path(home), given.groups, SYNC[given.sync][kind])
        rows.append([kind, f"{given.groups:,}", f"{found.moved:,}", *map(shown, found[1:])])
        print("  " + "  ".join(rows[-1]), flush=True)
    print(peers.table(["", "groups", "of the killed broker", *failover.HEADINGS], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--smoke", action="store_true", help="small parameters: does it run?")
    parser.add_argument("--kinds", default="fencepost,apache")
    parser.add_argument("--sync", choices=sorted(SYNC), default="both")
    parser.add_argument("--members", default="1,100,1000", help="10000 takes minutes")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between heartbeats")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=300, help="members that join beforehand")
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--consumers", default="1,8,64")
    parser.add_argument("--records", type=int, default=200_000)
    given = parser.parse_args()
    if given.smoke:
        given.members, given.consumers, given.rounds = "1,20", "1,4", 1
        given.seconds, given.warm_up, given.groups, given.records = 1.0, 5, 20, 5_000
    parts = given.only or list(PARTS)
    if set(parts) - {"failover"}:
        show_nodes(given, parts)
    if "failover" in parts:
        show_failover(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
