"""The proxy in front of a cluster that does not know of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.client.errors import ConfigError
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster, Proxy
from fencepost.testing.faults.addresses import AddressRewriter
from fencepost.wire.api import API_NAMES, request_class
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.describe_quorum import DescribeQuorumResponse, Listener, Node
from fencepost.wire.api.fetch import FetchResponse, NodeEndpoint
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from fencepost.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

from ..broker.listener_fixtures import Client as RawClient
from ..ports import address_of, refusing_port
from ..waiting import DEADLINE_S, eventually


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    """Two brokers without proxies of their own."""
    with Cluster(brokers=2, faults=False, offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture
def proxy(two: Cluster) -> Iterator[Proxy]:
    """A proxy that is told of the first broker only."""
    with Proxy(two.bootstrap_servers.split(",")[0]) as proxy:
        yield proxy


def connect(proxy: Proxy) -> Connection:
    """A client of the first broker."""
    host, port = proxy.bootstrap_servers.split(":")
    return Connection(host, int(port))


def connect_first(proxy: Proxy) -> RawClient:
    """A socket to the first gate."""
    host, port = proxy.bootstrap_servers.split(",")[0].split(":")
    return RawClient(socket.create_connection((host, int(port)), timeout=DEADLINE_S))


def addresses(answer: Any) -> set[str]:
    """Where brokers are, as an answer says."""
    return {f"{one.host}:{one.port}" for one in answer}


def test_every_answer_leads_back_to_the_proxy(two: Cluster, proxy: Proxy):
    with connect(proxy) as client:
        told = addresses(client.request(MetadataRequest(topics=None)).brokers)
        assert len(told) == 2
        assert not told & set(two.bootstrap_servers.split(","))
        assert proxy.bootstrap_servers in told
        assert addresses(client.request(DescribeClusterRequest()).brokers) == told
        assert {target["node"] for target in proxy.targets.values()} == {1, 2}

        def coordinator(version: int) -> str:
            if version < 4:
                said = client.request(FindCoordinatorRequest(key="g"), version)
            else:
                asked = FindCoordinatorRequest(coordinator_keys=["g"])
                (said,) = client.request(asked, version).coordinators
            return "" if said.error_code else f"{said.host}:{said.port}"

        for version in (3, 4):
            assert eventually(lambda version=version: coordinator(version)) in told


def test_faults_meet_requests_to_brokers_heard_of_later(two: Cluster, proxy: Proxy):
    with Client(proxy.bootstrap_servers) as client:
        admin = Admin(client)
        admin.create_topic("behind", assignments={0: [1], 1: [2]})
        admin.wait_for_topic("behind")
        fault = proxy.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2, node=2)
        with Producer(client) as producer:
            for partition in (0, 1):
                producer.send("behind", b"a", partition=partition)
            producer.flush()
        assert fault.hits == 2
        keys = [TopicPartition("behind", partition) for partition in (0, 1)]
        ends = list_offsets(client, dict.fromkeys(keys, LATEST))
        assert [ends[key].offset for key in keys] == [1, 1]


def test_it_offers_no_more_than_it_can_read(proxy: Proxy):
    with connect(proxy) as client:
        offered = client.request(ApiVersionsRequest()).api_keys
        assert {one.api_key for one in offered} <= set(API_NAMES)
        assert all(one.max_version <= request_class(one.api_key).max_version for one in offered)


def test_unknown_versions_and_apis_are_left_out():
    answer = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=0, min_version=3, max_version=99),
            ApiVersion(api_key=1, min_version=98, max_version=99),
            ApiVersion(api_key=9_999, max_version=3),
        ]
    )
    assert AddressRewriter(lambda node, address: address).rewrite(answer)
    (left,) = answer.api_keys
    known = request_class(0).max_version
    assert (left.api_key, left.min_version, left.max_version) == (0, 3, known)
    refused = ApiVersionsResponse(error_code=35)
    assert not AddressRewriter(lambda node, address: address).rewrite(refused)


def test_addresses_are_replaced_wherever_they_are():
    asked = []

    def gate_for(node, address):
        asked.append((node, address))
        return "gate", 1

    rewriter = AddressRewriter(gate_for)
    for answer, read in (
        (
            MetadataResponse(brokers=[MetadataResponseBroker(node_id=3, host="h", port=9)]),
            "brokers",
        ),
        (
            FetchResponse(node_endpoints=[NodeEndpoint(node_id=3, host="h", port=9)]),
            "node_endpoints",
        ),
    ):
        assert rewriter.rewrite(answer)
        assert addresses(getattr(answer, read)) == {"gate:1"}
    quorum = DescribeQuorumResponse(nodes=[Node(node_id=3, listeners=[Listener(host="h", port=9)])])
    assert rewriter.rewrite(quorum)
    assert addresses(quorum.nodes[0].listeners) == {"gate:1"}
    assert asked == [(3, ("h", 9)), (3, ("h", 9)), (None, ("h", 9))]
    for nowhere in (FindCoordinatorResponse(host="", port=-1), FetchResponse()):
        assert not rewriter.rewrite(nowhere)
    names = {
        API_NAMES[key] for key in API_NAMES if rewriter.wants(key, request_class(key).max_version)
    }
    assert names >= {"Metadata", "FindCoordinator", "DescribeCluster", "Produce", "Fetch"}
    assert "Heartbeat" not in names
    assert not rewriter.wants(9_999, 0)


def test_it_goes_with_its_end(two: Cluster):
    proxy = Proxy(two.bootstrap_servers)
    proxy.start()
    clients = [connect_first(proxy) for _ in range(3)]
    proxy.close()
    assert all(client.is_disconnected() for client in clients)
    with pytest.raises(ConnectionRefusedError):
        connect_first(proxy)


def test_what_is_no_address_is_refused():
    for servers in ("", "kafka", "kafka:none", "kafka:99999"):
        with pytest.raises(ConfigError):
            Proxy(servers)


def test_a_broker_that_is_not_there_resets_its_clients():
    with refusing_port() as held, Proxy(address_of(held)) as proxy:
        assert connect_first(proxy).is_disconnected()
