"""Topics that come into being because somebody asked for them.

Metadata creates the topics clients ask for, FindCoordinator the one that groups live in. Both give
names; what a topic of that name looks like is decided here: the internal ones as their owner needs
them, all others by the broker's defaults. The request goes to the active controller, in this
process or another. Ids and the place where placement begins are drawn here, because the controller
has no randomness.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fencepost.broker.config_view import topic_entries
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.broker.config import BrokerConfig
    from fencepost.broker.node import Node

OnCreated = Callable[[dict[str, ErrorCode]], None]

OFFSETS_TOPIC = "__consumer_offsets"
_PLACEMENT_STARTS = 1 << 30
WITHOUT_CONFIGS = 4
"""The last version of CreateTopics whose answer is without the configs in force."""


def new_topic_ids() -> Iterator[Uuid]:
    """Ids no topic has had, without end."""
    while True:
        yield Uuid.random()


def placement_start() -> int:
    """Where to begin placing replicas, so that not every topic begins at the same broker."""
    return random.randrange(_PLACEMENT_STARTS)


def topic_as_needed(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic of that name as it is created when nobody says how."""
    if name != OFFSETS_TOPIC:
        return CreatableTopic(
            name=name,
            num_partitions=config.get("num.partitions"),
            replication_factor=config.get("default.replication.factor"),
        )
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.get("offsets.topic.segment.bytes")),
    }
    return CreatableTopic(
        name=name,
        num_partitions=config.get("offsets.topic.num.partitions"),
        replication_factor=config.get("offsets.topic.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def create_topics(node: Node, names: Iterable[str], on_created: OnCreated) -> None:
    """Have the topics created; call back, perhaps at once, when the metadata has them.

    `on_created` is told an error code per name; that a topic exists already is none. A controller
    in another process may have committed what this node's image does not have yet.
    """
    wanted = [topic_as_needed(node.config, name) for name in dict.fromkeys(names)]
    request = CreateTopicsRequest(topics=wanted)

    def on_reply(error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE:
            on_created({topic.name: error for topic in wanted})
        else:
            on_created(_outcomes(reply))

    node.channel.ask(request, on_reply, api_version=WITHOUT_CONFIGS, purpose="creation")


def _outcomes(reply: CreateTopicsResponse) -> dict[str, ErrorCode]:
    outcomes = {topic.name: ErrorCode(topic.error_code) for topic in reply.topics}
    return {
        name: ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code
        for name, code in outcomes.items()
    }


def fill_in_configs(
    config: BrokerConfig,
    image: ClusterImage,
    request: CreateTopicsRequest,
    reply: CreateTopicsResponse,
) -> None:
    """Tell the configs in force of the topics that were created (CreateTopics v5 and later)."""
    asked = {topic.name: topic for topic in request.topics}
    for result in reply.topics:
        if result.error_code == ErrorCode.NONE:
            result.configs = _configs(config, image, asked[result.name])


def _configs(
    config: BrokerConfig, image: ClusterImage, topic: CreatableTopic
) -> list[CreatableTopicConfigs]:
    own = {item.name: item.value for item in topic.configs if item.value is not None}
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
