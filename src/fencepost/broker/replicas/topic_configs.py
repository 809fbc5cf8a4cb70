"""The configs in force for the topics of this broker's partitions."""

from __future__ import annotations

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.view import topic_log_config
from fencepost.machines.image import ClusterImage
from fencepost.runtime.replicas import TopicConfig, TopicConfigs, partition_config


def topic_configs_under(config: BrokerConfig, image: ClusterImage) -> TopicConfigs:
    """The configs in force under one image, made once for all topics that set the same.

    So a thousand topics that are created together, and set nothing, share theirs. A topic's are
    this broker's own if they do not go together: the controller checks them, but not against those
    of every broker.
    """
    of_topics: dict[str, TopicConfig] = {}
    made: dict[frozenset[tuple[str, str]], TopicConfig] = {}

    def of(topic: str) -> TopicConfig:
        known = of_topics.get(topic)
        if known is None:
            own = frozenset(image.topic_configs(topic).items())
            known = made.get(own)
            if known is None:
                known = made[own] = _make(config, image, topic)
            of_topics[topic] = known
        return known

    return of


def _make(config: BrokerConfig, image: ClusterImage, topic: str) -> TopicConfig:
    found = topic_log_config(config, image, topic)
    return TopicConfig(found, partition_config(found, config.get("replica.lag.time.max.ms")))
