"""The configs in force for the topics of this broker's partitions."""

from __future__ import annotations

import logging

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.view import topic_log_config
from fencepost.log.configdef import ConfigError
from fencepost.machines.image import ClusterImage
from fencepost.runtime.replicas import TopicConfig, TopicConfigs, partition_config

log = logging.getLogger(__name__)


def topic_configs_under(config: BrokerConfig, image: ClusterImage) -> TopicConfigs:
    """The configs in force under one image, each topic's made once.

    A topic's are this broker's own if they do not go together: the controller checks them, but not
    against those of every broker.
    """
    made: dict[str, TopicConfig] = {}

    def of(topic: str) -> TopicConfig:
        known = made.get(topic)
        if known is None:
            try:
                found = topic_log_config(config, image, topic)
            except ConfigError as error:
                log.error("the configs of %s are not applied: %s", topic, error)
                found = config.log_config({})
            known = made[topic] = TopicConfig(
                found, partition_config(found, config.get("replica.lag.time.max.ms"))
            )
        return known

    return of
