"""DescribeCluster: which brokers are told, to whom, and what is refused."""

import pytest

from fencepost.wire.api.describe_cluster import DescribeClusterRequest

from .harness import CLUSTER_ID, StillNode, ask, broker, register, served_versions

register("describe_cluster")


def a_cluster() -> StillNode:
    return StillNode().learn(
        broker(1, rack="east"),
        broker(2, fenced=True),
        broker(3, listeners=("INTERNAL",)),
        broker(4, listeners=("INTERNAL", "PLAINTEXT")),
    )


@pytest.mark.parametrize("version", served_versions(DescribeClusterRequest))
def test_live_brokers_on_this_listener_are_described(version):
    answer = ask(a_cluster(), DescribeClusterRequest(), version)
    assert answer.error_code == 0
    assert answer.cluster_id == CLUSTER_ID
    assert answer.controller_id == 1
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "broker-1", 9001, "east"),
        (4, "broker-4", 9005, None),
    ]
    assert answer.cluster_authorized_operations == -(2**31)


def test_another_listener_shows_other_brokers():
    answer = ask(a_cluster(), DescribeClusterRequest(), listener="INTERNAL")
    assert [(b.broker_id, b.port) for b in answer.brokers] == [(3, 9003), (4, 9004)]


def test_fenced_brokers_are_listed_on_request_and_marked():
    answer = ask(a_cluster(), DescribeClusterRequest(include_fenced_brokers=True))
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [
        (1, False),
        (2, True),
        (4, False),
    ]


@pytest.mark.parametrize("version", served_versions(DescribeClusterRequest))
def test_operations_are_kafkas_bits(version):
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(a_cluster(), request, version).cluster_authorized_operations == 8096


def test_without_a_live_broker_there_is_no_controller():
    node = StillNode().learn(broker(2, fenced=True))
    assert ask(node, DescribeClusterRequest()).controller_id == -1


def test_the_controller_is_another_broker_while_this_one_is_fenced():
    node = StillNode().learn(broker(1, fenced=True), broker(5), broker(7))
    assert ask(node, DescribeClusterRequest()).controller_id == 5


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (0, 115), (3, 115)])
def test_only_brokers_are_described(endpoint_type, code):
    answer = ask(a_cluster(), DescribeClusterRequest(endpoint_type=endpoint_type))
    assert answer.error_code == code
    assert answer.error_message
    assert answer.brokers == []
