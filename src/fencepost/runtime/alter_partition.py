"""What partition machines ask of the controller: other in-sync sets (KIP-497).

A machine's `AlterPartition` becomes a request to the active controller, in this process or another,
and the answer an input of the machine. A machine asks again by its own timer when no answer comes
or the answer says "later".

With one broker in the cluster the only such request is the one that ends the recovery after an
unclean election (KIP-704), as a directory that Kafka wrote may call for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from fencepost.machines.driver import Driver
from fencepost.machines.partition import AlterPartition, AlterPartitionAnswered
from fencepost.runtime.replicas import ReplicaManager
from fencepost.wire.api.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

TIMEOUT_MS = 5_000
"""How long a request is tried; the partition then looks again whether it still wants the same."""


class ControllerPort(Protocol):
    """The way to the active controller."""

    def ask(
        self,
        request: Message,
        on_reply: Callable[[ErrorCode, Any], None],
        *,
        timeout_ms: int,
        purpose: str,
    ) -> None:
        """Ask; `on_reply` hears (NONE, the response) or (why there is none, None)."""
        ...


class AlterPartitions:
    """Takes partitions' requests to the controller and the answers back."""

    def __init__(
        self,
        driver: Driver,
        channel: ControllerPort,
        replicas: ReplicaManager,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._driver = driver
        self._channel = channel
        self._replicas = replicas
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    def submit(self, key: Hashable, asked: AlterPartition) -> None:
        """Ask the controller on behalf of the partition that the driver knows as `key`."""
        topic, _, index = str(key).rpartition("-")
        hosted = self._replicas.get(topic, int(index))
        if isinstance(hosted, ErrorCode):
            return
        partition = PartitionDataRequest(
            partition_index=hosted.index,
            leader_epoch=asked.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=replica.broker_id, broker_epoch=replica.broker_epoch)
                for replica in asked.new_isr
            ],
            leader_recovery_state=int(asked.recovery_state),
            partition_epoch=asked.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=[TopicDataRequest(topic_id=hosted.topic_id, partitions=[partition])],
        )

        def on_reply(error: ErrorCode, response: AlterPartitionResponse | None) -> None:
            self._driver.feed(key, _answer(error, response))

        self._channel.ask(request, on_reply, timeout_ms=TIMEOUT_MS, purpose="partitions")


def _answer(error: ErrorCode, response: AlterPartitionResponse | None) -> AlterPartitionAnswered:
    """The machine's input for the controller's answer about its one partition."""
    if response is None:
        return AlterPartitionAnswered(int(error))
    if response.error_code:
        return AlterPartitionAnswered(response.error_code)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        return AlterPartitionAnswered(answer.error_code)
    return AlterPartitionAnswered(0, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))
