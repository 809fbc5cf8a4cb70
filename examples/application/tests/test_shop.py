"""The shop with pytest: nothing is imported for the fixture, which the installed plugin has."""

import json
import uuid

import pytest
from shop import bill, invoice_of

from fencepost.client import Admin, Cluster, Consumer, Producer


@pytest.fixture
def topics(fencepost_cluster):
    """Topics of this test's own: the broker is there for all tests."""
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "invoices")]
    with Cluster(fencepost_cluster.bootstrap_servers) as cluster:
        for name in names:
            Admin(cluster).create_topic(name, 1)
            Admin(cluster).wait_for_topic(name)
    return names


def order(servers, topic, *items):
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for id_, item in enumerate(items):
            producer.send(topic, json.dumps({"id": id_, "item": item, "count": 2}).encode())


def amounts(servers, topic, count):
    found = []
    settings = {"group_id": f"reader-{topic}", "auto_offset_reset": "earliest"}
    with Cluster(servers, **settings) as cluster, Consumer(cluster, [topic]) as consumer:
        while len(found) < count:
            for part in consumer.poll():
                found += [json.loads(record.value)["amount"] for record in part.read_records()]
    return found


def test_an_invoice():
    assert invoice_of(b'{"id": 7, "item": "tea", "count": 2}') == b'{"id": 7, "amount": 6}'


def test_orders_are_billed_once_in_two_runs(fencepost_cluster, topics):
    orders, invoices = topics
    servers = fencepost_cluster.bootstrap_servers
    order(servers, orders, "tea", "coffee")
    bill(servers, orders, invoices, 2)
    order(servers, orders, "coffee")
    bill(servers, orders, invoices, 1)
    assert amounts(servers, invoices, 3) == [6, 8, 8]


def test_a_broker_that_dies_loses_no_invoice(fencepost_cluster, topics):
    orders, invoices = topics
    servers = fencepost_cluster.bootstrap_servers
    order(servers, orders, "tea")
    bill(servers, orders, invoices, 1)
    fencepost_cluster.kill()
    fencepost_cluster.start()
    assert amounts(servers, invoices, 1) == [6]
