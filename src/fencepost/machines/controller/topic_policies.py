"""What the configs in force say of topics, as far as the controller itself heeds them.

A topic's own config counts first, then that of the controller's node, then the one that all brokers
share, then the file. A value that cannot be read counts as the safe one.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import ConfigError
from fencepost.machines.controller.config import ControllerConfig
from fencepost.machines.controller.rules import RULES, ControllerRules
from fencepost.machines.image import ClusterImage, TopicImage

UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"


class PoliciesInForce:
    """`partitions.TopicPolicies` of one image; it remembers what it has looked up."""

    def __init__(
        self, image: ClusterImage, config: ControllerConfig, rules: ControllerRules = RULES
    ) -> None:
        self.rules: Final = rules
        self._image = image
        self._config = config
        self._unclean: dict[str, bool] = {}
        self._min_isr: dict[str, int] = {}

    def is_unclean_allowed(self, topic: str) -> bool:
        """Whether the topic would rather lose data than be without a leader."""
        if topic not in self._unclean:
            self._unclean[topic] = bool(self._in_force(topic, UNCLEAN, False))
        return self._unclean[topic]

    def min_isr(self, topic: TopicImage) -> int:
        """How many of its replicas have to be in sync: no more than partition 0 has now."""
        name = topic.name
        if name not in self._min_isr:
            asked = int(self._in_force(name, MIN_ISR, 1))
            replicas = len(topic.partitions[0].replicas) if topic.partitions else asked
            self._min_isr[name] = min(asked, replicas)
        return self._min_isr[name]

    def _in_force(self, topic: str, name: str, if_unreadable: Any) -> Any:
        image = self._image
        own_node = image.broker_configs(self._config.node_id)
        definition = TOPIC_CONFIGS[name]
        for configs in (image.topic_configs(topic), own_node, image.broker_configs()):
            text = configs.get(name)
            if text is not None:
                try:
                    return definition.parse(text)
                except ConfigError:
                    return if_unreadable
        return definition.from_broker(self._config.topic_defaults)
