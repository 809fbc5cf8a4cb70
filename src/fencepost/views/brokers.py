"""Brokers: where they are, what is on them, and what only they know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from fencepost.client import asking
from fencepost.client.admin import ClusterDescription, describing_cluster, listing_topics
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.features import describing_features
from fencepost.client.metadata import Node, TopicInfo
from fencepost.client.quorum import QuorumDescription
from fencepost.client.replicas import describing_log_dirs
from fencepost.views.features import FeatureView
from fencepost.views.log_dirs import LogDirView
from fencepost.views.view import View

NOT_KNOWN: Final = "not known"
"""The state of a broker of a cluster that does not answer."""


class BrokerView(View, frozen=True):
    """A registered broker: where it is, whether it is fenced (None: not known), and how many
    replicas are on it, of how many partitions it leads, and how many of its replicas are out of
    sync."""

    columns: ClassVar = {
        "broker": "broker",
        "address": "address",
        "rack": "rack",
        "state": "state",
        "quorum": "quorum_role",
        "replicas": "replicas",
        "leads": "leads",
        "out-of-sync": "out_of_sync",
    }

    broker: int
    host: str
    port: int
    rack: str | None
    fenced: bool | None
    quorum_role: str | None
    replicas: int
    leads: int
    out_of_sync: int

    @property
    def address(self) -> str:
        return self.node.address

    @property
    def node(self) -> Node:
        return Node(self.broker, self.host, self.port, self.rack)

    @property
    def state(self) -> str:
        if self.fenced is None:
            return NOT_KNOWN
        return "fenced" if self.fenced else "unfenced"


class BrokerDetails(BrokerView, frozen=True):
    """A broker with its broker epoch and what it tells of itself; `error` says why it was not asked
    or does not answer. None is what is not known."""

    broker_epoch: int | None
    leader_epoch_of_quorum: int | None
    features_epoch: int | None
    features: list[FeatureView] | None
    log_dirs: list[LogDirView] | None
    error: str | None


class UnregisteredBroker(View, frozen=True):
    """A broker that the cluster has forgotten."""

    unregistered: int


class DecommissionedBroker(View, frozen=True):
    """A broker without replicas, of which `moved` partitions were moved to others."""

    broker: int
    moved: int
    unregistered: bool


def counts(topics: Iterable[TopicInfo]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """By broker: its replicas, the partitions that it leads, its replicas that are out of sync."""
    replicas: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions.values():
            replicas.update(partition.replicas)
            leads[partition.leader_id] += 1
            out_of_sync.update(set(partition.replicas) - set(partition.isr))
    return replicas, leads, out_of_sync


def viewing_brokers(
    view: ClusterView[Any], quorum: QuorumDescription | None
) -> Conversation[list[BrokerView]]:
    """Every registered broker, by id, fenced ones among them."""
    found: ClusterDescription = yield from describing_cluster(view, include_fenced=True)
    replicas, leads, out_of_sync = counts((yield from listing_topics(view, include_internal=True)))
    return [
        BrokerView(
            node.node_id,
            node.host,
            node.port,
            node.rack,
            node.node_id in found.fenced,
            quorum_role(node.node_id, quorum),
            replicas[node.node_id],
            leads[node.node_id],
            out_of_sync[node.node_id],
        )
        for node in found.brokers
    ]


def viewing_details(
    view: ClusterView[Any],
    broker: BrokerView,
    quorum: QuorumDescription | None,
    broker_epoch: int | None,
) -> Conversation[BrokerDetails]:
    """A broker with what only it knows."""
    features_epoch = features = log_dirs = error = None
    if broker.fenced:
        error = "it is fenced, and was not asked"
    else:
        try:
            described = yield from describing_features(view, broker.node)
            connection = yield from asking.connect(broker.node)
            directories = yield from describing_log_dirs(view, broker.broker)
        except ClientError as failure:
            error = str(failure)
        else:
            features_epoch = connection.api_versions.features.epoch
            features = [FeatureView.of(one) for one in described]
            log_dirs = [LogDirView.of(broker.broker, one) for one in directories]
    return BrokerDetails(
        broker.broker,
        broker.host,
        broker.port,
        broker.rack,
        broker.fenced,
        broker.quorum_role,
        broker.replicas,
        broker.leads,
        broker.out_of_sync,
        broker_epoch,
        quorum.leader_epoch if quorum else None,
        features_epoch,
        features,
        log_dirs,
        error,
    )


def quorum_role(broker_id: int, quorum: QuorumDescription | None) -> str | None:
    """What a broker is in the quorum, None where that is not known: a combined node has the broker
    and the controller under one id."""
    if quorum is None:
        return None
    if broker_id == quorum.leader_id:
        return "leader"
    return "voter" if broker_id in {one.node_id for one in quorum.voters} else "observer"
