"""Bills orders: each record of a topic of orders becomes one of a topic of invoices."""

import json

from fencepost.client import Cluster, Consumer, Producer

PRICES = {"tea": 3, "coffee": 4}


def invoice_of(order: bytes) -> bytes:
    """What is to be paid for an order."""
    found = json.loads(order)
    amount = PRICES[found["item"]] * found["count"]
    return json.dumps({"id": found["id"], "amount": amount}).encode()


def bill(servers: str, orders: str, invoices: str, count: int) -> None:
    """Bill the next `count` orders; the next call goes on behind them."""
    settings = {"group_id": f"billing-{orders}", "auto_offset_reset": "earliest"}
    with (
        Cluster(servers, **settings) as cluster,
        Consumer(cluster, [orders]) as consumer,
        Producer(cluster) as producer,
    ):
        while count > 0:
            for part in consumer.poll():
                for order in part.read_records():
                    producer.send(invoices, invoice_of(order.value), key=order.key)
                    count -= 1
                consumer.store(part.partition, part.next_offset, part.last_epoch)
        producer.flush()  # before the orders count as billed
        consumer.commit()
