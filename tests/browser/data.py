"""What the cluster under the browser's tests has in it."""

from __future__ import annotations

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.producer import Producer

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"
"""A record's value; were it markup, a dialog would tell."""
GROUP, SHARE_GROUP = "billing", "packing"
TOPICS = ("orders", "payments", "shipments", "clicks", "inventory")


def fill(bootstrap: str) -> None:
    """Topics of many sizes, names of 249 characters, records that are markup, a dead letter, and
    two groups without members that are behind in `payments`."""
    with Cluster(bootstrap) as client:
        admin = Admin(client)
        for number, name in enumerate(TOPICS):
            admin.create_topic(name, 3 + number, 3)
        admin.create_topic("letters", 1, 3)
        admin.create_topic("long-" + "n" * 244, 1, 1)
        for number in range(120):
            admin.create_topic(f"topic-{number:03}", 1, 1)
        with Producer(client) as producer:
            for number in range(50):
                producer.send("orders", f"{number}: {MARKUP}".encode(), key=MARKUP.encode())
                producer.send("payments", b"paid %d" % number, partition=0)
            origin = {"topic": "payments", "partition": 0, "offset": 7, "group": GROUP}
            headers = [(f"__dlq.errors.{key}", str(at).encode()) for key, at in origin.items()]
            producer.send("letters", b"a copy", headers=headers)
        admin.alter_group_offsets(GROUP, {TopicPartition("payments", 0): CommittedOffset(0)})
        admin.alter_share_group_offsets(SHARE_GROUP, {TopicPartition("payments", 0): 0})
