"""Brokers come, stay and go: registration, heartbeats, fencing, shutting down (KIP-631, KIP-841).

A broker registers and is fenced. When it has read its own registration, its heartbeats unfence it.
When it wants to stop, it first gives up its leaderships, and may stop when the other brokers know.

| now           | the heartbeat says             | and                          | then          |
|---------------|--------------------------------|------------------------------|---------------|
| fenced        | wants to shut down             |                              | shutdown now  |
| fenced        | does not want to stay fenced   | has read its registration    | unfenced      |
| fenced        | anything else                  |                              | fenced        |
| unfenced      | wants fence and shutdown       |                              | shutdown now  |
| unfenced      | wants fence                    |                              | fenced        |
| unfenced      | wants to shut down             | leads partitions             | shutting down |
| unfenced      | wants to shut down             | leads nothing                | shutdown now  |
| unfenced      | anything else                  |                              | unfenced      |
| shutting down | anything                       | leads partitions still       | shutting down |
| shutting down | anything                       | leads nothing, others know   | shutdown now  |
| shutting down | anything                       | leads nothing, others do not | shutting down |

"Shutdown now" fences the broker, if it is not, and tells it to stop. An incarnation that has been
told so stays fenced: the broker comes back by registering again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from fencepost.machines.controller.config import METADATA_VERSION_FEATURE
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.partitions import (
    TopicPolicies,
    changes_with_broker,
    changes_without_broker,
)
from fencepost.machines.controller.registration_limits import reason_it_is_too_large
from fencepost.machines.controller.rules import ControllerRules
from fencepost.machines.image import DIRECTORY_MIGRATING, BrokerImage, ClusterImage
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from fencepost.wire.types import Uuid

_FENCE = 1
_UNFENCE = -1
_RESERVED_DIRECTORIES = 100


class BrokerControl(Enum):
    """What a broker is allowed to do."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "shutting down"
    SHUTDOWN_NOW = "shutdown now"


def control_of(broker: BrokerImage) -> BrokerControl:
    """What a registered broker is allowed to do now."""
    if broker.fenced:
        return BrokerControl.FENCED
    if broker.in_controlled_shutdown:
        return BrokerControl.SHUTTING_DOWN
    return BrokerControl.UNFENCED


def check_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker under the epoch that the request says. Raises Refused with STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise Refused(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has epoch {broker.epoch}, not {broker_epoch}",
        )
    return broker


# -- registration ------------------------------------------------------------------------------


def check_registration(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    """Refuse a registration that could not work, whatever else is registered."""
    if request.is_migrating_zk_broker:
        raise Refused(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers in ZooKeeper mode cannot register here"
        )
    reason = reason_it_is_too_large(request)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_REGISTRATION, reason)
    if image.has_directories:
        _check_directories(image, request)
    offered = {f.name: f for f in request.features}
    if METADATA_VERSION_FEATURE not in offered:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "the features lack metadata.version")
    for name in sorted(image.features.keys() | offered.keys()):
        level = image.features.get(name, 0)
        feature = offered.get(name)
        least = feature.min_supported_version if feature is not None else 0
        most = feature.max_supported_version if feature is not None else 0
        if not least <= level <= most:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{name} is at level {level}, the broker runs {least} to {most}",
            )


def _check_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    mine = request.log_dirs
    if not mine:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "a broker has at least one log directory")
    if len(set(mine)) != len(mine):
        raise Refused(ErrorCode.INVALID_REGISTRATION, "a log directory is named twice")
    for directory in mine:
        if int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES:
            raise Refused(ErrorCode.INVALID_REGISTRATION, f"directory id {directory} is reserved")
    for broker in image.brokers.values():
        shared = set(broker.log_dirs) & set(mine)
        if broker.broker_id != request.broker_id and shared:
            raise Refused(
                ErrorCode.INVALID_REGISTRATION,
                f"log directory {min(shared)} belongs to broker {broker.broker_id}",
            )


def registration_records(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    next_offset: int,
    policies: TopicPolicies,
    rules: ControllerRules,
) -> tuple[list[Message], int]:
    """The records of a checked registration, and the broker's epoch.

    A repeated registration of one incarnation keeps its epoch and state (KAFKA-16952). A new
    incarnation gets a new epoch: whatever the old one led or held in sync is given up first, and
    the epoch is the offset of the registration itself, the last of the records. Unless the broker
    says that it was closed in order under the old epoch, it may lack records that it had, and is
    not eligible to lead any more (KIP-966).
    """
    existing = image.brokers.get(request.broker_id)
    records: list[Message] = []
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(
                name=item.name,
                host=item.host,
                port=item.port,
                security_protocol=item.security_protocol,
            )
            for item in request.listeners
        ],
        features=[
            BrokerFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in request.features
        ],
        rack=request.rack,
        log_dirs=sorted(request.log_dirs) if image.has_directories else [],
    )
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    else:
        is_lost = existing is not None and not rules.was_closed_in_order(
            existing.epoch, request.previous_broker_epoch
        )
        records += changes_without_broker(image, request.broker_id, policies, is_lost=is_lost)
        record.broker_epoch = next_offset + len(records)
        record.fenced = True
    records.append(record)
    return records, record.broker_epoch


# -- heartbeats --------------------------------------------------------------------------------


def next_control(
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
    leads_partitions: Callable[[], bool],
    others_know: bool,
    has_read_it: bool,
) -> BrokerControl:
    """What the broker is allowed to do after this heartbeat; see the table.

    `leads_partitions` is asked only if it matters: it looks at every partition there is, and a
    broker that stops sends many heartbeats.
    `has_read_it`: whether it has read enough of the metadata to be unfenced.
    """
    now = control_of(broker)
    if now is BrokerControl.FENCED:
        if request.want_shut_down:
            return BrokerControl.SHUTDOWN_NOW
        if not request.want_fence and has_read_it and not broker.in_controlled_shutdown:
            return BrokerControl.UNFENCED
        return BrokerControl.FENCED
    if now is BrokerControl.UNFENCED:
        if request.want_fence:
            wants_stop = request.want_shut_down
            return BrokerControl.SHUTDOWN_NOW if wants_stop else BrokerControl.FENCED
        if request.want_shut_down:
            return BrokerControl.SHUTTING_DOWN if leads_partitions() else BrokerControl.SHUTDOWN_NOW
        return BrokerControl.UNFENCED
    if not others_know or leads_partitions():
        return BrokerControl.SHUTTING_DOWN
    return BrokerControl.SHUTDOWN_NOW


def control_records(
    image: ClusterImage,
    broker: BrokerImage,
    control: BrokerControl,
    policies: TopicPolicies,
) -> list[Message]:
    """The records that bring a broker there from where it is."""
    now = control_of(broker)
    if control is now:
        return []
    if control is BrokerControl.UNFENCED:
        return unfence_records(image, broker, policies)
    if control is BrokerControl.SHUTTING_DOWN:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        moved = changes_without_broker(image, broker.broker_id, policies)
        return [change, *moved]
    if now is BrokerControl.FENCED:
        return []
    return fence_records(image, broker, policies)


def fence_records(
    image: ClusterImage, broker: BrokerImage, policies: TopicPolicies
) -> list[Message]:
    """Take everything from the broker, then fence it."""
    moved = changes_without_broker(image, broker.broker_id, policies)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_FENCE
    )
    return [*moved, change]


def unfence_records(
    image: ClusterImage, broker: BrokerImage, policies: TopicPolicies
) -> list[Message]:
    """Unfence the broker, then elect leaders where there is none."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_UNFENCE
    )
    elected = changes_with_broker(image, broker.broker_id, policies)
    return [change, *elected]


def offline_directory_records(
    image: ClusterImage,
    broker: BrokerImage,
    offline: list[Uuid],
    policies: TopicPolicies,
) -> list[Message]:
    """Give up the replicas in directories that have failed since the broker registered.

    `image` is the cluster after whatever else the heartbeat leads to. A broker without any
    directory left stops by itself; its registration then keeps the last one, as an empty list in
    the record would say "as before".
    """
    lost = frozenset(offline) & set(broker.log_dirs)
    if not lost:
        return []
    records: list[Message] = list(
        changes_without_broker(image, broker.broker_id, policies, in_directories=lost)
    )
    online = [directory for directory in broker.log_dirs if directory not in lost]
    if online:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=online
            )
        )
    return records


def unregister_records(
    image: ClusterImage, broker: BrokerImage, policies: TopicPolicies
) -> list[Message]:
    """Take everything from the broker, then forget it."""
    moved = changes_without_broker(image, broker.broker_id, policies, is_lost=True)
    gone = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return [*moved, gone]


def leads_partitions(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker leads anything."""
    return any(
        partition.leader == broker_id
        for topic in image.topics_by_name.values()
        for partition in topic.partitions
    )


assert int.from_bytes(DIRECTORY_MIGRATING, "big") < _RESERVED_DIRECTORIES
