"""A cluster whose nodes log in at each other: it comes up, replicates, fails over, and stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..waiting import eventually
from .login_cluster import CLIENT, LoginCluster, login_cluster

kafka = pytest.importorskip("confluent_kafka")
admin_api = pytest.importorskip("confluent_kafka.admin")

pytestmark = [pytest.mark.slow, pytest.mark.clients]
TIMEOUT_S = 30


def of(cluster: LoginCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **CLIENT, **more}


def make_topic(cluster: LoginCluster) -> int:
    """A topic "t" with three replicas; its leader."""
    admin = admin_api.AdminClient(of(cluster))
    topic = admin_api.NewTopic("t", 1, 3)
    admin.create_topics([topic])["t"].result(TIMEOUT_S)
    return int(admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions[0].leader)


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


def test_nodes_log_in_and_again_and_fail_over(tmp_path: Path):
    """Sessions last three seconds: every connection between nodes logs in again many times."""
    reauth = {"connections.max.reauth.ms": "3000"}
    with login_cluster(tmp_path, config=reauth) as cluster:
        leader = make_topic(cluster)
        produce(cluster, range(100))
        cluster.nodes[leader].kill()
        produce(cluster, range(100, 200))
        assert consume(cluster, 200) == list(range(200))
        for node in cluster.nodes.values():
            text = node.log_path.read_text()
            assert "refuses the login" not in text
            assert "has expired" not in text
            assert "Traceback" not in text
