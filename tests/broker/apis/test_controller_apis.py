"""What is served on controllers' listeners, besides the quorum's own requests."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES
from fencepost.machines.quorum import AppendOutcome
from fencepost.wire.api import alter_configs
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.alter_partition import AlterPartitionRequest
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest, Feature, Listener
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.api.unregister_controller import UnregisterControllerRequest
from fencepost.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    ControllerEndpoint,
    FeatureLevelRecord,
    RegisterControllerRecord,
)
from fencepost.wire.types import Uuid

from .harness import CLUSTER_ID, StillNode, ask, broker, register, served_versions, topic

MODULES = (
    "allocate_producer_ids",
    "alter_configs",
    "alter_partition",
    "assign_replicas_to_dirs",
    "broker_heartbeat",
    "broker_registration",
    "controller_registration",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_cluster",
    "incremental_alter_configs",
    "unregister_broker",
    "unregister_controller",
    "update_features",
)
register(*MODULES)

C = "CONTROLLER"


def a_node(level: int = 30) -> StillNode:
    return StillNode().learn(
        FeatureLevelRecord(name="metadata.version", feature_level=level), broker(1), *topic("t", {})
    )


def config_change(kind: int, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource])


REQUESTS: list[Message] = [
    BrokerRegistrationRequest(broker_id=5, cluster_id=CLUSTER_ID),
    BrokerHeartbeatRequest(broker_id=1, broker_epoch=10),
    ControllerRegistrationRequest(controller_id=2),
    UnregisterBrokerRequest(broker_id=1),
    UnregisterControllerRequest(controller_id=2),
    AlterPartitionRequest(broker_id=1, broker_epoch=10),
    AllocateProducerIdsRequest(broker_id=1, broker_epoch=10),
    AssignReplicasToDirsRequest(broker_id=1, broker_epoch=10),
    UpdateFeaturesRequest(),
    CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
    ),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=60_000),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)], timeout_ms=60_000),
    config_change(2, "t", "retention.ms", "5"),
    alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=2, resource_name="t")]
    ),
]


def errors_of(response: Any) -> list[int]:
    """The errors at the top, or of the items."""
    for name in ("topics", "responses", "results"):
        items = getattr(response, name, None)
        if items:
            return [item.error_code for item in items]
    return [response.error_code]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_controller_that_is_not_active_answers_41(request_: Message) -> None:
    for version in served_versions(type(request_), C):
        node = a_node()
        before = node.image
        node.controller.error = ErrorCode.NOT_CONTROLLER
        sent = request_
        if isinstance(request_, DeleteTopicsRequest):
            sent = (
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
                if version >= 6
                else DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
            )
        response = ask(node, sent, version, listener=C)
        assert errors_of(response) == [ErrorCode.NOT_CONTROLLER]
        assert node.image is before


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_an_active_controller_decides(request_: Message) -> None:
    response = ask(a_node(), request_, listener=C)
    assert ErrorCode.NOT_CONTROLLER not in errors_of(response)


def test_what_brokers_ask_is_not_served_to_clients() -> None:
    assert {58, 62, 63, 70, 56, 67, 73} & CONTROLLER_ROUTES.keys() >= {62, 63, 70, 56, 67, 73}
    assert not {62, 63, 70, 56, 67, 73} & ROUTES.keys()


def registration(**changes: Any) -> BrokerRegistrationRequest:
    values: dict[str, Any] = {
        "broker_id": 5,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": Uuid(b"incarnation-five"),
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9092)],
        "features": [
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
        "log_dirs": [Uuid(b"directory-of-it!")],
        **changes,
    }
    return BrokerRegistrationRequest(**values)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_registers_and_is_unfenced(version: int) -> None:
    node = a_node()
    reply = ask(node, registration(), version, listener=C)
    assert reply.error_code == 0
    assert node.image.brokers[5].fenced
    beat = BrokerHeartbeatRequest(
        broker_id=5, broker_epoch=reply.broker_epoch, current_metadata_offset=reply.broker_epoch
    )
    assert not ask(node, beat, listener=C).is_fenced
    assert not node.image.brokers[5].fenced


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        (
            {
                "features": [
                    Feature(
                        name="metadata.version", min_supported_version=7, max_supported_version=29
                    )
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_broker_that_does_not_fit_is_refused(changes: dict[str, Any], error: ErrorCode) -> None:
    node = a_node()
    assert ask(node, registration(**changes), listener=C).error_code == error
    assert 5 not in node.image.brokers


@pytest.mark.parametrize("listener", ["PLAINTEXT", C])
def test_a_broker_is_unregistered_by_either_door(listener: str) -> None:
    node = a_node()
    assert ask(node, UnregisterBrokerRequest(broker_id=1), listener=listener).error_code == 0
    assert 1 not in node.image.brokers
    again = ask(node, UnregisterBrokerRequest(broker_id=1), listener=listener)
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("listener", ["PLAINTEXT", C])
def test_a_controller_is_unregistered_by_either_door(listener: str) -> None:
    """KIP-1312: not the active one, and from 4.4-IV2 on, where there is a record for it."""

    def unregister(node: StillNode, controller_id: int) -> tuple[int, str | None]:
        request = UnregisterControllerRequest(controller_id=controller_id)
        answer = ask(node, request, listener=listener)
        return answer.error_code, answer.error_message

    gone = RegisterControllerRecord(controller_id=2, incarnation_id=Uuid(bytes(15) + b"\2"))
    old = a_node(32).learn(gone)
    assert unregister(old, 1)[0] == ErrorCode.INVALID_REQUEST
    assert unregister(old, 2) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "The current MetadataVersion is too old to support controller unregistration.",
    )
    node = a_node(33).learn(gone)
    assert unregister(node, 1) == (
        ErrorCode.INVALID_REQUEST,
        "Controller cannot unregister itself while it is active.",
    )
    assert unregister(node, 2) == (0, None)
    assert 2 not in node.image.controllers
    assert unregister(node, 2) == (
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        "Controller ID 2 is not currently registered.",
    )


# -- features --------------------------------------------------------------------------------------


def update(name: str, level: int, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=name, max_version_level=level)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


@pytest.mark.parametrize("listener", ["PLAINTEXT", C])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_level_is_raised_by_either_door(version: int, listener: str) -> None:
    node = StillNode().learn(FeatureLevelRecord(name="metadata.version", feature_level=20))
    reply = ask(node, update("metadata.version", 21), version, listener)
    assert (reply.error_code, len(reply.results)) == (0, 1 if version < 2 else 0)
    assert node.image.features["metadata.version"] == 21
    refused = ask(node, update("metadata.version", 99), version, listener)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "99" in refused.error_message


class Upgrades:
    """`ControllerHost.upgrade_kraft_version` that answers what it is told to."""

    def __init__(self, node: StillNode, error: ErrorCode) -> None:
        self.node = node
        self.error = error
        self.asked: list[tuple[int, bool]] = []
        node.controller.upgrade_kraft_version = self.upgrade  # type: ignore[attr-defined]

    def upgrade(self, level: int, is_dry_run: bool, on_outcome: Any) -> None:
        self.asked.append((level, is_dry_run))
        on_outcome(AppendOutcome(self.error))


def both(validate_only: bool = False) -> UpdateFeaturesRequest:
    keys = [
        FeatureUpdateKey(feature="metadata.version", max_version_level=21),
        FeatureUpdateKey(feature="kraft.version", max_version_level=1),
    ]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


@pytest.mark.parametrize("version", [1, 2])
def test_the_quorums_level_goes_first_and_the_others_follow(version: int) -> None:
    node = StillNode().learn(FeatureLevelRecord(name="metadata.version", feature_level=20))
    upgrades = Upgrades(node, ErrorCode.NONE)
    reply = ask(node, both(), version, C)
    assert (reply.error_code, len(reply.results)) == (0, 2 if version < 2 else 0)
    assert upgrades.asked == [(1, False)]
    assert node.image.features == {"metadata.version": 21}, "and nothing of the quorum's"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_UPDATE_VERSION),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER),
    ],
)
def test_where_the_quorum_refuses_nothing_changes(error: ErrorCode, told: ErrorCode) -> None:
    node = StillNode().learn(FeatureLevelRecord(name="metadata.version", feature_level=20))
    Upgrades(node, error)
    assert ask(node, both(), listener=C).error_code == told
    assert node.image.features == {"metadata.version": 20}


def test_the_quorum_is_only_asked_whether_it_could() -> None:
    node = StillNode().learn(FeatureLevelRecord(name="metadata.version", feature_level=20))
    upgrades = Upgrades(node, ErrorCode.NONE)
    assert ask(node, both(validate_only=True), listener=C).error_code == 0
    assert upgrades.asked == [(1, True)]
    assert node.image.features == {"metadata.version": 20}


def test_the_quorum_is_not_asked_when_something_else_is_wrong() -> None:
    node = StillNode().learn(FeatureLevelRecord(name="metadata.version", feature_level=20))
    upgrades = Upgrades(node, ErrorCode.NONE)
    request = both()
    request.feature_updates[0].max_version_level = 99
    assert ask(node, request, listener=C).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert upgrades.asked == []


# -- controllers described ------------------------------------------------------------------------


def with_controllers(level: int = 30) -> StillNode:
    node = a_node(level)
    node.quorum_leader_id = 3
    return node.learn(
        *[
            RegisterControllerRecord(
                controller_id=number,
                incarnation_id=Uuid(bytes(15) + bytes([number])),
                end_points=[
                    ControllerEndpoint(name=name, host=f"c{number}", port=9090 + number)
                    for name in names
                ],
            )
            for number, names in ((3, [C]), (2, [C, "OTHER"]), (4, ["OTHER"]))
        ]
    )


@pytest.mark.parametrize("version", [1, 2])
def test_controllers_are_described_by_a_controller(version: int) -> None:
    answer = ask(with_controllers(), DescribeClusterRequest(endpoint_type=2), version, C)
    assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (0, 2, 3)
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
        (2, "c2", 9092),
        (3, "c3", 9093),
    ]


@pytest.mark.parametrize(("endpoint_type", "code"), [(1, 114), (0, 115), (3, 115)])
def test_a_controller_describes_nothing_else(endpoint_type: int, code: int) -> None:
    answer = ask(with_controllers(), DescribeClusterRequest(endpoint_type=endpoint_type), 2, C)
    assert answer.error_code == code and answer.brokers == []


def test_before_controllers_register_there_is_nothing_to_describe() -> None:
    answer = ask(with_controllers(14), DescribeClusterRequest(endpoint_type=2), 2, C)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", served_versions(DeleteTopicsRequest, C))
def test_topics_are_not_deleted_where_that_is_switched_off(version: int) -> None:
    from fencepost.broker.config.broker_config import BrokerConfig

    node = StillNode(config=BrokerConfig.load(None, {"delete.topic.enable": "false"}))
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
    )
    code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
    assert errors_of(ask(node, request, version, C)) == [code]
