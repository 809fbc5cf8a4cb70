"""Three nodes whose listeners all ask for certificates: they find each other, and fail over."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from fencepost.testing.certificates import CertificateAuthority

from ..waiting import DEADLINE_S, eventually
from .login_cluster import login_cluster, make_topic

kafka = pytest.importorskip("confluent_kafka")

pytestmark = [pytest.mark.slow, pytest.mark.clients]


def test_nodes_show_each_other_certificates(tmp_path: Path):
    authority = CertificateAuthority()
    trusted = str(authority.write(tmp_path))
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node").write(tmp_path)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "ssl.client.auth": "required",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    ada = str(authority.issue("ada", hosts=()).write(tmp_path))
    with login_cluster(tmp_path, "SSL", config) as cluster:
        client: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": trusted,
            "ssl.certificate.location": ada,
            "ssl.key.location": ada,
        }
        leader = make_topic(client)
        producer = kafka.Producer({**client, "acks": "all"})
        for value in range(100):
            producer.produce("t", str(value))
        assert producer.flush(DEADLINE_S) == 0
        cluster.nodes[leader].kill()
        for value in range(100, 200):
            producer.produce("t", str(value))
        assert producer.flush(DEADLINE_S) == 0
        consumer = kafka.Consumer({**client, "group.id": "g"})
        consumer.assign([kafka.TopicPartition("t", 0, 0)])
        found: list[int] = []

        def all_there() -> bool:
            found.extend(int(m.value()) for m in consumer.consume(200, 0.2) if not m.error())
            return len(found) >= 200

        eventually(all_there, "all records are there")
        consumer.close()
        assert found == list(range(200))
        for node in cluster.nodes.values():
            text = node.log_path.read_text()
            assert "Traceback" not in text
            assert "does not begin with a TLS handshake" not in text
            assert "TLS handshake failed" not in text
        port = cluster.client_ports[leader % 3 + 1]
        shown = ssl.get_server_certificate(("127.0.0.1", port), ca_certs=trusted)
        assert "BEGIN CERTIFICATE" in shown
