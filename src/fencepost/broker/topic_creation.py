"""Topics that come into being because somebody asked for them.

Metadata creates the topics clients ask for, FindCoordinator the one that groups live in. Both give
names; what a topic of that name looks like is decided here: the internal ones as their owner needs
them, all others by the broker's defaults. Ids and the place where placement begins are drawn here,
because the controller has no randomness.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fencepost.machines.controller import Controller, Decision
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
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

    `on_created` is told an error code per name; that a topic exists already is none.
    """
    wanted = [topic_as_needed(node.config, name) for name in dict.fromkeys(names)]
    request = CreateTopicsRequest(topics=wanted)

    def decide(controller: Controller) -> Decision:
        return controller.decide_create_topics(request, new_topic_ids(), placement_start())

    def on_reply(error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE:
            on_created({topic.name: error for topic in wanted})
        else:
            on_created(_outcomes(reply))

    node.controller.submit(decide, on_reply)


def _outcomes(reply: CreateTopicsResponse) -> dict[str, ErrorCode]:
    outcomes = {topic.name: ErrorCode(topic.error_code) for topic in reply.topics}
    return {
        name: ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code
        for name, code in outcomes.items()
    }
