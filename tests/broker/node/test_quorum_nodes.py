"""Three controllers and two brokers, real nodes over real sockets, in one event loop.

What brokers cannot decide goes to the active controller, and comes back, also while the lead goes
from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker.node.node import Node
from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode

from .quorum_node_fixtures import Nodes, create

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Shared by a module: all nodes stay."""
    nodes = Nodes(tmp_path_factory.mktemp("nodes"))
    yield nodes
    nodes.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Nodes]:
    """For a test that stops nodes."""
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


def known(nodes: Nodes, name: str) -> bool:
    return all(name in node.image.topics_by_name for node in nodes.nodes.values())


def test_any_broker_creates_and_deletes_topics(cluster: Nodes) -> None:
    with cluster.client(4) as one, cluster.client(5) as other:
        assert create(one, "first", "second") == [0, 0]
        assert create(other, "first") == [36]
        cluster.wait_until(lambda: known(cluster, "first"))
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="first")], timeout_ms=60_000)
        assert [r.error_code for r in other.request(request).responses] == [0]
        cluster.wait_until(
            lambda: not any("first" in n.image.topics_by_name for n in cluster.brokers)
        )
        assert create(other, "first") == [0]


def test_configs_change_through_any_broker(cluster: Nodes) -> None:
    with cluster.client(5) as client:
        create(client, "configured")
        change = AlterableConfig(name="retention.ms", config_operation=0, value="77")
        resource = AlterConfigsResource(
            resource_type=2, resource_name="configured", configs=[change]
        )
        answer = client.request(IncrementalAlterConfigsRequest(resources=[resource]))
        assert [r.error_code for r in answer.responses] == [0]
        cluster.wait_until(
            lambda: all(
                n.image.topic_configs("configured") == {"retention.ms": "77"}
                for n in cluster.brokers
            )
        )


def test_topics_have_as_many_replicas_as_they_ask_for_and_there_are_brokers(
    cluster: Nodes,
) -> None:
    with cluster.client(4) as client:
        asked = [
            CreatableTopic(name="two", num_partitions=2, replication_factor=2),
            CreatableTopic(name="three", num_partitions=1, replication_factor=3),
            CreatableTopic(
                name="placed",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[5, 4])],
            ),
        ]
        two, three, placed = client.request(CreateTopicsRequest(topics=asked)).topics
        assert (two.error_code, two.replication_factor) == (0, 2)
        assert (three.error_code, placed.error_code) == (ErrorCode.INVALID_REPLICATION_FACTOR, 0)
        assert "only 2 broker(s) are registered" in three.error_message
        wanted = CreatePartitionsTopic(name="two", count=4, assignments=None)
        more = CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000)
        assert [t.error_code for t in client.request(more).results] == [0]

    def replicas(name: str) -> list[tuple[int, ...]]:
        topic = cluster.nodes[4].image.topics_by_name.get(name)
        return [] if topic is None else [one.replicas for one in topic.partitions]

    cluster.wait_until(lambda: len(replicas("two")) == 4)
    assert {tuple(sorted(each)) for each in replicas("two")} == {(4, 5)}
    assert {each[0] for each in replicas("two")} == {4, 5}, "leaders are spread"
    assert replicas("placed") == [(5, 4)]


def test_topics_are_created_when_they_are_asked_for(cluster: Nodes) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="wished-for")], allow_auto_topic_creation=True
    )
    with cluster.client(4) as client:
        client.request(request)
        cluster.wait_until(lambda: known(cluster, "wished-for"))
        (topic,) = client.request(request).topics
        assert (topic.error_code, len(topic.partitions)) == (0, 1)


def test_two_brokers_give_out_different_producer_ids(cluster: Nodes) -> None:
    ids = []
    for id_ in (4, 5):
        with cluster.client(id_) as client:
            answer = client.request(InitProducerIdRequest(transactional_id=None))
            assert answer.error_code == 0
            ids.append(answer.producer_id)
    assert abs(ids[0] - ids[1]) >= 1_000, "they are of two blocks"


def test_all_controllers_register(cluster: Nodes) -> None:
    cluster.wait_until(lambda: set(cluster.nodes[4].image.controllers) == {1, 2, 3})
    leader = cluster.active
    port = leader.controller.bound[0].port
    with Connection("127.0.0.1", port, timeout_ms=60_000) as client:
        answer = client.request(DescribeClusterRequest(endpoint_type=2))
    assert answer.controller_id == leader.config.node_id
    assert [b.broker_id for b in answer.brokers] == [1, 2, 3]


def test_features_are_checked_against_all_nodes(cluster: Nodes) -> None:
    with cluster.client(4) as client:
        for level, code in ((33, 0), (34, 95), (32, 95)):
            key = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
            answer = client.request(UpdateFeaturesRequest(feature_updates=[key]))
            assert answer.error_code == code, answer.error_message
        key = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
        answer = client.request(UpdateFeaturesRequest(feature_updates=[key]))
        assert answer.error_code == 0, answer.error_message


def test_a_broker_that_was_forgotten_registers_again(cluster: Nodes) -> None:
    lost = cluster.nodes[5]
    before = lost.image.brokers[5].epoch
    with cluster.client(4) as client:
        assert client.request(UnregisterBrokerRequest(broker_id=5)).error_code == 0

    def is_back() -> bool:
        found = cluster.nodes[4].image.brokers.get(5)
        return found is not None and found.epoch > before and not found.fenced

    cluster.wait_until(is_back)
    assert cluster.call(lambda: lost.broker.lifecycle.broker_epoch) > before


def test_a_silent_broker_is_fenced_and_comes_back(cluster: Nodes) -> None:
    ports = cluster.nodes[5].ports
    ask_controller = ports.ask_controller
    ports.ask_controller = lambda key, asked: None
    try:
        cluster.wait_until(lambda: cluster.nodes[4].image.brokers[5].fenced)
    finally:
        ports.ask_controller = ask_controller
    cluster.wait_until(lambda: not cluster.nodes[4].image.brokers[5].fenced)


def test_what_is_asked_while_the_lead_changes_is_answered(own_cluster: Nodes) -> None:
    old = own_cluster.active.config.node_id
    with own_cluster.client(4) as client:
        own_cluster.stop(old)
        assert create(client, "meanwhile") == [0]
    own_cluster.wait_until(lambda: known(own_cluster, "meanwhile"))
    assert own_cluster.active.config.node_id != old
    epochs = {id_: own_cluster.nodes[4].image.brokers[id_].epoch for id_ in (4, 5)}
    own_cluster.wait_until(
        lambda: not any(b.fenced for b in own_cluster.nodes[4].image.brokers.values())
    )
    assert epochs == {id_: own_cluster.nodes[4].image.brokers[id_].epoch for id_ in (4, 5)}


def test_a_broker_that_stops_is_fenced_before_it_goes(own_cluster: Nodes) -> None:
    own_cluster.stop(5)
    own_cluster.wait_until(lambda: own_cluster.nodes[4].image.brokers[5].fenced)


def test_a_broker_that_stops_serves_clients_until_others_lead(cluster: Nodes) -> None:
    with cluster.client(4) as client:
        topic = CreatableTopic(name="handed-over", num_partitions=4, replication_factor=2)
        assert [
            t.error_code
            for t in client.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        ] == [0]

    def leaders(node: Node) -> list[int]:
        found = node.image.topics_by_name.get("handed-over")
        return [] if found is None else [one.leader for one in found.partitions]

    staying, stopping = cluster.nodes[4], cluster.nodes[5]
    cluster.wait_until(lambda: set(leaders(stopping)) == {4, 5})
    served: list[bool] = []

    def look() -> None:
        """Whether clients may still connect when others lead everything."""
        if set(leaders(stopping)) == {4} and stopping.broker.lifecycle.machine.is_registered:
            served.append(stopping.broker.listener.is_open)

    cluster.call(lambda: stopping.metadata.on_step(look))
    try:
        cluster.stop(5)
        assert served and served[0]
        assert leaders(staying) == [4] * 4, "without a moment without a leader"
    finally:
        cluster.call(lambda: cluster.start(5))
        cluster.wait_until(lambda: not cluster.nodes[4].image.brokers[5].fenced)
