"""Topics of the tests of answers, in few words."""

from __future__ import annotations

import uuid
from typing import Any, Protocol

from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.message import Request

from ..waiting import eventually


def fresh() -> str:
    """A name that no topic has had, without characters that could collide."""
    return f"answers{uuid.uuid4().hex[:12]}"


class Broker(Protocol):
    """A broker that answers requests: a connection to it, or one side of a comparison."""

    def request(self, message: Request[Any], /) -> Any:
        """The answer."""
        ...


def create(broker: Broker, topic: CreatableTopic) -> None:
    """Make a topic, and wait for its leaders."""
    (made,) = broker.request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics
    assert made.error_code == 0, made.error_message
    wait_for_leaders(broker, topic.name, topic.num_partitions)


def wait_for_leaders(broker: Broker, name: str, partitions: int = 1) -> None:
    """Kafka's brokers hear of a topic a moment after its creation was answered."""
    questions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(partitions)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=questions)]
    )

    def are_led() -> bool:
        (answered,) = broker.request(request).topics
        return not any(partition.error_code for partition in answered.partitions)

    eventually(are_led, f"{name} has leaders")


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: list[tuple[int, list[int]]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or []
        ],
    )
