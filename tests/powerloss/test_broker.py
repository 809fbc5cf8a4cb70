"""A served broker under power cuts: what it acknowledged and what it served is there afterwards.

An idempotent producer with five batches in flight, a reader behind it, commits of a group's
offsets and new topics; then the power fails. After the next start the producer sends what was not
acknowledged once more, and in the end every value is there once, in order.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import pytest

from fencepost.batch.records import read_records
from fencepost.testing import Cluster
from fencepost.wire.api import (
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData

from ..broker.hostile import connect, eventually
from ..broker.listener_fixtures import Client
from ..broker.storage.test_bad_disks import batch, create
from .conftest import Tally
from .filesystem import Filesystem

pytestmark = pytest.mark.timeout(3600)  # as many cycles as were asked for

TOPIC: Final = "kept"
GROUP: Final = "readers"
IN_FLIGHT: Final = 5


@dataclass
class Clients:
    """Everybody who works with the broker, and what they were told."""

    random: random.Random
    producer_id: int = -1
    next_sequence: int = 0
    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Sequence and value of what was sent and is not acknowledged."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Values by offset."""
    served: dict[int, bytes] = field(default_factory=dict)
    committed: int = -1
    tried_commit: int = -1
    topics: list[str] = field(default_factory=list)

    def start(self, client: Client) -> None:
        """Learn the producer id."""
        create(client, TOPIC)
        answer = client.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert answer.error_code == 0
        self.producer_id = answer.producer_id

    def send(self, client: Client, sequence: int, value: bytes) -> None:
        """Send a batch of one record, with acks=1 and acks=all by turns of thirty."""
        kinds = {"producer_id": self.producer_id, "producer_epoch": 0, "base_sequence": sequence}
        data = PartitionProduceData(index=0, records=batch(value, **kinds))
        named = TopicProduceData(name=TOPIC, partition_data=[data])
        acks = -1 if sequence // 30 % 2 else 1
        client.send(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[named]), 9)

    def take_acknowledgement(self, client: Client) -> None:
        """The answer to the batch that has waited longest."""
        _, answer = client.receive(0, 9)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code == 0
        _, value = self.waiting.popleft()
        self.acknowledged[part.base_offset] = value

    def produce(self, client: Client, count: int) -> None:
        """Some batches one behind the other, and their answers; ConnectionError amid it."""
        for _ in range(count):
            value = b"%d-" % self.next_sequence + b"v" * self.random.randrange(6000)
            self.waiting.append((self.next_sequence, value))
            self.send(client, self.next_sequence, value)
            self.next_sequence += 1
            if len(self.waiting) == IN_FLIGHT:
                self.take_acknowledgement(client)

    def settle(self, client: Client) -> None:
        """Send again what was not acknowledged, and wait for everything."""
        for sequence, value in self.waiting:
            self.send(client, sequence, value)
        while self.waiting:
            self.take_acknowledgement(client)

    def read(self, client: Client, offset: int) -> None:
        """Read from `offset` to the end, and remember; what was served once is served again."""
        while True:
            part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            named = [FetchTopic(topic=TOPIC, partitions=[part])]
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=named)
            answer = client.ask(request, 12).responses[0].partitions[0]
            assert answer.error_code == 0
            records = [one for one in read_records(answer.records) if one.offset >= offset]
            if not records:
                return
            for one in records:
                assert self.served.setdefault(one.offset, one.value) == one.value
            offset = records[-1].offset + 1

    def commit(self, client: Client) -> None:
        """Commit how far was read."""
        self.tried_commit = max(self.served, default=-1) + 1
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.tried_commit, committed_metadata=""
        )
        named = [OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=named), 8)
        if answer.topics[0].partitions[0].error_code == 0:
            self.committed = self.tried_commit

    def make_topic(self, client: Client) -> None:
        """A new topic, which must be there from then on."""
        name = f"new-{len(self.topics)}"
        create(client, name)
        self.topics.append(name)

    def check(self, client: Client) -> None:
        """All that they were told still holds."""
        seen = dict(self.served)
        self.served.clear()
        self.read(client, 0)
        for offset, value in {**seen, **self.acknowledged}.items():
            assert self.served.get(offset) == value, f"offset {offset}"
        assert sorted(self.served) == list(range(len(self.served)))
        names = [MetadataRequestTopic(name=name) for name in self.topics]
        answer = client.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        assert [topic.error_code for topic in answer.topics] == [0] * len(names)
        if self.committed >= 0:
            eventually(lambda: fetched_commit(client) is not None, "the group is loaded")
            assert fetched_commit(client) in (self.committed, self.tried_commit)


def fetched_commit(client: Client) -> int | None:
    """The group's committed offset; None while its coordinator is not there yet."""
    answer = client.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    if answer.error_code:
        return None
    found = [part.committed_offset for topic in answer.topics for part in topic.partitions]
    return found[0] if found else -1


def work_until_cut(cluster: Cluster, filesystem: Filesystem, clients: Clients) -> None:
    """Work for a while; the power fails with batches in flight, and what had arrived counts."""
    with connect(cluster) as sending, connect(cluster) as reading:
        for _ in range(clients.random.randrange(1, 8)):
            clients.produce(sending, clients.random.randrange(1, 40))
            offset = clients.random.randrange(len(clients.served) + 1)
            clients.read(reading, offset)
            if clients.random.random() < 0.3:
                clients.commit(reading)
            if clients.random.random() < 0.2:
                clients.make_topic(reading)
        clients.produce(sending, clients.random.randrange(IN_FLIGHT))
        os.kill(cluster.pid, signal.SIGKILL)
        filesystem.cut_power()
        with contextlib.suppress(EOFError, ConnectionError):
            while clients.waiting:
                clients.take_acknowledgement(sending)
    cluster.kill()


def test_a_broker_loses_nothing_that_it_acknowledged_or_served(
    filesystem: Filesystem, tally: Tally, cycles: int
):
    clients = Clients(random.Random(filesystem.kind))
    cluster = Cluster(
        faults=False,
        data_dir=filesystem.path / "data",
        offsets_topic_num_partitions=1,
        log_segment_bytes=1 << 20,
        log_flush_offset_checkpoint_interval_ms=200,
    )
    with contextlib.closing(cluster):
        cluster.start()
        with connect(cluster) as client:
            clients.start(client)
        for number in range(max(2, cycles // 20)):
            work_until_cut(cluster, filesystem, clients)
            filesystem.come_back()
            cluster.start()
            tally.cycles += 1
            tally.unsynced += len(clients.waiting)
            with connect(cluster) as client:
                try:
                    clients.check(client)
                except AssertionError as error:
                    error.add_note(f"{filesystem.kind}, cycle {number}\n{cluster.log_text[-3000:]}")
                    raise
                tally.unsynced_lost += clients.next_sequence - len(clients.served)
                clients.settle(client)
                clients.read(client, len(clients.served))
        tally.acknowledged = len(clients.acknowledged)
        values = [clients.served[offset].split(b"-")[0] for offset in sorted(clients.served)]
        assert values == [b"%d" % number for number in range(clients.next_sequence)]
        assert "Traceback" not in cluster.log_text
        cluster.stop()


def test_a_broker_that_does_not_sync_is_found_out(filesystem: Filesystem):
    """Kafka's own way, acknowledging from the page cache: the same check must find losses."""
    clients = Clients(random.Random(filesystem.kind))
    cluster = Cluster(
        faults=False,
        data_dir=filesystem.path / "data",
        offsets_topic_num_partitions=1,
        config={"log.flush.before.ack": False},
    )
    with contextlib.closing(cluster):
        cluster.start()
        with connect(cluster) as client:
            clients.start(client)
        work_until_cut(cluster, filesystem, clients)
        filesystem.come_back()
        cluster.start()
        with connect(cluster) as client, pytest.raises(AssertionError):
            clients.check(client)
        cluster.stop()
