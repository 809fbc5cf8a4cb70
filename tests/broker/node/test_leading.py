"""A real broker leads, and a broker that is a script follows: fetches, in-sync set, high watermark.

The script registers and sends heartbeats through the node's own way to the controller, and fetches
over its socket, as another broker does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.machines.image import apply_records, diff
from fencepost.wire.api import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    FetchRequest,
    ProduceRequest,
)
from fencepost.wire.api.broker_registration import Feature, Listener
from fencepost.wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.fetch import FetchPartition, FetchTopic, ReplicaState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import PartitionChangeRecord
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import batch, fetch, produce, produce_request

FOLLOWER = 2
LAG_MS = 300


class Follower:
    """Broker 2, by hand, on the topic that it makes: led by the node, with two replicas."""

    def __init__(self, running: RunningNode) -> None:
        self.running = running
        self.client = running.connect()
        self.incarnations = 0
        self.begin_again()
        self.topic = self.create_topic()
        eventually(lambda: self.state() is not None, "the node leads")

    def create_topic(self) -> Any:
        replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, FOLLOWER])
        topic = CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[replicas]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        (created,) = self.client.ask(request, 7).topics
        assert created.error_code == 0, created.error_message
        return created

    def ask(self, request: Message) -> Any:
        """Ask the active controller."""

        async def asked() -> Any:
            answer = asyncio.get_running_loop().create_future()
            self.running.node.channel.ask(
                request, lambda error, reply: answer.set_result(reply or error)
            )
            return await answer

        return self.running.call(asked)

    def register(self, broker_id: int = FOLLOWER) -> int:
        """Register another incarnation of a broker, which is fenced; its broker epoch."""
        self.incarnations += 1
        own = self.running.node.image.brokers[1]
        answer = self.ask(
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=self.running.node.cluster_id,
                incarnation_id=Uuid((9_000 + self.incarnations).to_bytes(16, "big")),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=1)],
                features=[
                    Feature(
                        name=one.name,
                        min_supported_version=one.min_level,
                        max_supported_version=one.max_level,
                    )
                    for one in own.features
                ],
                log_dirs=[Uuid((8_000 + broker_id).to_bytes(16, "big"))],
            )
        )
        assert answer.error_code == 0, answer
        broker_epoch: int = answer.broker_epoch
        return broker_epoch

    def begin_again(self) -> None:
        """Come as another incarnation, which is unfenced."""
        self.broker_epoch = self.register()
        eventually(lambda: not self.beat().is_fenced, "the follower is unfenced")

    def beat(self, **wants: bool) -> Any:
        image = self.running.node.image
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id=FOLLOWER,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=image.offset,
                **wants,
            )
        )

    def fetch(self, offset: int, **asked: Any) -> Any:
        """Fetch, and hear of the one partition."""
        response = self.client.ask(self.request(offset, **asked), 18)
        (topic,) = response.responses
        (part,) = topic.partitions
        return part

    def request(
        self, offset: int | None, session: tuple[int, int] = (0, -1), **asked: Any
    ) -> FetchRequest:
        """A fetch at the offset; None names no partition."""
        return FetchRequest(
            session_id=session[0],
            session_epoch=session[1],
            replica_state=ReplicaState(
                replica_id=FOLLOWER, replica_epoch=asked.pop("broker_epoch", self.broker_epoch)
            ),
            max_wait_ms=asked.pop("max_wait_ms", 0),
            min_bytes=1,
            topics=[]
            if offset is None
            else [
                FetchTopic(
                    topic_id=self.topic.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=offset,
                            partition_max_bytes=1 << 20,
                            **{
                                "current_leader_epoch": self.state().leader_epoch,
                                "log_start_offset": 0,
                                **asked,
                            },
                        )
                    ],
                )
            ],
        )

    def state(self) -> Any:
        """The partition as the cluster's metadata have it, once the node leads it."""
        hosted = self.running.node.broker.replicas.get(self.topic.name, 0)
        if isinstance(hosted, ErrorCode) or not hosted.machine.is_leader:
            return None
        return self.running.node.image.topics_by_name[self.topic.name].partitions[0]

    @property
    def isr(self) -> set[int]:
        return set(self.state().isr)


@pytest.fixture
def start(
    node_factory: Callable[..., RunningNode],
) -> Iterator[Callable[..., Follower]]:
    followers: list[Follower] = []

    def made(**config: Any) -> Follower:
        running = node_factory(**{"broker.session.timeout.ms": 3_600_000, **config})
        followers.append(Follower(running))
        return followers[-1]

    yield made
    for one in followers:
        one.beat(want_fence=True)  # or a node that stops waits for it
        one.client.close()


def test_acks_all_waits_for_the_follower(start: Callable[..., Follower]) -> None:
    follower = start()
    assert follower.isr == {1, FOLLOWER}
    with follower.running.connect() as producer:
        producer.send(produce_request(follower.topic, batch(b"a")), 9)
        part = eventually(lambda: follower.fetch(0, max_wait_ms=100), "an answer")
        while not part.records:
            part = follower.fetch(0, max_wait_ms=100)
        assert part.high_watermark == 0
        eventually(lambda: follower.fetch(1).high_watermark == 1, "both have it on their disks")
        _, answer = producer.receive(ProduceRequest.api_key, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_silent_follower_leaves_and_comes_back(start: Callable[..., Follower]) -> None:
    """AlterPartition end to end; an incarnation that is not the registered one does not count."""
    follower = start(**{"replica.lag.time.max.ms": LAG_MS, "replica.fetch.wait.max.ms": 100})
    produce(follower.client, follower.topic, batch(b"a"), acks=1)
    eventually(lambda: follower.isr == {1}, "the follower is dropped")
    hosted = follower.running.node.broker.replicas.get(follower.topic.name, 0)
    eventually(lambda: hosted.machine.high_watermark == 1, "the leader goes on alone")
    assert produce(follower.client, follower.topic, batch(b"b")).error_code == 0
    zombie = follower.broker_epoch
    follower.beat(want_shut_down=True)
    follower.begin_again()
    refused = follower.fetch(2, broker_epoch=zombie)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower.isr == {1}
    assert follower.fetch(1).error_code == 0
    assert follower.fetch(2).error_code == 0
    eventually(lambda: follower.isr == {1, FOLLOWER}, "the follower is in sync again")
    changes = hosted.machine.isr_changes
    assert (changes.shrinks, changes.expands) == (1, 1)


def test_deleted_records_wait_for_the_follower(start: Callable[..., Follower]) -> None:
    follower = start()
    sent = produce_request(follower.topic, batch(b"a", b"b"), acks=1)
    follower.client.ask(sent, 9)
    eventually(lambda: follower.fetch(2, log_start_offset=0).error_code == 0, "it has all")
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=follower.topic.name,
                partitions=[DeleteRecordsPartition(partition_index=0, offset=1)],
            )
        ],
        timeout_ms=60_000,
    )
    with follower.running.connect() as admin:
        admin.send(request, 2)
        eventually(lambda: follower.fetch(2).log_start_offset == 1, "the leader has deleted")
        assert follower.fetch(2, log_start_offset=1).error_code == 0
        (topic,) = admin.receive(DeleteRecordsRequest.api_key, 2)[1].topics
        assert [(p.error_code, p.low_watermark) for p in topic.partitions] == [(0, 1)]


def test_a_fenced_follower_is_not_waited_for(start: Callable[..., Follower]) -> None:
    follower = start()
    with follower.running.connect() as producer:
        producer.send(produce_request(follower.topic, batch(b"a")), 9)
        eventually(lambda: follower.fetch(0).records, "the record is in the log")
        follower.beat(want_fence=True)
        _, answer = producer.receive(ProduceRequest.api_key, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert follower.isr == {1}
    (part,) = fetch(follower.client, follower.topic, 0)
    assert part.high_watermark == 1


@pytest.mark.parametrize("what", ["brokers", "partition"])
def test_a_quiet_follower_is_looked_at_when_the_metadata_change(
    start: Callable[..., Follower], what: str
) -> None:
    follower = start()
    node = follower.running.node
    session_id = follower.client.ask(follower.request(0, (0, 0)), 18).session_id
    for epoch in (1, 2):
        answer = follower.client.ask(follower.request(None, (session_id, epoch)), 18)
        assert (answer.error_code, answer.responses) == (0, [])
    assert follower.running.call(lambda: len(node.broker.fetches._quiet)) == 1
    if what == "brokers":
        follower.register(3)
    else:
        image = node.image
        topic = image.topics_by_name[follower.topic.name]
        record = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, isr=[FOLLOWER, 1])
        changed = apply_records(image, [record], image.offset)
        follower.running.call(lambda: node.broker.replicas.apply(changed, diff(image, changed)))
    eventually(lambda: len(node.broker.fetches._quiet) == 0, "it is looked at again")
