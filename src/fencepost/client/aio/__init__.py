"""asyncio clients over the same decisions as the blocking ones.

* `connection`: one negotiated, pipelined connection;
* `cluster`: who leads and coordinates what, and how to reach them despite failures;
* `admin`: `AsyncAdmin`, topics, groups, replicas, logs and transactions;
* `producer`: `AsyncProducer`, idempotent or transactional;
* `consumer`: `AsyncConsumer`, alone or as a member of a group;
* `share_consumer`: `AsyncShareConsumer`, a member of a share group.

What is sent and what answers mean is decided in `client.protocol`, `client.asking`,
`client.produce_core`, `client.accumulator`, `client.consumer_core` and `client.share_core`; here
are transports, tasks and waits. Everything belongs to one event loop.
"""

from fencepost.client.aio.admin import AsyncAdmin
from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.aio.consumer import AsyncConsumer, ConsumerRecord
from fencepost.client.aio.producer import AsyncProducer
from fencepost.client.aio.share_consumer import AsyncShareConsumer
from fencepost.client.consumer_core import ConsumerRebalanceListener
from fencepost.client.share_records import AcknowledgeType, ShareRecord

__all__ = [
    "AcknowledgeType",
    "AsyncAdmin",
    "AsyncCluster",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ShareRecord",
]
