"""Three controllers and two brokers, real nodes over real sockets, in one event loop.

What brokers cannot decide goes to the active controller, and comes back, also while the lead goes
from one to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.node.node import Node
from fencepost.client.connection import Connection
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
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

from ..waiting import DEADLINE_S, eventually
from .door import LoopThread

pytestmark = pytest.mark.slow

CONFIG = {
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 4_000,
    "fencepost.event.loop": "asyncio",
    "group.initial.rebalance.delay.ms": 0,
}


class Nodes:
    """The nodes by id, and the loop they all run in."""

    def __init__(self, directory: Path) -> None:
        self._plan = QuorumCluster(3, 2, directory=directory, config=CONFIG)
        self._thread = LoopThread()
        self.nodes: dict[int, Node] = {}
        self.call(self._start_all)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the loop, a coroutine function to its end."""

        async def run() -> Any:
            made = function(*arguments)
            return await made if asyncio.iscoroutine(made) else made

        loop = self._thread.loop
        return asyncio.run_coroutine_threadsafe(run(), loop).result(DEADLINE_S)

    async def _start_all(self) -> None:
        for id_, process in self._plan.nodes.items():
            config = BrokerConfig.load(process.config_path, {})
            self.nodes[id_] = Node(config, self._thread.loop)
        await asyncio.gather(*[node.start() for node in self.nodes.values()])

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Let the nodes work until it holds."""

        async def wait() -> None:
            while True:
                if condition():
                    return
                await asyncio.sleep(0.01)

        self.call(lambda: asyncio.wait_for(wait(), DEADLINE_S))

    @property
    def active(self) -> Node:
        """The active controller, once there is one."""

        def find() -> list[Node]:
            return [n for i, n in self.nodes.items() if i <= 3 and n.controller.controller]

        return eventually(find, "a controller is active")[0]

    @property
    def brokers(self) -> list[Node]:
        return [self.nodes[4], self.nodes[5]]

    def client(self, id_: int) -> Connection:
        return Connection("127.0.0.1", self.nodes[id_].bound[0].port, timeout_ms=60_000)

    def stop(self, id_: int) -> None:
        """Stop one node in order."""
        self.call(self.nodes.pop(id_).stop)

    def close(self) -> None:
        for id_ in sorted(self.nodes, reverse=True):
            self.stop(id_)
        self._thread.close()
        self._plan.close()


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


def create(client: Connection, *names: str) -> list[int]:
    asked = [CreatableTopic(name=n, num_partitions=2, replication_factor=1) for n in names]
    return [t.error_code for t in client.request(CreateTopicsRequest(topics=asked)).topics]


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


def test_more_replicas_than_one_are_refused(cluster: Nodes) -> None:
    with cluster.client(4) as client:
        asked = CreatableTopic(name="two", num_partitions=1, replication_factor=2)
        (topic,) = client.request(CreateTopicsRequest(topics=[asked])).topics
        assert topic.error_code == 38
        assert "replication factor 2 is more than 1" in topic.error_message


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
    controller = cluster.active
    port = controller.controller_part.bound[0].port
    with Connection("127.0.0.1", port, timeout_ms=60_000) as client:
        answer = client.request(DescribeClusterRequest(endpoint_type=2))
    assert answer.controller_id == controller.config.node_id
    assert [b.broker_id for b in answer.brokers] == [1, 2, 3]


def test_features_are_checked_against_all_nodes(cluster: Nodes) -> None:
    with cluster.client(4) as client:
        for level, code in ((30, 0), (31, 95), (29, 95)):
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
    assert cluster.call(lambda: lost.lifecycle.broker_epoch) > before


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
