"""A cluster with topics of every kind that pages of records are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

ORDERS = 3
ORDERS_EACH = 20
STARTED_MS = 1_700_000_000_000
LARGE_BYTES = 325_000
HOSTILE = b"<script>alert('x')</script>\x1b[31m"


@contextmanager
def record_topics() -> Iterator[str]:
    """Bootstrap servers. `orders` has 20 JSON records in each of 3 partitions, a second apart over
    all; `transactions` one committed, one aborted, one open transaction and what is outside;
    `empty` nothing, `trimmed` only offsets 15 to 19; `odd` what is large, hostile or no text."""
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        admin = Admin(client)
        for name, partitions in (("orders", ORDERS), ("empty", 2)):
            admin.create_topic(name, partitions, 1)
        for name in ("transactions", "ended", "trimmed", "odd", "letters"):
            admin.create_topic(name, 1, 1)
        producer = Producer(client)
        for number in range(ORDERS * ORDERS_EACH):
            value = b'{"id": %d, "customer": {"name": "c%d"}}' % (number, number % 7)
            producer.send(
                "orders",
                value,
                b"k%d" % number,
                partition=number % ORDERS,
                headers=[("source", b"test")],
                timestamp_ms=STARTED_MS + 1000 * number,
            )
            if number % 10 == 9:
                producer.flush()
        for number in range(20):
            producer.send("trimmed", b"%d" % number, partition=0)
        producer.send("odd", b"x" * LARGE_BYTES, b"large", partition=0)
        producer.send("odd", HOSTILE, HOSTILE, headers=[("<b>", HOSTILE)], partition=0)
        producer.send("odd", b"\x00\x00\x01\x00", None, partition=0)
        producer.send("odd", None, b"tombstone", partition=0)
        letter = {"topic": b"orders", "partition": b"1", "offset": b"7", "message": b"rejected"}
        headers = [(f"__dlq.errors.{name}", value) for name, value in letter.items()]
        producer.send("letters", None, headers=headers, partition=0)
        producer.flush()
        admin.delete_records({TopicPartition("trimmed", 0): 15})
        with _transactions(cluster.bootstrap_servers):
            yield cluster.bootstrap_servers


@contextmanager
def _transactions(servers: str) -> Iterator[None]:
    """Offsets of `transactions`: 0 outside, 1 committed, 3 aborted, 5 outside, 6 open, 7 committed
    behind it. Of `ended`: 0 open, 1 committed by a marker behind 2, which is large."""
    with (
        Client(servers) as plain,
        Client(servers, transactional_id="one") as one,
        Client(servers, transactional_id="other") as other,
    ):
        outside, ended, opened = Producer(plain), Producer(one), Producer(other)
        _send(outside, b"outside")
        ended.init_transactions()
        opened.init_transactions()
        ended.begin_transaction()
        _send(ended, b"committed")
        ended.commit_transaction()
        ended.begin_transaction()
        _send(ended, b"aborted")
        ended.abort_transaction()
        _send(outside, b"outside again")
        opened.begin_transaction()
        _send(opened, b"open")
        ended.begin_transaction()
        _send(ended, b"committed behind")
        ended.commit_transaction()
        _send(opened, b"open", "ended")
        ended.begin_transaction()
        _send(ended, b"committed farther on", "ended")
        _send(outside, b"x" * LARGE_BYTES, "ended")
        ended.commit_transaction()
        yield


def _send(producer: Producer, value: bytes, topic: str = "transactions") -> None:
    producer.send(topic, value, partition=0)
    producer.flush()
