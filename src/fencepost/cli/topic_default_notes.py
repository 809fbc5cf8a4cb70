"""Configs of a broker's file that others override for new topics: notes of `configs describe`, and
of `cluster status`, which has all files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fencepost.client.cluster import Cluster
    from fencepost.client.connection import Connection

MIN_ISR: Final = "min.insync.replicas"
CREATION_KEYS: Final = ("num.partitions", "default.replication.factor")
KEYS: Final = (*CREATION_KEYS, MIN_ISR)
UNSET: Final = "1"
"""The default of each of them."""
CREATION_COUNTS: Final = "CreateTopics without a number takes the active controller's"
MIN_ISR_COUNTS: Final = "what all brokers share (configs describe --broker-defaults) overrides it"


def topic_default_notes(cluster: Cluster, broker_id: int, shown: Iterable[str]) -> list[str]:
    """What to say of a broker's configs of those names: where another node's value counts.

    The active controller is asked, whose address a broker tells (DescribeQuorum).
    """
    from fencepost.client.errors import ClientError

    keys: list[str] = [key for key in KEYS if key in set(shown)]
    if not keys:
        return []
    node = cluster.metadata.nodes.get(broker_id)
    assert node is not None, "its configs were described"
    own, shared = _values(cluster.connection(node), broker_id, keys)
    notes = []
    if MIN_ISR in own and MIN_ISR in shared and own[MIN_ISR] != shared[MIN_ISR]:
        notes.append(
            f"{MIN_ISR}: {own[MIN_ISR]} of the file is not used, all brokers share"
            f" {shared[MIN_ISR]}"
        )
    try:
        controller_id, theirs = _of_controller(cluster, broker_id, keys)
    except ClientError as error:
        return [*notes, f"what CreateTopics takes without a number is not known: {error}"]
    if controller_id == broker_id:
        return notes
    notes += [
        f"{key}: CreateTopics without a number takes {theirs[key]}, of node {controller_id},"
        " the active controller"
        for key in CREATION_KEYS
        if key in keys and key in theirs and theirs[key] != own.get(key)
    ]
    if MIN_ISR in theirs and MIN_ISR not in shared and theirs[MIN_ISR] != own.get(MIN_ISR):
        notes.append(
            f"{MIN_ISR}: elections take {theirs[MIN_ISR]}, of node {controller_id}, the active"
            " controller"
        )
    return notes


def notes_of_files(files: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Where the files of a cluster's nodes, by the node's name, differ in what new topics get."""
    notes = []
    for key in KEYS:
        by_value: dict[str, list[str]] = {}
        for name, entries in files.items():
            by_value.setdefault(entries.get(key, UNSET), []).append(name)
        if len(by_value) > 1:
            values = "; ".join(f"{value} at {', '.join(who)}" for value, who in by_value.items())
            counts = MIN_ISR_COUNTS if key == MIN_ISR else CREATION_COUNTS
            notes.append(f"{key} differs: {values}; {counts}")
    return notes


def _of_controller(cluster: Cluster, broker_id: int, keys: list[str]) -> tuple[int, dict[str, str]]:
    """The active controller's id, and what is in its file; ClientError."""
    from fencepost.client.connection import Connection
    from fencepost.client.errors import ConnectionFailed
    from fencepost.client.quorum import QuorumAdmin

    with QuorumAdmin(cluster.config) as admin:
        quorum = admin.describe()
    leader_id = quorum.leader_id
    if leader_id == broker_id:
        return leader_id, {}
    listeners = quorum.listeners.get(leader_id)
    if not listeners:
        raise ConnectionFailed(f"where node {leader_id} listens is not known")
    connection = Connection.configured(cluster.config, listeners[0].host, listeners[0].port)
    try:
        return leader_id, _values(connection, leader_id, keys)[0]
    finally:
        connection.close()


def _values(
    connection: Connection, node_id: int, keys: list[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What a node has in its file or by default, and what all brokers share instead."""
    from fencepost.client.admin import BROKER_RESOURCE, DEFAULT_SOURCE, STATIC_SOURCE
    from fencepost.wire.api.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=keys
    )
    request: Any = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    of_file: dict[str, str] = {}
    shared: dict[str, str] = {}
    for result in connection.request(request).results:
        for entry in result.configs:
            for one in entry.synonyms:
                found = of_file if one.source in (STATIC_SOURCE, DEFAULT_SOURCE) else shared
                if one.value is not None:
                    found.setdefault(entry.name, one.value)
    return of_file, shared
