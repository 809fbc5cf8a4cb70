"""What partition machines ask of the controller: other in-sync sets (KIP-497).

Theory of operation
-------------------
A broker has one AlterPartition request in flight, with all partitions that wanted something when it
was sent. What is asked for meanwhile waits for its answer and goes with the next. A partition has
one place in the queue: a later proposal of its machine replaces an earlier one, and one that the
machine has withdrawn when its turn comes is left out.

An answer goes to the machine together with what was asked, so that it can tell whether it still
asks for that. What becomes of errors:

| what came                                  | then                                               |
|--------------------------------------------|----------------------------------------------------|
| an answer for a partition, error or not    | its machine decides (`Partition`)                  |
| no answer for a partition                  | it is asked for again, after `RETRY_MS`            |
| STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_ | all are asked for again, with the broker epoch of  |
| FAILED or another error of the whole       | then, after `RETRY_MS`                             |
| no answer at all within `TIMEOUT_MS`       | the same: with the same leader and partition epochs|
|                                            | it is done once, if it was done already            |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from fencepost.machines.driver import Driver
from fencepost.machines.partition import AlterPartition, AlterPartitionAnswered
from fencepost.runtime.asks_controller import AsksController
from fencepost.runtime.ports import TimerQueue
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.api.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

TIMEOUT_MS: Final = 5_000
"""How long one request is tried before what is asked for is looked at again."""
RETRY_MS: Final = 50
MAX_PARTITIONS: Final = 1_000
"""In one request: the controller answers all of it in one turn."""


class AlterPartitions:
    """Takes partitions' requests to the controller and the answers back; see the module."""

    def __init__(
        self,
        driver: Driver,
        channel: AsksController,
        timers: TimerQueue,
        replicas: ReplicaManager,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._driver = driver
        self._channel = channel
        self._timers = timers
        self._replicas = replicas
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._unsent: dict[Hashable, AlterPartition] = {}
        self._in_flight: dict[Hashable, AlterPartition] = {}
        self._keys: dict[tuple[Uuid, int], Hashable] = {}  # of what is in flight
        self._is_held = False
        """Whether nothing is sent for now: an answer is being given out, or a pause observed."""

    def submit(self, key: Hashable, asked: AlterPartition) -> None:
        """Ask the controller on behalf of the partition that the driver knows as `key`.

        Asking again for what is under way changes nothing.
        """
        if self._in_flight.get(key) == asked:
            return
        self._unsent[key] = asked
        self._send()

    def _send(self) -> None:
        """Send what waits, unless a request is in flight."""
        if self._in_flight or self._is_held or not self._unsent:
            return
        request = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=[]
        )
        topics: dict[Uuid, TopicDataRequest] = {}
        while self._unsent and len(self._in_flight) < MAX_PARTITIONS:
            key = next(iter(self._unsent))
            asked = self._unsent.pop(key)
            hosted = self._hosted(key)
            if hosted is None or hosted.machine.proposal != asked:
                continue
            self._in_flight[key] = asked
            self._keys[hosted.topic_id, hosted.index] = key
            topic = topics.get(hosted.topic_id)
            if topic is None:
                topic = TopicDataRequest(
                    topic_id=hosted.topic_id, topic_name=hosted.topic, partitions=[]
                )
                topics[hosted.topic_id] = topic
                request.topics.append(topic)
            topic.partitions.append(self._partition(hosted, asked))
        if self._in_flight:
            self._channel.ask(
                request, self._answered, timeout_ms=TIMEOUT_MS, purpose="alter-partition"
            )

    def _hosted(self, key: Hashable) -> HostedPartition | None:
        topic, _, index = str(key).rpartition("-")
        hosted = self._replicas.get(topic, int(index))
        return None if isinstance(hosted, ErrorCode) else hosted

    def _partition(self, hosted: HostedPartition, asked: AlterPartition) -> PartitionDataRequest:
        return PartitionDataRequest(
            partition_index=hosted.index,
            leader_epoch=asked.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=member.broker_id,
                    broker_epoch=self._broker_epoch()
                    if member.broker_id == self._broker_id
                    else hosted.machine.epoch_to_ask_with(member),
                )
                for member in asked.new_isr
            ],
            leader_recovery_state=int(asked.recovery_state),
            partition_epoch=asked.partition_epoch,
        )

    # -- answers ---------------------------------------------------------------------------

    def _answered(self, error: ErrorCode, response: AlterPartitionResponse | None) -> None:
        asked, self._in_flight = self._in_flight, {}
        keys, self._keys = self._keys, {}
        self._is_held = True  # what the machines want next goes together
        is_answered = response is not None and response.error_code == 0
        if is_answered:
            assert response is not None
            for topic in response.topics:
                for part in topic.partitions:
                    key = keys.pop((topic.topic_id, part.partition_index), None)
                    if key is not None:
                        self._give(key, asked.pop(key), part)
        for key, left in asked.items():
            self._unsent.setdefault(key, left)
        if is_answered and not asked:
            self._go_on()
        else:
            self._timers.after(RETRY_MS, self._go_on)

    def _go_on(self) -> None:
        self._is_held = False
        self._send()

    def _give(self, key: Hashable, asked: AlterPartition, part: PartitionDataResponse) -> None:
        if part.error_code:
            answer = AlterPartitionAnswered(part.error_code, asked=asked)
        else:
            answer = AlterPartitionAnswered(
                0, part.leader_epoch, part.partition_epoch, tuple(part.isr), asked
            )
        self._driver.feed(key, answer)
