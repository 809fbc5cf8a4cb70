"""One of our controllers among Apache Kafka's, and what tests of that ask of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import BrokerError
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually
from .quorum import APACHE, FENCEPOST, Node, Quorum

BROKER = 101
SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.log.max.snapshot.interval.ms": "0",
}


def mixed(
    home: Path, *format_arguments: str, brokers: tuple[str, ...] = (APACHE,), **options: Any
) -> Quorum:
    """Voter 1 is ours, 2 and 3 are Kafka's, and so is the broker; formatted, not started."""
    quorum = Quorum(home, (FENCEPOST, APACHE, APACHE), brokers, **options)
    quorum.format(*format_arguments)
    return quorum


def create(quorum: Quorum, topic: str, partitions: int = 5) -> None:
    """Through the broker, which forwards the request to the active controller."""
    with Client(quorum.nodes[BROKER].address) as client:
        Admin(client).create_topic(topic, partitions)


def knows(quorum: Quorum, topic: str) -> bool:
    """Whether the active controller knows the topic: then it refuses another of that name.

    Otherwise there is one of that name from now on.
    """
    try:
        create(quorum, topic)
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return True
    return False


def topics(quorum: Quorum) -> set[str]:
    """As the broker's metadata has them."""
    with Client(quorum.nodes[BROKER].address) as client:
        return {topic.name for topic in Admin(client).list_topics()}


def let_lead(quorum: Quorum, heir: Node) -> None:
    """Have this voter lead, with all others behind it."""
    if quorum.wait_for_leader() is not heir:
        wait_for_all(quorum)
        quorum.kill_leader(heir, lambda topic: create(quorum, topic)).start()
    wait_for_all(quorum)


def is_caught_up(quorum: Quorum, node: Node) -> bool:
    """Whether the leader says that this node has everything."""
    leader = quorum.leader()
    said = leader.describe() if leader is not None else None
    if said is None:
        return False
    replicas = {r.replica_id: r.log_end_offset for r in [*said.current_voters, *said.observers]}
    return replicas.get(node.node_id) == replicas[said.leader_id] == said.high_watermark


def wait_for_all(quorum: Quorum) -> None:
    """Return when all nodes that run have everything."""
    running = [node for node in quorum.nodes.values() if node.is_running]
    eventually(lambda: all(is_caught_up(quorum, node) for node in running), "all have everything")


def wait_for_same_logs(*nodes: Node) -> None:
    """Return when their metadata logs are the same, byte for byte, as far as they all reach back.

    A node that began with a snapshot has none of the log before it.
    """

    def are_same() -> bool:
        logs = [node.metadata_log() for node in nodes]
        shortest = min(map(len, logs))
        return shortest > 0 and len({log[-shortest:] for log in logs}) == 1

    def are_whole() -> bool:
        first = {node.log_start() for node in nodes}
        return len(first) > 1 or len({len(node.metadata_log()) for node in nodes}) == 1

    eventually(lambda: are_same() and are_whole(), "all logs are the same")
