"""Automatic topic creation: topics that are created because a client asked for them.

Metadata creates the topics clients ask for, FindCoordinator those that groups and transactional
ids live in. Both give names; what a topic of that name looks like is decided here: the internal
ones as their owner needs them, all others by the broker's defaults. The request goes to the active
controller, in this process or another. Ids and the place where placement begins are drawn here,
because the controller has no randomness.

As in Kafka (`AutoTopicCreationManager`) the request does not wait for the controller: the client is
answered that the topic is unknown, and finds it when it asks again. A topic is asked for once at a
time, however many clients want it. What the controller refuses is logged and reported to no client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.view import topic_entries
from fencepost.machines.image import ClusterImage
from fencepost.runtime.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

LOGGED_EVERY_MS: Final = 10_000
IN_FLIGHT_MAX: Final = 1_000
"""Topics that are being created at a time; what is asked for beyond them is to be asked for again.
"""
AS_CONTROLLER_SAYS: Final = -1
"""In place of a number of partitions or replicas (KIP-464)."""
WITHOUT_CONFIGS = 4
"""The last version of CreateTopics whose answer is without the configs in force."""


def topic_as_needed(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic of that name as it is created automatically."""
    get = config.get
    if name == OFFSETS_TOPIC:
        return _internal(
            name,
            get("offsets.topic.num.partitions"),
            get("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(get("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return _internal(
            name,
            get("transaction.state.log.num.partitions"),
            get("transaction.state.log.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(get("transaction.state.log.min.isr")),
                "segment.bytes": str(get("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_STATE_TOPIC:
        return _internal(
            name,
            get("share.coordinator.state.topic.num.partitions"),
            get("share.coordinator.state.topic.replication.factor"),
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(get("share.coordinator.state.topic.min.isr")),
                "retention.ms": "-1",
                "segment.bytes": str(get("share.coordinator.state.topic.segment.bytes")),
            },
        )
    # What this broker's file does not say, the controller's may.
    return CreatableTopic(
        name=name,
        num_partitions=_if_set(config, "num.partitions"),
        replication_factor=_if_set(config, "default.replication.factor"),
    )


def _if_set(config: BrokerConfig, key: str) -> int:
    """The value that was set, or what asks the controller for its own."""
    return int(config.get(key)) if config.is_set(key) else AS_CONTROLLER_SAYS


def _internal(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


class AutoTopicCreation:
    """Asks the active controller for topics, each once at a time."""

    def __init__(
        self, config: BrokerConfig, channel: ControllerChannel, now_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._channel = channel
        self._now_ms = now_ms
        self._in_flight: set[str] = set()
        self._logged_at_ms: int | None = None

    def create(self, names: Iterable[str]) -> None:
        """Have those of the topics created that are not being created already.

        The names must be valid. Returns at once: the image has the topics once it has.
        """
        wanted = []
        for name in names:
            if len(self._in_flight) >= IN_FLIGHT_MAX:
                break
            if name not in self._in_flight:
                self._in_flight.add(name)
                wanted.append(topic_as_needed(self._config, name))
        if not wanted:
            return

        def on_reply(error: ErrorCode, reply: CreateTopicsResponse | None) -> None:
            self._in_flight.difference_update(topic.name for topic in wanted)
            if reply is None:
                self._log(wanted, error.name)
                return
            fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            refused = [topic for topic in reply.topics if topic.error_code not in fine]
            if refused:
                first = refused[0]
                self._log(refused, f"{ErrorCode(first.error_code).name}, {first.error_message}")

        request = CreateTopicsRequest(topics=wanted)
        self._channel.ask(request, on_reply, api_version=WITHOUT_CONFIGS, purpose="creation")

    def _log(self, topics: Sequence[CreatableTopic | CreatableTopicResult], reason: str) -> None:
        """Say why topics were not created; clients ask again and again, so not every time."""
        now_ms = self._now_ms()
        if self._logged_at_ms is not None and now_ms - self._logged_at_ms < LOGGED_EVERY_MS:
            return
        self._logged_at_ms = now_ms
        more = f" and {len(topics) - 1} more topics" if len(topics) > 1 else ""
        log.warning("automatic creation of %s%s failed: %s", topics[0].name, more, reason)


def fill_in_configs(
    config: BrokerConfig,
    image: ClusterImage,
    request: CreateTopicsRequest,
    reply: CreateTopicsResponse,
) -> None:
    """Tell the configs in force of the topics that were created (CreateTopics v5 and later).

    Topics that set the same are told the same list.
    """
    asked = {topic.name: topic for topic in request.topics}
    told: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
    for result in reply.topics:
        if result.error_code == ErrorCode.NONE:
            given = asked[result.name].configs
            own = tuple((item.name, item.value) for item in given if item.value is not None)
            if own not in told:
                told[own] = _configs(config, image, dict(own))
            result.configs = told[own]


def _configs(
    config: BrokerConfig, image: ClusterImage, own: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    """Of a topic that sets `own`."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.text,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_entries(config, image, own)
    ]
