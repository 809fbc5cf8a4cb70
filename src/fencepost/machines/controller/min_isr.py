"""What `min.insync.replicas` must not do while there are eligible leader replicas (KIP-966).

A replica is eligible because too few are in sync, so all nodes have to agree on how many are
enough. Brokers that differ in it, or a default that only the controller's own file has, would have
a replica forgotten that others still count on:

* switching the feature on writes a value for all brokers, where there is none, and removes the
  values of single brokers;
* from then on no single broker can have one, and the value for all brokers cannot be removed
  (INVALID_CONFIG);
* whenever a value changes, the eligible replicas that rest on the old one are forgotten: of the
  topic, or of all topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fencepost.log.config import TOPIC_CONFIGS
from fencepost.machines.controller.config import ControllerConfig
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.partition_change import is_elr_enabled
from fencepost.machines.controller.topic_policies import MIN_ISR
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_TOPIC, ClusterImage
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import ClearElrRecord, ConfigRecord


def records_before_elr(image: ClusterImage, config: ControllerConfig) -> list[ConfigRecord]:
    """What is written in front of the feature's level when it is switched on, if need be."""
    records: list[ConfigRecord] = []
    if MIN_ISR not in image.broker_configs():
        value = TOPIC_CONFIGS[MIN_ISR].from_broker(config.topic_defaults)
        records.append(_of_broker("", str(value)))
    records += [
        _of_broker(name, None)
        for (kind, name), values in sorted(image.configs.items())
        if kind == RESOURCE_BROKER and name and MIN_ISR in values
    ]
    return records


def _of_broker(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER, resource_name=name, name=MIN_ISR, value=value
    )


def check_min_isr(
    image: ClusterImage, kind: int, name: str, changes: Mapping[str, str | None]
) -> None:
    """Refuse changes of a resource's configs that the eligible replicas could not bear."""
    if kind != RESOURCE_BROKER or MIN_ISR not in changes or not is_elr_enabled(image):
        return
    if name:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    if changes[MIN_ISR] is None:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def cleared_elr(image: ClusterImage, records: Iterable[Message]) -> list[ClearElrRecord]:
    """What is written behind these changes of configs: whose eligible replicas are forgotten.

    Those of all topics have no name, like the configs of all brokers.
    """
    if not is_elr_enabled(image):
        return []
    return [
        ClearElrRecord(topic_name=one.resource_name)
        for one in records
        if isinstance(one, ConfigRecord)
        and one.name == MIN_ISR
        and one.resource_type in (RESOURCE_TOPIC, RESOURCE_BROKER)
    ]
