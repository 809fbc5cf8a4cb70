"""The console's pages about replicas, quorum, transactions and configs, of both kinds of broker."""

from __future__ import annotations

import pytest

from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..console.looking import documents, in_session, page_of, sentences

from fencepost.console.session import Session  # isort: skip

pytestmark = pytest.mark.interop


def test_a_broker_tells_all_that_the_pages_ask(bootstrap: str):
    with Cluster(bootstrap, transactional_id="payments") as client:
        admin = Admin(client)
        admin.create_topic("orders", 2, 1)
        admin.wait_for_topic("orders")
        admin.alter_configs(2, "orders", [ConfigChange("retention.ms", "86400000")])
        producer = Producer(client)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open", partition=0)
        producer.flush()
        in_session(bootstrap, _looks)
        producer.abort_transaction()


async def _looks(session: Session) -> None:
    replicas = documents(await page_of(session, "replication", details="all", filter="orders"))[0]
    assert replicas[0]["replicas"][0]["state"] == "leader"
    assert replicas[0]["replicas"][0]["size_bytes"] > 0
    assert replicas[0]["eligible"] == []
    lineage = await page_of(session, "partition", topic="orders", partition="0")
    (one,) = documents(lineage)[0]["epochs"]["replicas"]
    assert one["epochs"] == [{"leader_epoch": 0, "start_offset": 0, "end_offset": 1}]
    assert not any("not known" in text for text in sentences(lineage))
    quorum = documents(await page_of(session, "quorum"))
    assert quorum[0]["leader_id"] == 1
    assert "metadata.version" in [feature["name"] for feature in quorum[2]]
    held = await page_of(session, "transactions", explain="orders:0", state="Ongoing")
    assert [documents(held)[0]["verdict"], documents(held)[-1][0]["transactional_id"]] == [
        "ongoing",
        "payments",
    ]
    described = documents(await page_of(session, "transaction", id="payments"))
    assert described[0]["partitions"] == ["orders:0"]
    configs = documents(await page_of(session, "configs", topic="orders"))[0]
    (own,) = (entry for entry in configs if entry["source"] == "topic")
    assert own["value"] == "86400000"
    # Apache Kafka 4.4 does not tell what stands behind a topic's retention.ms.
    assert own["default"] in (None, "log.retention.hours=168")
    brokers = documents(await page_of(session, "configs"))[0]
    assert {"node.id", "log.dirs"} <= {entry["name"] for entry in brokers}
    about, dirs, features, quotas = documents(await page_of(session, "broker", broker="1"))
    assert (about["leads"] > 0, dirs["replicas"] > 0, quotas) == (True, True, {})
    assert features
    moves = await page_of(session, "reassignments")
    assert sentences(moves) == ["Nothing moves."]
    contents = documents(await page_of(session, "topic", topic="orders", show="contents"))[0]
    assert contents["partitions"][0]["latest"] == 1
    at_min = documents(await page_of(session, "replication", show="at-min-isr", details="none"))
    assert len(at_min[0]) >= 2
