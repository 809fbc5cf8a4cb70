"""Dynamic configs: incremental changes, resource by resource (KIP-339).

A resource's changes stand or fall together; resources stand or fall alone. What results for a
resource is checked as a whole, so that values which must go together are seen together.

Topics are checked against the table of topic configs; other types against tables the shell gives.
Broker configs are not checked for name and value here: only the broker knows which of them it can
change while it runs, and it has checked before it forwards (a value that is no use is ignored by
brokers). Their records are written even if the value is the same, to make brokers read again what
it refers to (KAFKA-14136).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fencepost.log.config import TOPIC_CONFIGS, validate_topic_configs
from fencepost.log.configdef import ConfigDef, ConfigError, ConfigType
from fencepost.machines.controller.config import MAX_CONFIG_VALUE_CHARACTERS, ControllerConfig
from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.names import check_topic_name
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_TOPIC, ClusterImage
from fencepost.wire.api import incremental_alter_configs as wire
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import ConfigRecord

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations on a config, as in requests."""

_BROKER_ID_MAX = (1 << 31) - 1


def decide_config_changes(
    image: ClusterImage, config: ControllerConfig, request: wire.IncrementalAlterConfigsRequest
) -> tuple[list[wire.AlterConfigsResourceResponse], list[Message]]:
    """One result per resource of the request, and the records."""
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    results: list[wire.AlterConfigsResourceResponse] = []
    records: list[Message] = []
    for resource in request.resources:
        result = wire.AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the resource is named more than once")
            records += _change_resource(image, config, resource)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return results, records


def _change_resource(
    image: ClusterImage, config: ControllerConfig, resource: wire.AlterConfigsResource
) -> list[ConfigRecord]:
    definitions = _definitions(config, resource.resource_type)
    _check_resource_name(resource)
    present = image.configs_of(resource.resource_type, resource.resource_name)
    values = dict(present)
    changes: dict[str, str | None] = {}
    for change in resource.configs:
        if change.name in changes:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{change.name} is changed more than once")
        value = _changed_value(definitions, change, present.get(change.name))
        changes[change.name] = value
        if value is None:
            values.pop(change.name, None)
        else:
            values[change.name] = value
    _check_values(config, resource, definitions, values, changes)
    _check_exists(image, config, resource)
    return [
        ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            name=name,
            value=value,
        )
        for name, value in changes.items()
        if value != present.get(name) or resource.resource_type == RESOURCE_BROKER
    ]


def _definitions(config: ControllerConfig, resource_type: int) -> Mapping[str, ConfigDef] | None:
    """The table of the resource type's configs; None for brokers, whose configs are not checked."""
    if resource_type == RESOURCE_TOPIC:
        return TOPIC_CONFIGS
    if resource_type == RESOURCE_BROKER:
        return None
    table = config.resource_configs.get(resource_type)
    if table is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no configs here"
        )
    return table


def _check_resource_name(resource: wire.AlterConfigsResource) -> None:
    name = resource.resource_name
    if resource.resource_type == RESOURCE_TOPIC:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "topics have no common configs: name one")
        check_topic_name(name)
    elif resource.resource_type == RESOURCE_BROKER:
        if name and not (name.isascii() and name.isdigit() and int(name) <= _BROKER_ID_MAX):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker id")
    elif not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "the resource has no name")


def _changed_value(
    definitions: Mapping[str, ConfigDef] | None, change: wire.AlterableConfig, present: str | None
) -> str | None:
    """What the config is to be; None if it is to be gone."""
    operation = change.config_operation
    if operation == DELETE:
        return None
    if operation not in (SET, APPEND, SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{operation} is no operation on a config")
    if change.value is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"no value for {change.name}")
    if operation == SET:
        return change.value
    definition = None if definitions is None else definitions.get(change.name)
    if definition is None or definition.type is not ConfigType.LIST:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{change.name} is no list")
    if present is None:
        present = definition.format(definition.default) or ""
    items = _items(present)
    given = _items(change.value)
    if operation == APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _check_values(
    config: ControllerConfig,
    resource: wire.AlterConfigsResource,
    definitions: Mapping[str, ConfigDef] | None,
    values: Mapping[str, str],
    changes: Mapping[str, str | None],
) -> None:
    """Refuse values that are too long, of unknown configs, or not allowed; INVALID_CONFIG."""
    for name, value in changes.items():
        if value is not None and len(value) > MAX_CONFIG_VALUE_CHARACTERS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{name} has {len(value)} characters, the most is {MAX_CONFIG_VALUE_CHARACTERS}",
            )
    try:
        if resource.resource_type == RESOURCE_TOPIC:
            validate_topic_configs(values, config.topic_defaults)
        elif definitions is not None:
            for name, value in values.items():
                if name not in definitions:
                    raise ConfigError(name, value, "there is no config of this name")
                definitions[name].parse(value)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None


def _check_exists(
    image: ClusterImage, config: ControllerConfig, resource: wire.AlterConfigsResource
) -> None:
    """Refuse configs of topics and nodes that there are not."""
    name = resource.resource_name
    if resource.resource_type == RESOURCE_TOPIC:
        if name not in image.topics_by_name:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    elif resource.resource_type == RESOURCE_BROKER and name:
        node_id = int(name)
        nodes = (image.brokers, image.controllers, {config.node_id})
        if not any(node_id in ids for ids in nodes):
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")
