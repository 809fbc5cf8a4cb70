"""Controllers killed, paused and restarted in real processes: what was acknowledged stays."""

from __future__ import annotations

import pytest

from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import TopicWriter, wait_for_topics

pytestmark = pytest.mark.slow


def test_killed_leader(cluster: QuorumCluster, writer: TopicWriter):
    leader = cluster.leader_id()
    cluster.controllers[leader].kill()
    assert cluster.leader_id(but=leader) != leader
    writer.wait_for_more()
    cluster.controllers[leader].start()
    cluster.controllers[leader].wait_until_ready()
    writer.wait_for_more()
    wait_for_topics(cluster, writer.stop())


def test_paused_leader(cluster: QuorumCluster, writer: TopicWriter):
    leader = cluster.leader_id()
    epoch = eventually(lambda: _epoch(cluster, leader), "the leader tells its epoch")
    cluster.controllers[leader].pause()

    def is_succeeded() -> bool:
        successor = cluster.find_leader(but=leader)
        return successor is not None and _epoch(cluster, successor) > epoch

    cluster.wait_until(is_succeeded, "the leader that is paused has no successor")
    writer.wait_for_more()
    cluster.controllers[leader].resume()
    cluster.wait_until(lambda: _epoch(cluster, leader) > epoch, "the old leader leads on")
    writer.wait_for_more()
    wait_for_topics(cluster, writer.stop())


def test_leader_stopped_in_order_hands_over(cluster: QuorumCluster, writer: TopicWriter):
    leader = cluster.leader_id()
    assert cluster.controllers[leader].stop() == 0
    assert "resigning" in cluster.controllers[leader].log_tail
    writer.wait_for_more()
    assert cluster.leader_id() != leader
    wait_for_topics(cluster, writer.stop())


def test_every_controller_restarted_in_turn(cluster: QuorumCluster, writer: TopicWriter):
    for node in cluster.controllers.values():
        assert node.stop() == 0
        node.start()
        node.wait_until_ready()
        cluster.leader_id()
        writer.wait_for_more()
    wait_for_topics(cluster, writer.stop())


def test_all_controllers_killed_at_once(cluster: QuorumCluster, writer: TopicWriter):
    for node in cluster.controllers.values():
        node.kill()
    cluster.start()
    writer.wait_for_more()
    wait_for_topics(cluster, writer.stop())


def test_killed_broker_reads_the_metadata_again(cluster: QuorumCluster, writer: TopicWriter):
    (broker,) = cluster.brokers.values()
    acknowledged = writer.stop()
    broker.kill()
    broker.start()
    broker.wait_until_ready()
    wait_for_topics(cluster, acknowledged)


def test_a_minority_elects_no_leader(cluster: QuorumCluster):
    leader = cluster.leader_id()
    others = [node for id_, node in cluster.controllers.items() if id_ != leader]
    for node in others:
        node.kill()

    def has_resigned() -> bool:
        said = cluster.describe(leader)
        return said is not None and said.leader_id == -1

    cluster.wait_until(has_resigned, "a leader without a majority goes on")
    assert cluster.find_leader() is None


def _epoch(cluster: QuorumCluster, node_id: int) -> int:
    """The epoch that a controller is in; 0 if it does not say."""
    said = cluster.describe(node_id)
    return 0 if said is None else said.leader_epoch


def test_an_orderly_stop_of_all_is_nothing_to_worry_about():
    """The last one finds no majority to hand over to, or to send EndQuorumEpoch to."""
    with QuorumCluster(3, 0, combined=True) as all_at_once:
        all_at_once.stop()
        logs = {node.name: node.log_path.read_text() for node in all_at_once.nodes.values()}
    for name, text in logs.items():
        assert "was not closed cleanly" not in text, "at the first start there is nothing to check"
        end = text[text.index("SIGTERM received") :]
        assert " ERROR " not in end and " WARNING " not in end, (name, end)
