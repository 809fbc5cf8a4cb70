"""Many groups whose coordinator is killed: how long until another one answers their heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.cluster import brokers
from benchmarks.groups.members import Member
from fencepost.client.cluster import Cluster as Client
from fencepost.client.cluster_view import GROUP_KEY
from fencepost.client.errors import ClientError
from fencepost.client.metadata import Node
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest

HEADINGS = ("served again s", "CPU s of both", "joins/s")
OFFSETS = {"offsets.topic.num.partitions": "6", "offsets.topic.replication.factor": "3"}
KEYS_AT_ONCE = 500
PATIENCE_S = 120.0


class Failover(NamedTuple):
    """What a failover cost."""

    moved: int
    """Groups that the killed broker coordinated."""
    served_s: float
    """From the kill until every one of them had a heartbeat answered."""
    cpu_s: float
    """Of the two brokers that were left, until then."""
    joins_per_s: float
    """How fast the groups were made before."""


def measure(kind: str, home: Path, groups: int, config: Mapping[str, str]) -> Failover:
    """Make so many groups of one member each, and kill the coordinator of the most of them."""
    overrides: dict[str, str] = {**OFFSETS, **config}
    with brokers.cluster_of(kind, home, (), **overrides) as quorum:
        brokers.create(quorum, "t", 3)
        all_members = {
            f"group-{number}": Member(f"group-{number}", "member", "t") for number in range(groups)
        }
        servers = brokers.bootstrap(quorum)
        with Client(servers) as client:
            began = time.monotonic()
            beat_all(client, all_members)
            joins_per_s = groups / (time.monotonic() - began)
            node, moved = max(
                coordinators(client, list(all_members)).items(), key=lambda one: len(one[1])
            )
            before_s = cpu_of_others(quorum, node.node_id)
            quorum.nodes[node.node_id].kill()
            killed = time.monotonic()
            beat_all(client, {group: all_members[group] for group in moved})
            served_s = time.monotonic() - killed
        used_s = cpu_of_others(quorum, node.node_id) - before_s
        return Failover(len(moved), served_s, used_s, joins_per_s)


def cpu_of_others(quorum: brokers.Quorum, killed: int) -> float:
    """CPU seconds of the brokers that stay."""
    running = (quorum.nodes[one].process for one in brokers.BROKERS if one != killed)
    return sum(brokers.cpu_of(process.pid) for process in running if process is not None)


def coordinators(client: Client, groups: list[str]) -> dict[Node, list[str]]:
    """The groups by their coordinator. ClientError while one of them has none."""
    found: dict[Node, list[str]] = {}
    for start in range(0, len(groups), KEYS_AT_ONCE):
        keys = groups[start : start + KEYS_AT_ONCE]
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=keys)
        for one in client.any_connection().request(request).coordinators:
            if one.error_code:
                raise ClientError("a coordinator is missing", code=one.error_code)
            found.setdefault(Node(one.node_id, one.host, one.port), []).append(one.key)
    return found


def beat_all(client: Client, waiting: dict[str, Member]) -> None:
    """A heartbeat of every group's member, again until it is answered without an error."""
    left = dict(waiting)
    deadline = time.monotonic() + PATIENCE_S
    last: Exception | None = None
    while left:
        assert time.monotonic() < deadline, f"{len(left)} groups have no coordinator: {last}"
        try:
            for node, groups in coordinators(client, list(left)).items():
                connection = client.connection(node)
                sent = [(group, connection.send(left[group].request(), 1)) for group in groups]
                for group, token in sent:
                    answer = connection.receive(token)
                    left[group].apply(answer)
                    if not answer.error_code:
                        del left[group]
        except (ClientError, OSError) as error:
            last = error
            if isinstance(error, ClientError):
                client.note_failure(error)
        if left:
            time.sleep(0.02)
