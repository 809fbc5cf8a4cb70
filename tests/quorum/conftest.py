"""Three controllers and a broker in processes of their own, and writers of metadata.

`cluster` is one for a whole module; every test finds all of its nodes running and a leader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, ClientError
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S

QUICK = {
    "controller.quorum.election.timeout.ms": 300,
    "controller.quorum.fetch.timeout.ms": 600,
    "controller.quorum.request.timeout.ms": 600,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}
"""Timeouts that make elections short, so that tests are; the machine's load must stay below."""


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[QuorumCluster]:
    """One cluster for a module."""
    with QuorumCluster(3, 1, config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: QuorumCluster) -> QuorumCluster:
    """The module's cluster, whole."""
    for node in shared_cluster.nodes.values():
        if node.running:
            node.resume()
    shared_cluster.start()
    return shared_cluster


class TopicWriter(threading.Thread):
    """Creates topics, one after the other, until it is told to stop, and knows which there are."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        """Names of topics whose creation was confirmed."""
        self.failures: list[ClientError] = []
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._stopping = threading.Event()
        self._progress = threading.Condition()

    def run(self) -> None:
        with Cluster(self._bootstrap_servers) as cluster:
            admin = Admin(cluster)
            number = 0
            while not self._stopping.is_set():
                name = f"{self._prefix}-{number}"
                number += 1
                try:
                    admin.create_topic(name, 1, 1)
                except BrokerError as error:
                    # What was tried again may have been done the first time.
                    if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        self.failures.append(error)
                        continue
                except ClientError as error:
                    self.failures.append(error)
                    continue
                with self._progress:
                    self.acknowledged.append(name)
                    self._progress.notify_all()

    def wait_for_more(self, count: int = 5, timeout_s: float = DEADLINE_S) -> None:
        """Wait until so many more topics have been confirmed."""
        with self._progress:
            wanted = len(self.acknowledged) + count
            done = self._progress.wait_for(lambda: len(self.acknowledged) >= wanted, timeout_s)
        assert done, f"no {count} topics in {timeout_s} s: {self.failures[-3:]}"

    def stop(self) -> list[str]:
        """Stop; the names of the topics that must be there."""
        self._stopping.set()
        self.join(2 * DEADLINE_S)  # a request may be under way, and be tried again
        assert not self.is_alive()
        return self.acknowledged


@pytest.fixture
def writer(cluster: QuorumCluster, request: pytest.FixtureRequest) -> Iterator[TopicWriter]:
    """A writer at work, with some topics created already."""
    made = TopicWriter(cluster.bootstrap_servers, request.node.name.partition("[")[0])
    made.start()
    try:
        made.wait_for_more()
        yield made
    finally:
        made.stop()


def wait_for_topics(cluster: QuorumCluster, names: Iterable[str]) -> None:
    """All of these must be there; a broker may learn of the last ones a moment later."""
    wanted = set(names)
    cluster.wait_until(lambda: wanted <= topic_names(cluster), "acknowledged topics are lost")


def topic_names(cluster: QuorumCluster) -> set[str]:
    """All topics there are, as the broker has them."""
    with Cluster(cluster.bootstrap_servers) as client:
        return {topic.name for topic in Admin(client).list_topics()}
