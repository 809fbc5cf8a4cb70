"""A controller at work in memory: decisions are applied as the broker's shell applies them.

Records go through their encoding on the way to `apply`, and into `log`; `replayed` is the image
that another node would make of that log.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from fencepost.machines.controller import Controller, ControllerConfig, Decision
from fencepost.machines.controller.rules import RULES, ControllerRules
from fencepost.machines.image import ClusterImage, PartitionImage, TopicImage, apply_records
from fencepost.machines.image.records import record_value
from fencepost.wire.api.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import decode_record
from fencepost.wire.types import Uuid

CLUSTER_ID = "cluster"
SESSION_MS = 9_000


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


class Bench:
    """A controller, its log, and shorthand for requests."""

    def __init__(
        self,
        rules: ControllerRules = RULES,
        controller_class: type[Controller] = Controller,
        **config: Any,
    ) -> None:
        self.config = ControllerConfig(CLUSTER_ID, broker_session_timeout_ms=SESSION_MS, **config)
        self.now_ms = 1_000
        self.log: list[Message] = []
        self.ids = (uuid(10_000 + n) for n in count())
        self._rules = rules
        self._class = controller_class
        self.controller = self._made_of(ClusterImage())
        self.do(self.controller.decide_take_over())

    def _made_of(self, image: ClusterImage) -> Controller:
        return self._class.from_image(image, self.config, self.now_ms, self._rules)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def do(self, decision: Decision) -> Any:
        """Write and apply a decision; its reply."""
        self.apply(self.written(decision))
        return decision.reply

    def written(self, decision: Decision) -> list[Message]:
        """A decision's records as they are read back from a log."""
        return [decode_record(record_value(one, self.image)) for one in decision.records]

    def apply(self, records: list[Message]) -> None:
        self.controller.apply_all(records, len(self.log))
        self.log += records

    def replayed(self) -> ClusterImage:
        """The image of the log, applied record by record."""
        image = ClusterImage()
        for offset, record in enumerate(self.log):
            image = apply_records(image, [record], offset)
        return image

    def fail_over(self) -> None:
        """Another controller takes over at the end of the log."""
        self.controller = self._made_of(self.replayed())

    # -- brokers -------------------------------------------------------------------------------

    def registration(self, broker_id: int, life: int = 1, **changes: Any) -> Any:
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid(1_000 * life + broker_id),
            "listeners": [Listener(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
            "features": [
                Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)
            ],
            "rack": None,
            "log_dirs": [uuid(500 + broker_id)],
            **changes,
        }
        return BrokerRegistrationRequest(**values)

    def register(self, broker_id: int, life: int = 1, **changes: Any) -> BrokerRegistrationResponse:
        request = self.registration(broker_id, life, **changes)
        reply: BrokerRegistrationResponse = self.do(
            self.controller.decide_register_broker(request, self.now_ms)
        )
        return reply

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        values: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": self.image.brokers[broker_id].epoch,
            "current_metadata_offset": len(self.log) - 1,
            **changes,
        }
        reply: BrokerHeartbeatResponse = self.do(
            self.controller.decide_broker_heartbeat(BrokerHeartbeatRequest(**values), self.now_ms)
        )
        return reply

    def brokers(self, *broker_ids: int, **changes: Any) -> None:
        """Register brokers and unfence them."""
        for broker_id in broker_ids:
            assert self.register(broker_id, **changes).error_code == 0
            assert self.heartbeat(broker_id).is_fenced is False

    def fence(self, broker_id: int) -> None:
        self.heartbeat(broker_id, want_fence=True)

    # -- topics --------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        assignments: list[tuple[int, list[int]]] | None = None,
        configs: dict[str, str | None] | None = None,
        start: int = 0,
        validate_only: bool = False,
    ) -> CreatableTopicResult:
        request = CreateTopicsRequest(
            topics=[topic(name, partitions, factor, assignments, configs)],
            validate_only=validate_only,
        )
        reply = self.do(self.controller.decide_create_topics(request, self.ids, start))
        [result] = reply.topics
        assert isinstance(result, CreatableTopicResult)
        return result

    def topic(self, name: str) -> TopicImage:
        return self.image.topics_by_name[name]

    def partition(self, name: str, index: int = 0) -> PartitionImage:
        return self.topic(name).partitions[index]

    def alter_partition(self, name: str, isr: list[tuple[int, int]], **changes: Any) -> Any:
        """Ask for an ISR of (broker, broker epoch) as the leader would; the partition's answer."""
        return self.alter_partition_at(name, 0, isr, **changes)

    def alter_partition_at(
        self, name: str, index: int, isr: list[tuple[int, int]], **changes: Any
    ) -> Any:
        """`alter_partition` of any partition of the topic."""
        partition = self.partition(name, index)
        sender = changes.pop("sender", partition.leader)
        values: dict[str, Any] = {
            "partition_index": index,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr_with_epochs": [
                BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in isr
            ],
            **changes,
        }
        topic_id = values.pop("topic_id", self.topic(name).topic_id)
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.image.brokers[sender].epoch,
            topics=[
                TopicDataRequest(topic_id=topic_id, partitions=[PartitionDataRequest(**values)])
            ],
        )
        reply = self.do(self.controller.decide_alter_partition(request))
        assert reply.error_code == 0
        return reply.topics[0].partitions[0]

    def alter_config(
        self, kind: int, name: str, *changes: tuple[int, str, str | None], validate: bool = False
    ) -> Any:
        """Change configs of one resource: (operation, config, value); its answer."""
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(config_operation=op, name=key, value=value)
                for op, key, value in changes
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate)
        [result] = self.do(self.controller.decide_incremental_alter_configs(request)).responses
        return result


def cluster(*broker_ids: int, **config: Any) -> Bench:
    bench = Bench(**config)
    bench.brokers(*(broker_ids or (1, 2, 3)))
    return bench


def topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignments: list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    """A topic of a CreateTopics request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or ()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def check_invariants(image: ClusterImage) -> None:
    """I08 and its like: what must hold of every partition and broker at any time."""
    for a_topic, index, partition in image.partitions():
        where = f"{a_topic.name}-{index}: {partition}"
        assert set(partition.isr) <= set(partition.replicas), where
        assert len(set(partition.isr)) == len(partition.isr) > 0, where
        assert len(partition.directories) == len(partition.replicas), where
        leader = partition.leader
        if leader >= 0:
            assert leader in partition.isr, where
            assert image.brokers[leader].is_active, where
            assert image.brokers[leader].has_online_directory(partition.directory_of(leader))
            for member in partition.isr:
                assert image.brokers[member].is_active, f"{where}: {member} is not active"
        else:
            assert not any(
                image.brokers[id_].is_active
                and image.brokers[id_].has_online_directory(partition.directory_of(id_))
                for id_ in partition.isr
                if id_ in image.brokers
            ), f"{where}: a replica in sync could lead"
    names = {a_topic.topic_id: name for name, a_topic in image.topics_by_name.items()}
    assert names == {id_: a_topic.name for id_, a_topic in image.topics_by_id.items()}
