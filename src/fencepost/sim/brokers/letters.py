"""Dead letters of a simulated broker (KIP-1191): where they go, and that the observer sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.image import TopicImage
from fencepost.machines.share.inputs import LetterRange
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.dead_letters import DeadLetters, OnEnded
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import LogReads
from fencepost.sim.brokers.observed_requests import is_deposed
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.share_oracle import Letters
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode

CONFIG: Final = "errors.deadletterqueue.group.enable"
BY_TOPIC_ID: Final = (13, 13)
TIMEOUT_MS: Final = 4_000


class SimLetterBox:
    """See the module; a `runtime.dead_letters.LetterBox`."""

    may_create = True
    prefix = "dlq."

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def takes_letters(self, topic: str) -> bool:
        """The topic's `errors.deadletterqueue.group.enable`."""
        return self._broker.image.topic_configs(topic).get(CONFIG) == "true"

    def max_batch_bytes(self, topic: str) -> int:
        """The topic's `max.message.bytes`."""
        return 1 << 20

    def create(self, topic: str, done: OnEnded) -> None:
        """Ask for the topic; whether it comes the metadata say."""
        workload = self._broker.world.workload
        workload.create_internal_topic(topic, 2, {CONFIG: "true"})
        done(ErrorCode.NONE)

    def write(self, topic: TopicImage, partition: int, batch: bytearray, done: OnEnded) -> None:
        """Append the batch on all in-sync replicas of the partition."""
        data = PartitionProduceData(index=partition, records=batch)
        named = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[named])
        leader = topic.partitions[partition].leader
        if leader < 0:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
            return

        def answered(response: Any, is_refused: bool) -> None:
            if response is None:
                done(ErrorCode.NETWORK_EXCEPTION)
            else:
                done(ErrorCode(response.responses[0].partition_responses[0].error_code))

        self._broker.world.network.request(self._broker, leader, request, answered, BY_TOPIC_ID)


class ObservedDeadLetters(DeadLetters):
    """The product's, and the observer is shown what they are about."""

    def __init__(self, broker: BrokerProcess, reads: LogReads) -> None:
        lane = broker.ports.scheduler.lane()
        box = SimLetterBox(broker)
        super().__init__(broker.timers, broker.clocks, lane, reads, lambda: broker.image, box)
        self._broker = broker

    def send(
        self,
        key: SharePartitionKey,
        hosted: HostedPartition,
        letters: LetterRange,
        settings: ShareSettings,
        done: Callable[[], None],
    ) -> None:
        shown = Letters(
            key, letters.first, letters.last, is_deposed(self._broker, hosted, key.partition)
        )
        self._broker.world.observer.letters_sent(self._broker.id, shown)
        super().send(key, hosted, letters, settings, done)
