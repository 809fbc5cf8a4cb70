"""`BrokerLetterBox`: topics for dead letters, and writes to them, here or on other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.batch.record_batch import RecordBatch
from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.config.view import topic_log_config
from fencepost.client.protocol.versions import VersionRange
from fencepost.log.config import LogConfig
from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.machines.partition import Produce, ProduceResult
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import ReplicaManager
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode, known_error

OnEnded = Callable[[ErrorCode], None]

AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
WRITE_TIMEOUT_MS: Final = 30_000
BY_TOPIC_ID: Final = VersionRange(13, 13)
"""Produce by the topic's id."""
CREATION_VERSION: Final = 4
"""The last version of CreateTopics whose answer is without the configs in force."""
PURPOSE: Final = "dead-letters"
CONFIGS: Final = {
    "errors.deadletterqueue.group.enable": "true",
    "message.timestamp.type": "CreateTime",
}
"""Of a topic that is created for letters."""


class BrokerLetterBox:
    """See the module; a `runtime.dead_letters.LetterBox`."""

    def __init__(
        self,
        config: BrokerConfig,
        settings: Settings,
        ports: MachinePorts,
        image: Callable[[], ClusterImage],
        replicas: ReplicaManager,
        controller: ControllerChannel,
        brokers: BrokerChannel,
    ) -> None:
        self._config = config
        self._settings = settings
        self._ports = ports
        self._image = image
        self._replicas = replicas
        self._controller = controller
        self._brokers = brokers

    @property
    def may_create(self) -> bool:
        """`errors.deadletterqueue.auto.create.topics.enable`."""
        return bool(self._settings.get(AUTO_CREATE))

    @property
    def prefix(self) -> str:
        """`errors.deadletterqueue.topic.name.prefix`."""
        return str(self._settings.get(PREFIX))

    def takes_letters(self, topic: str) -> bool:
        """The topic's `errors.deadletterqueue.group.enable`."""
        return self._log_config(topic).errors_deadletterqueue_group_enable

    def max_batch_bytes(self, topic: str) -> int:
        """The topic's `max.message.bytes`."""
        return self._log_config(topic).max_message_bytes

    def _log_config(self, topic: str) -> LogConfig:
        return topic_log_config(self._config, self._image(), topic)

    def create(self, topic: str, done: OnEnded) -> None:
        """Create the topic as the controller creates topics by default, for letters."""
        configs = [CreatableTopicConfig(name=key, value=text) for key, text in CONFIGS.items()]
        wanted = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, configs=configs
        )

        def on_reply(error: ErrorCode, reply: CreateTopicsResponse | None) -> None:
            done(error if reply is None else known_error(reply.topics[0].error_code))

        request = CreateTopicsRequest(topics=[wanted])
        self._controller.ask(request, on_reply, api_version=CREATION_VERSION, purpose="creation")

    def write(self, topic: TopicImage, partition: int, batch: bytearray, done: OnEnded) -> None:
        """Append the batch on all in-sync replicas of the partition."""
        leader = topic.partitions[partition].leader
        if leader == self._config.node_id:
            self._write_here(topic, partition, batch, done)
        elif leader < 0:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._write_there(leader, topic, partition, batch, done)

    def _write_here(
        self, topic: TopicImage, partition: int, batch: bytearray, done: OnEnded
    ) -> None:
        hosted = self._replicas.by_id(topic.topic_id, partition)
        if isinstance(hosted, ErrorCode):
            done(hosted)
            return

        def answered(result: ProduceResult) -> None:
            done(result.error_code)

        deadline_ms = self._ports.now_ms() + WRITE_TIMEOUT_MS
        produce = Produce(RecordBatch.parse(batch), -1, answered, deadline_ms)
        self._ports.driver.feed(hosted.key, produce)

    def _write_there(
        self, leader: int, topic: TopicImage, partition: int, batch: bytearray, done: OnEnded
    ) -> None:
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=WRITE_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=[data])],
        )

        def on_response(response: Any) -> None:
            row = response.responses[0].partition_responses[0]
            done(known_error(row.error_code))

        self._brokers.ask(
            leader,
            request,
            on_response,
            lambda reason: done(ErrorCode.NETWORK_EXCEPTION),
            purpose=PURPOSE,
            versions=BY_TOPIC_ID,
        )
