"""Configs of groups (resource type 32): what may be set, what is described, what is listed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.wire.api.alter_configs import (
    AlterableConfig as FullConfig,
    AlterConfigsRequest,
    AlterConfigsResource as FullResource,
)
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.list_config_resources import ListConfigResourcesRequest
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .group_words import DELETE, GROUP, alter_group_config, set_group_config
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
REFUSED = E.INVALID_CONFIG
ROWS: list[tuple[dict[str, str | None], int | None]] = [
    ({"consumer.session.timeout.ms": "50000"}, 0),
    ({"consumer.session.timeout.ms": "1000"}, None),
    ({"consumer.session.timeout.ms": "999"}, None),
    ({"consumer.session.timeout.ms": "60001"}, None),
    ({"consumer.session.timeout.ms": "x"}, None),
    ({"consumer.session.timeout.ms": ""}, None),
    ({"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"}, None),
    ({"consumer.heartbeat.interval.ms": "15001"}, None),
    ({"consumer.heartbeat.interval.ms": "99"}, None),
    ({"consumer.assignment.interval.ms": "0"}, None),
    ({"consumer.assignment.interval.ms": "15001"}, None),
    ({"consumer.assignment.interval.ms": "-1"}, None),
    ({"share.session.timeout.ms": "50000"}, None),
    ({"share.heartbeat.interval.ms": "15001"}, None),
    ({"share.record.lock.duration.ms": "1000"}, None),
    ({"share.record.lock.duration.ms": "999"}, None),
    ({"share.record.lock.duration.ms": "60001"}, None),
    ({"share.delivery.count.limit": "2"}, None),
    ({"share.delivery.count.limit": "1"}, None),
    ({"share.delivery.count.limit": "11"}, None),
    ({"share.partition.max.record.locks": "100"}, None),
    ({"share.partition.max.record.locks": "99"}, None),
    ({"share.partition.max.record.locks": "4001"}, None),
    ({"share.auto.offset.reset": "earliest"}, None),
    ({"share.auto.offset.reset": "EARLIEST"}, None),
    ({"share.auto.offset.reset": "none"}, None),
    ({"share.auto.offset.reset": "by_duration:PT1H"}, None),
    ({"share.auto.offset.reset": "by_duration:-PT1H"}, None),
    ({"share.auto.offset.reset": "by_duration:1h"}, None),
    ({"share.isolation.level": "read_committed"}, None),
    ({"share.isolation.level": "committed"}, None),
    ({"share.renew.acknowledge.enable": "false"}, None),
    ({"share.renew.acknowledge.enable": "no"}, None),
    ({"errors.deadletterqueue.topic.name": "dlq.t"}, None),
    ({"errors.deadletterqueue.topic.name": "__t"}, None),
    ({"errors.deadletterqueue.topic.name": ""}, None),
    ({"errors.deadletterqueue.copy.record.enable": "true"}, None),
    ({"streams.session.timeout.ms": "50000"}, None),
    ({"streams.num.standby.replicas": "2"}, None),
    ({"streams.num.standby.replicas": "3"}, None),
    ({"streams.num.standby.replicas": "-1"}, None),
    ({"streams.initial.rebalance.delay.ms": "0"}, None),
    ({"streams.initial.rebalance.delay.ms": "-1"}, None),
    ({"streams.rack.aware.assignment.tags": "a,b"}, None),
    ({"streams.rack.aware.assignment.tags": "a,a"}, None),
    ({"streams.assignor.name": "sticky"}, None),
    ({"streams.assignor.name": "other"}, None),
    ({"no.such.key": "1"}, REFUSED),
    ({"group.consumer.session.timeout.ms": "50000"}, REFUSED),
    ({"consumer.session.timeout.ms": None}, None),
]


def altered(stage: Stage, configs: dict[str, str | None], error: int | None) -> None:
    group = stage.name("g")
    alter_group_config(stage, group, configs, error=error, validate_only=True)
    alter_group_config(stage, group, configs, error=error)


@pytest.mark.parametrize(
    ("configs", "error"),
    ROWS,
    ids=[f"{number}-{next(iter(configs))}" for number, (configs, _) in enumerate(ROWS)],
)
def test_a_value(
    perform: Performance,
    request: pytest.FixtureRequest,
    configs: dict[str, str | None],
    error: int | None,
) -> None:
    number = ROWS.index((configs, error))
    perform(f"config-{number}", partial(altered, configs=configs, error=error))


def describe(stage: Stage, group: str, *keys: str, **said: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=list(keys) or None
    )
    return stage.ask(DescribeConfigsRequest(resources=[resource], **said), 4)


@scene
def everything_is_described(stage: Stage) -> None:
    """A group need not exist to have configs."""
    group = stage.name("g")
    describe(stage, group)
    describe(stage, group, include_synonyms=True)
    describe(stage, group, "consumer.session.timeout.ms", "no.such.key")


@scene
def set_and_deleted(stage: Stage) -> None:
    group, key = stage.name("g"), "consumer.session.timeout.ms"
    set_group_config(stage, group, {key: "50000"})
    describe(stage, group, key, include_synonyms=True)
    alter_group_config(stage, group, {key: None}, operation=DELETE)
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=[key]
    )
    request = DescribeConfigsRequest(resources=[resource])
    stage.until(request, lambda one: one.results[0].configs[0].value == "45000", "the default", 4)
    alter_group_config(stage, group, {key: None}, operation=DELETE)
    for operation in (2, 3):
        alter_group_config(stage, group, {key: "1"}, operation=operation, error=None)


@scene
def legacy_alter_configs(stage: Stage) -> None:
    """AlterConfigs replaces all that was set."""
    group = stage.name("g")
    set_group_config(stage, group, {"share.delivery.count.limit": "4"})
    row = FullConfig(name="consumer.session.timeout.ms", value="50000")
    resource = FullResource(resource_type=GROUP, resource_name=group, configs=[row])
    stage.ask(AlterConfigsRequest(resources=[resource]), 2, error=None)
    bad = FullConfig(name="no.such.key", value="1")
    resource = FullResource(resource_type=GROUP, resource_name=group, configs=[bad])
    stage.ask(AlterConfigsRequest(resources=[resource]), 2, error=None)


@scene
def groups_without_a_name(stage: Stage) -> None:
    alter_group_config(stage, "", {"share.delivery.count.limit": "4"}, error=None)
    describe(stage, "")


@scene
def groups_with_configs_are_listed(stage: Stage) -> None:
    group = stage.name("g")
    set_group_config(stage, group, {"share.delivery.count.limit": "4"})

    def mine(seen: Any) -> Any:
        listed = [one for one in seen["config_resources"] if one["resource_name"] == group]
        return seen["error_code"], listed

    stage.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1, only=mine)
    stage.ask(ListConfigResourcesRequest(resource_types=[]), 1, only=mine)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"configs-{name}", scene[name])
