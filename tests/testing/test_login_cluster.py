"""A cluster whose nodes log in at each other: it comes up, replicates, fails over, and stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ..waiting import eventually
from .login_cluster import CLIENT, LoginCluster, login_cluster, make_topic

kafka = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.slow, pytest.mark.clients]
TIMEOUT_S = 60


def of(cluster: LoginCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **CLIENT, **cluster.client, **more}


def produce(cluster: LoginCluster, values: range) -> None:
    producer = kafka.Producer(of(cluster, **{"acks": "all", "message.timeout.ms": 30_000}))
    lost: list[Any] = []
    for value in values:
        producer.produce("t", str(value), on_delivery=lambda error, _: error and lost.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert not lost


def consume(cluster: LoginCluster, count: int) -> list[int]:
    consumer = kafka.Consumer(of(cluster, **{"group.id": "g"}))
    consumer.assign([kafka.TopicPartition("t", 0, 0)])
    found: list[int] = []

    def all_there() -> bool:
        found.extend(int(one.value()) for one in consumer.consume(count, 0.2) if not one.error())
        return len(found) >= count

    eventually(all_there, "all records are there")
    consumer.close()
    return found


def tls_of_nodes(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Configs of nodes and of clients, where every node shows the same certificate."""
    certificates = pytest.importorskip("fencepost.testing.certificates")
    authority = certificates.CertificateAuthority()
    trusted = directory / "authority.pem"
    trusted.write_text(authority.certificate_pem)
    nodes = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node").write(directory)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }
    return nodes, {"security.protocol": "SASL_SSL", "ssl.ca.location": str(trusted)}


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_nodes_log_in_and_again_and_fail_over(tmp_path: Path, protocol: str):
    """Sessions last three seconds: every connection between nodes logs in again many times."""
    config, client = tls_of_nodes(tmp_path) if protocol == "SASL_SSL" else ({}, {})
    config["connections.max.reauth.ms"] = "3000"
    with login_cluster(tmp_path, protocol, config) as cluster:
        cluster.client = client
        leader = make_topic(of(cluster))
        produce(cluster, range(100))
        eventually(lambda: all_logged_in_again(cluster), "nodes have logged in again")
        cluster.nodes[leader].kill()
        produce(cluster, range(100, 200))
        assert consume(cluster, 200) == list(range(200))
        for node in cluster.nodes.values():
            text = node.log_path.read_text()
            assert "refuses the login" not in text
            assert "has expired" not in text
            assert "Traceback" not in text


def all_logged_in_again(cluster: LoginCluster) -> bool:
    """Whether nodes have logged in again at listeners of brokers and of controllers."""
    name = "kafka_server_socket_server_metrics_successful_reauthentication_total"
    seen: set[str] = set()
    for port in cluster.metrics_ports.values():
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name) and float(line.rpartition(" ")[2]) > 0:
                    seen.add(line.partition('listener="')[2].partition('"')[0])
    return seen == {"BROKER", "CONTROLLER"}
