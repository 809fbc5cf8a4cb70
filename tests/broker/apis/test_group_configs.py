"""Configs of groups in DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.

Where nothing is said, answers are those that Apache Kafka 4.4.0 gave to the same requests.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.machines.group.configs import GROUP_CONFIGS
from fencepost.wire.api import alter_configs as replacing, incremental_alter_configs as changing
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.list_config_resources import ListConfigResourcesRequest
from fencepost.wire.records.metadata import ConfigRecord

from .harness import StillNode, ask, broker, register

register("describe_configs")
register("incremental_alter_configs")
register("alter_configs")
register("list_config_resources")

BROKER, GROUP = 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL, TAGS = "consumer.assignment.interval.ms", "streams.rack.aware.assignment.tags"

Change = tuple[str, int, str | None]


def a_node(**overrides: str) -> StillNode:
    config = BrokerConfig.load(None, {key.replace("_", "."): v for key, v in overrides.items()})
    return StillNode(config).learn(broker(1))


def set_config(kind: int, name: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def describe(node: StillNode, name: str, *keys: str, **options: bool) -> Any:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=name, configuration_keys=list(keys) or None
    )
    (result,) = ask(node, DescribeConfigsRequest(resources=[resource], **options)).results
    return result


def change(node: StillNode, name: str, *changes: Change, **options: bool) -> Any:
    configs = [
        changing.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = changing.AlterConfigsResource(
        resource_type=GROUP, resource_name=name, configs=configs
    )
    request = changing.IncrementalAlterConfigsRequest(resources=[resource], **options)
    (answer,) = ask(node, request).responses
    return answer.error_code, answer.error_message


def replace(node: StillNode, name: str, **values: str) -> Any:
    configs = [
        replacing.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]
    resource = replacing.AlterConfigsResource(
        resource_type=GROUP, resource_name=name, configs=configs
    )
    (answer,) = ask(node, replacing.AlterConfigsRequest(resources=[resource])).responses
    return answer.error_code, answer.error_message


def listed(node: StillNode, *types: int) -> list[tuple[int, str]]:
    answer = ask(node, ListConfigResourcesRequest(resource_types=list(types)))
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_a_group_that_does_not_exist_has_the_brokers_configs() -> None:
    node = a_node(group_consumer_session_timeout_ms="46000")
    result = describe(node, "any", include_synonyms=True)
    assert result.error_code == 0
    configs = {one.name: one for one in result.configs}
    assert configs.keys() == {name for name, one in GROUP_CONFIGS.items() if not one.internal}
    assert len(configs) == 21
    assert not any(one.read_only or one.is_sensitive for one in result.configs)
    stacks = {
        name: (one.value, one.config_source, [(s.name, s.value, s.source) for s in one.synonyms])
        for name, one in configs.items()
    }
    key = "group.consumer.session.timeout.ms"
    assert stacks[SESSION] == ("46000", 4, [(key, "46000", 4), (key, "45000", 5)])
    assert stacks["share.isolation.level"] == (
        "read_uncommitted",
        5,
        [("share.isolation.level", "read_uncommitted", 5)],
    )
    assert stacks["streams.assignor.name"] == (
        "sticky",
        5,
        [("group.streams.assignors", "sticky", 5)],
    )
    assert stacks[TAGS] == ("", 5, [("group.streams.rack.aware.assignment.tags", "", 5)])
    kinds = {one.name: one.config_type for one in result.configs}
    assert (kinds[SESSION], kinds[TAGS], kinds["share.isolation.level"]) == (3, 7, 2)


def test_own_values_go_before_those_of_this_broker_and_of_all() -> None:
    node = a_node().learn(
        set_config(GROUP, "g", INTERVAL, " 4000 "),
        set_config(BROKER, "1", f"group.{INTERVAL}", "3000"),
        set_config(BROKER, "", f"group.{INTERVAL}", "2000"),
        set_config(GROUP, "g", "consumer.assignor.offload.enable", "false"),
        set_config(GROUP, "g", SESSION, "99999"),
    )
    (config,) = describe(node, "g", INTERVAL, include_synonyms=True).configs
    assert (config.value, config.config_source) == ("4000", 8)
    assert [(one.value, one.source) for one in config.synonyms] == [
        ("4000", 8),
        ("3000", 2),
        ("2000", 3),
        ("1000", 5),
    ]
    (internal,) = describe(node, "g", "consumer.assignor.offload.enable").configs
    assert internal.value == "false", "internal ones are shown where they are set"
    assert describe(node, "h", "consumer.assignor.offload.enable", "nope").configs == []
    (stored,) = describe(node, "g", SESSION).configs
    assert stored.value == "99999", "what is stored, in bounds or not"


def test_the_empty_name_is_no_groups() -> None:
    result = describe(a_node(), "")
    assert (result.error_code, result.error_message) == (42, "Group name must not be empty")
    assert change(a_node(), "", (SESSION, SET, "50000")) == (
        42,
        "Default group resources are not allowed.",
    )


def test_configs_of_a_group_are_set_deleted_and_listed() -> None:
    node = a_node()
    assert change(node, "g", (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert node.image.configs_of(GROUP, "g") == {}
    assert change(node, "g", (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000")) == (0, None)
    assert change(node, "h", (INTERVAL, SET, "0")) == (0, None)
    assert node.image.configs_of(GROUP, "g") == {SESSION: "50000", HEARTBEAT: "6000"}
    assert sorted(listed(node, GROUP)) == [(GROUP, "g"), (GROUP, "h")]
    assert {(GROUP, "g"), (BROKER, "1")} <= set(listed(node))
    assert change(node, "g", (SESSION, DELETE, None), ("nope", DELETE, None)) == (0, None)
    assert replace(node, "g", share_isolation_level="read_committed") == (0, None)
    assert node.image.configs_of(GROUP, "g") == {"share.isolation.level": "read_committed"}
    assert replace(node, "g") == (0, None)
    assert listed(node, GROUP) == [(GROUP, "h")], "one without configs is not there"


REFUSED = [
    (("nope", SET, "1"), "Unknown group config name: nope"),
    ((SESSION, SET, "70000"), f"{SESSION} must be in the range 45000 to 60000 inclusive."),
    ((SESSION, APPEND, "1"), f"Can't APPEND to key {SESSION} because its type is not LIST."),
    ((TAGS, APPEND, "a"), f"Can't APPEND to key {TAGS} because its type is not LIST."),
    ((TAGS, SUBTRACT, "a"), f"Can't SUBTRACT to key {TAGS} because its type is not LIST."),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_what_is_not_allowed_is_refused_with_kafkas_answer(asked: Change, message: str) -> None:
    node = a_node()
    assert change(node, "g", asked, (HEARTBEAT, SET, "6000")) == (40, message)
    assert node.image.configs_of(GROUP, "g") == {}


def test_the_bounds_are_those_of_the_controllers_configuration() -> None:
    node = a_node(group_consumer_max_session_timeout_ms="90000")
    assert change(node, "g", (SESSION, SET, "90000")) == (0, None)
    assert replace(node, "g", consumer_session_timeout_ms="90001")[0] == 40
    assert replace(node, "g", nope="1") == (40, "Unknown group config name: nope")
