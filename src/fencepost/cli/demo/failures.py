"""What happens to the demo's cluster: a leader is killed, and later one is elected uncleanly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError

if TYPE_CHECKING:
    from fencepost.client.metadata import PartitionInfo
    from fencepost.testing import Cluster, Truncation

ELECTION_TIMEOUT_S = 60.0
POLL_S = 0.05


class ElectionMissingError(RuntimeError):
    """No broker led a partition in time; the message is for the user."""


class Failover(NamedTuple):
    """A leader that was killed, and its successor."""

    partition: int
    killed: int
    previous_epoch: int
    leader: int
    epoch: int
    took_s: float
    """From the kill until another broker said that it leads."""

    def __str__(self) -> str:
        return (
            f"killed broker {self.killed}, which led partition {self.partition} in leader epoch"
            f" {self.previous_epoch}; broker {self.leader} leads in epoch {self.epoch},"
            f" {self.took_s:.1f} s later"
        )


def kill_leader(cluster: Cluster, topic: str, partition: int) -> Failover:
    """SIGKILL the broker that leads a partition, and wait for the next one.

    ElectionMissingError, ClientError.
    """
    with Client(cluster.bootstrap_servers) as client:
        before = _look(client, topic, partition)
    cluster.kill(before.leader_id)
    killed = time.monotonic()
    after = wait_for_leader(cluster, topic, partition, above=before.leader_epoch)
    took_s = time.monotonic() - killed
    return Failover(
        partition,
        before.leader_id,
        before.leader_epoch,
        after.leader_id,
        after.leader_epoch,
        took_s,
    )


def wait_for_leader(cluster: Cluster, topic: str, partition: int, *, above: int) -> PartitionInfo:
    """Wait until a partition is led in an epoch above the one given. ElectionMissingError."""
    deadline = time.monotonic() + ELECTION_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with Client(cluster.bootstrap_servers) as client:
                found = _look(client, topic, partition)
        except ClientError:
            pass  # a broker that was killed: the next attempt asks another
        else:
            if found.leader_id >= 0 and found.leader_epoch > above:
                return found
        time.sleep(POLL_S)
    raise ElectionMissingError(
        f"no broker led {topic}-{partition} after leader epoch {above}"
        f" in {ELECTION_TIMEOUT_S:.0f} s"
    )


def bring_back(cluster: Cluster, topic: str, node_id: int) -> None:
    """Start a killed broker, and wait until it is in every in-sync set. ElectionMissingError."""
    cluster.start(node_id)
    deadline = time.monotonic() + ELECTION_TIMEOUT_S
    with Client(cluster.bootstrap_servers) as client:
        while any(
            node_id not in info.isr
            for info in Admin(client).describe_topic(topic).partitions.values()
        ):
            if time.monotonic() > deadline:
                raise ElectionMissingError(f"broker {node_id} has not caught up with {topic}")
            time.sleep(POLL_S)


def elect_uncleanly(
    cluster: Cluster, topic: str, partition: int, end: int, lost: int
) -> Truncation:
    """Take the last records back, as when a replica that lacks them becomes leader. ClusterError.

    The log ends `lost` records before `end`, or a little earlier: batches are not split.
    """
    return cluster.truncate(topic, partition, to=max(0, end - lost))


def _look(client: Client, topic: str, partition: int) -> PartitionInfo:
    return Admin(client).describe_topic(topic).partitions[partition]
