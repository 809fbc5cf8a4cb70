"""The shop with unittest: a broker for the class, which is gone when its tests have run."""

import json
import unittest

from shop import bill

from fencepost.client import Admin, Cluster as Client, Consumer, Producer
from fencepost.testing import Cluster


class ShopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(Cluster(group_initial_rebalance_delay_ms=0))

    def setUp(self):
        self.addCleanup(self.kafka.reset)  # no fault outlives its test
        settings = {"group_id": "reader", "auto_offset_reset": "earliest"}
        self.client = self.enterContext(Client(self.kafka.bootstrap_servers, **settings))
        for name in ("orders", "invoices"):
            Admin(self.client).create_topic(name, 1)
            Admin(self.client).wait_for_topic(name)

    def test_an_order_is_billed_although_a_broker_refuses_at_first(self):
        with Producer(self.client) as producer:
            producer.send("orders", json.dumps({"id": 1, "item": "tea", "count": 2}).encode())
        fault = self.kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", 2, topic="invoices")
        bill(self.kafka.bootstrap_servers, "orders", "invoices", 1)
        self.assertEqual(fault.hits, 2)
        with Consumer(self.client, ["invoices"]) as consumer:
            while not (found := consumer.poll()):
                pass
        (record,) = found[0].read_records()
        self.assertEqual(json.loads(record.value), {"id": 1, "amount": 6})


if __name__ == "__main__":
    unittest.main()
