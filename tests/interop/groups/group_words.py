"""Groups of every type in few words: their configs, and where they are listed."""

from __future__ import annotations

from typing import Any

from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.list_groups import ListGroupsRequest

from .stage import Stage

GROUP = 32
SET, DELETE = 0, 1


def alter_group_config(
    stage: Stage,
    group: str,
    configs: dict[str, str | None],
    *,
    operation: int = SET,
    error: int | None = 0,
    validate_only: bool = False,
) -> Any:
    """IncrementalAlterConfigs of a GROUP resource; its answer."""
    rows = [
        AlterableConfig(name=name, config_operation=operation, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return stage.ask(request, 1, error=error)


def set_group_config(stage: Stage, group: str, configs: dict[str, str | None]) -> None:
    """Set configs of a group, and wait until the broker has them."""
    from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    alter_group_config(stage, group, configs)
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=list(configs)
    )
    request = DescribeConfigsRequest(resources=[resource])

    def are_set(answer: Any) -> bool:
        return {one.name: one.value for one in answer.results[0].configs} == configs

    stage.until(request, are_set, "the configs", 4)


def list_groups(
    stage: Stage,
    *groups: str,
    states: list[str] | None = None,
    types: list[str] | None = None,
    version: int = 5,
) -> Any:
    """ListGroups; of what it lists only these groups are compared."""
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["states_filter"] = states or []
    if version >= 5:
        fields["types_filter"] = types or []

    def only(seen: Any) -> Any:
        listed = [one for one in seen["groups"] if one["group_id"] in groups]
        return {**seen, "groups": sorted(listed, key=lambda one: one["group_id"])}

    return stage.ask(ListGroupsRequest(**fields), version, only=only)
