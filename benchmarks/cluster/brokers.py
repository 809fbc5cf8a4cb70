"""Three brokers of one kind and their controller, for what is measured beside Apache Kafka.

Apache Kafka's processes come from the interop suite's harness, with the heap and collector that its
own start script asks for. Timeouts are the defaults of both kinds, which are Kafka's.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.interop.apache import BROKER_JVM
from tests.interop.quorum import APACHE, FENCEPOST, Quorum
from tests.waiting import eventually

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.wire.errors import ErrorCode

KINDS = (FENCEPOST, APACHE)
BROKERS = (101, 102, 103)
REPLICATED = {"min.insync.replicas": "2", "default.replication.factor": "3"}
CREATED_AT_ONCE = 5_000
"""Partitions; a controller refuses requests that come to more than 10,000 records."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def cluster_of(
    kind: str, home: Path, features: tuple[str, ...] = (), **overrides: str
) -> Iterator[Quorum]:
    """A running controller and three running brokers; `overrides` are keys of configuration.

    `features` are NAME=LEVEL, over those that the harness formats with.
    """
    config = {**REPLICATED, **overrides}
    brokers = (kind,) * len(BROKERS)
    with Quorum(home / kind, (kind,), brokers, config=config, jvm=BROKER_JVM) as quorum:
        quorum.format(*[word for feature in features for word in ("--feature", feature)])
        quorum.start()
        quorum.wait_for_leader()
        yield quorum


def bootstrap(quorum: Quorum) -> str:
    """All brokers, those that do not run among them."""
    return ",".join(quorum.nodes[id_].address for id_ in BROKERS)


def create(quorum: Quorum, topic: str, partitions: int) -> None:
    """Make a topic with three replicas, and wait until all of them are in sync."""

    def is_made() -> bool:
        try:
            with Client(bootstrap(quorum)) as client:
                Admin(client).create_topic(topic, min(partitions, CREATED_AT_ONCE), len(BROKERS))
        except ClientError as error:
            errors.append(error)
            # An answer may have been lost: it is there then, and need not be made again.
            return error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        return True

    errors: list[ClientError] = []
    try:
        eventually(is_made, "the brokers make a topic")
    except AssertionError:
        print(*errors[-3:], sep="\n", file=sys.stderr)
        raise
    for count in range(CREATED_AT_ONCE, partitions, CREATED_AT_ONCE):
        with Client(bootstrap(quorum)) as client:
            Admin(client).create_partitions(topic, min(partitions, count + CREATED_AT_ONCE))
    wait_until_in_sync(quorum, topic)


def wait_until_in_sync(quorum: Quorum, topic: str) -> None:
    """Until every replica is in sync."""

    def is_whole() -> bool:
        try:
            with Client(bootstrap(quorum)) as client:
                partitions = Admin(client).describe_topic(topic).partitions.values()
        except ClientError:
            return False
        return all(len(one.isr) == len(BROKERS) for one in partitions)

    eventually(is_whole, f"all replicas of {topic} are in sync")


def leader_of(quorum: Quorum, topic: str) -> int:
    """The broker that leads partition 0. ClientError."""
    with Client(bootstrap(quorum)) as client:
        return Admin(client).describe_topic(topic).partitions[0].leader_id


def cpu_s(quorum: Quorum) -> float:
    """CPU seconds that the brokers have used together."""
    processes = [quorum.nodes[id_].process for id_ in BROKERS]
    return sum(cpu_of(process.pid) for process in processes if process is not None)


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def waited_s(quorum: Quorum) -> float:
    """Seconds that the brokers' threads, all together, were ready to run and had no core.

    Of threads that have ended nothing is known. 0 where the system does not tell.
    """
    found = 0
    for id_ in BROKERS:
        process = quorum.nodes[id_].process
        for task in () if process is None else Path(f"/proc/{process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += int((task / "schedstat").read_text().split()[1])
    return found / 1e9


def resident_mb(quorum: Quorum) -> float:
    """The most memory that any broker has resident now."""
    found = 0.0
    for id_ in BROKERS:
        process = quorum.nodes[id_].process
        assert process is not None
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = max(found, int(status.partition("VmRSS:")[2].split()[0]) / 1024)
    return found


def settle(seconds: float) -> None:
    """Let what was begun come to its end before something else is measured."""
    time.sleep(seconds)
