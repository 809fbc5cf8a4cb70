"""Dynamic configs: single changes (KIP-339), and the older way of all at once (KIP-133).

A resource's changes stand or fall together; resources stand or fall alone. What results for a
resource is checked as a whole, so that values which must go together are seen together. A
replacement comes down to the same changes: what is not named any more is deleted.

Topics are checked against the table of topic configs, groups by a function that the shell gives.
Broker configs are not checked for name and value here: only the broker knows which of them it can
change while it runs, and it has checked before it forwards (a value that is no use is ignored by
brokers). Their records are written even if the value is the same, to make brokers read again what
it refers to (KAFKA-14136).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from fencepost.log.config import TOPIC_CONFIGS, validate_topic_configs
from fencepost.log.configdef import ConfigDef, ConfigError, ConfigType
from fencepost.machines.controller.config import (
    MAX_CONFIG_CHARACTERS,
    MAX_CONFIG_VALUE_CHARACTERS,
    MAX_CONFIGS,
    ControllerConfig,
)
from fencepost.machines.controller.decision import MAX_RECORDS, TOO_MANY_RECORDS, Refused
from fencepost.machines.controller.min_isr import check_min_isr, cleared_elr
from fencepost.machines.controller.names import check_topic_name
from fencepost.machines.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
)
from fencepost.machines.image.model import CORDONED_SINCE
from fencepost.wire.api import alter_configs as replacing, incremental_alter_configs as changing
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import ConfigRecord

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations on a config, as in requests."""

RESOURCE_TYPES: Final = frozenset(
    {
        RESOURCE_TOPIC,
        RESOURCE_BROKER,
        RESOURCE_BROKER_LOGGER,
        RESOURCE_CLIENT_METRICS,
        RESOURCE_GROUP,
    }
)
"""The types of resources that Kafka knows."""

RESOURCE_TWICE: Final = "Each resource must appear at most once."
"""What the answer says of a resource that a request names twice."""

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"

_BROKER_ID_MAX = (1 << 31) - 1

Changes = dict[str, str | None]
"""New values by name; None for a config that is to be gone."""


class Resource(Protocol):
    """What requests and results of both APIs have in common."""

    resource_type: int
    resource_name: str


class Result(Resource, Protocol):
    """What became of one resource."""

    error_code: int
    error_message: str | None


Asked = TypeVar("Asked", bound=Resource)
Answer = TypeVar("Answer", bound=Result)


def decide_config_changes(
    image: ClusterImage, config: ControllerConfig, request: changing.IncrementalAlterConfigsRequest
) -> tuple[list[changing.AlterConfigsResourceResponse], list[Message]]:
    """One result per resource of the request, and the records."""

    def changes(
        asked: changing.AlterConfigsResource, definitions: Mapping[str, ConfigDef] | None
    ) -> Changes:
        present = image.configs_of(asked.resource_type, asked.resource_name)
        return {
            change.name: changed_value(definitions, change, present.get(change.name))
            for change in asked.configs
        }

    return _decide_each(
        image, config, request.resources, changes, changing.AlterConfigsResourceResponse
    )


def decide_config_replacements(
    image: ClusterImage, config: ControllerConfig, request: replacing.AlterConfigsRequest
) -> tuple[list[replacing.AlterConfigsResourceResponse], list[Message]]:
    """One result per resource of the request, and the records."""

    def changes(
        asked: replacing.AlterConfigsResource, definitions: Mapping[str, ConfigDef] | None
    ) -> Changes:
        new: Changes = {item.name: item.value for item in asked.configs}
        present = image.configs_of(asked.resource_type, asked.resource_name)
        return {**new, **dict.fromkeys(name for name in present if name not in new)}

    return _decide_each(
        image, config, request.resources, changes, replacing.AlterConfigsResourceResponse
    )


def _decide_each(
    image: ClusterImage,
    config: ControllerConfig,
    resources: Sequence[Asked],
    changes_of: Callable[[Asked, Mapping[str, ConfigDef] | None], Changes],
    make_result: Callable[..., Answer],
) -> tuple[list[Answer], list[Message]]:
    named = Counter((r.resource_type, r.resource_name) for r in resources)
    results: list[Answer] = []
    records: list[Message] = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        result = make_result(resource_type=kind, resource_name=name, error_message=None)
        try:
            if named[kind, name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, RESOURCE_TWICE)
            check_items(resource)
            changes = changes_of(resource, _definitions(config, kind))
            _check_resource_name(kind, name)
            check_min_isr(image, kind, name, changes)
            records += _change_records(image, config, kind, name, changes)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    if len(records) > MAX_RECORDS:
        for result in results:
            result.error_code, result.error_message = ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS
        return results, []
    return results, [*records, *cleared_elr(image, records)]


def check_items(resource: Any) -> None:
    """Refuse a resource of either API that names a config twice, or gives one null as its value.

    Likewise one with more configs than a resource may have: the rest is not looked at then.
    """
    if len(resource.configs) > MAX_CONFIGS:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"{len(resource.configs)} configs of one resource, the most is {MAX_CONFIGS}",
        )
    names = [item.name for item in resource.configs]
    if len(set(names)) != len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        item.name
        for item in resource.configs
        if item.value is None and getattr(item, "config_operation", SET) != DELETE
    ]
    if nulls:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )


def _change_records(
    image: ClusterImage,
    config: ControllerConfig,
    kind: int,
    resource_name: str,
    changes: Changes,
) -> list[ConfigRecord]:
    present = image.configs_of(kind, resource_name)
    merged = {**present, **changes}
    values = {name: value for name, value in merged.items() if value is not None}
    _check_values(config, kind, values, changes)
    _check_cordoning(image, kind, changes)
    _check_size(present, values)
    _check_exists(image, config, kind, resource_name)
    return [
        ConfigRecord(resource_type=kind, resource_name=resource_name, name=name, value=value)
        for name, value in changes.items()
        if value != present.get(name) or kind == RESOURCE_BROKER
    ]


def _definitions(config: ControllerConfig, kind: int) -> Mapping[str, ConfigDef] | None:
    """The table that says which configs of the resource type are lists; None: none of them is.

    Kafka appends to no config of a group, whatever its type.
    """
    if kind == RESOURCE_TOPIC:
        return TOPIC_CONFIGS
    if kind == RESOURCE_BROKER:
        return config.broker_configs
    if kind not in RESOURCE_TYPES:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {kind}")
    if kind not in config.resource_checks:
        raise Refused(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs here")
    return None


def _check_resource_name(kind: int, name: str) -> None:
    if kind == RESOURCE_TOPIC:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
    elif kind == RESOURCE_BROKER:
        if name and not (name.isascii() and name.isdigit() and int(name) <= _BROKER_ID_MAX):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker id")
    elif not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def changed_value(
    definitions: Mapping[str, ConfigDef] | None,
    change: changing.AlterableConfig,
    present: str | None,
) -> str | None:
    """What the config is to be; None if it is to be gone. Refused."""
    operation = change.config_operation
    if operation == DELETE:
        return None
    if operation not in (SET, APPEND, SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    value = change.value
    if operation == SET or value is None:
        return value
    definition = None if definitions is None else definitions.get(change.name)
    if definition is None or definition.type is not ConfigType.LIST:
        name = "APPEND" if operation == APPEND else "SUBTRACT"
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Can't {name} to key {change.name} because its type is not LIST.",
        )
    if present is None:
        present = definition.format(definition.default) or ""
    items = _items(present) if present.strip() else []
    given = _items(value)
    if operation == APPEND:
        items += [item for item in dict.fromkeys(given) if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _items(text: str) -> list[str]:
    """The items of a list, as Kafka parts it: without the empty ones behind the last comma.

    What is empty as a whole, or has two commas in a row, has an empty item. It is appended as it
    is, and the validator of the config refuses it.
    """
    items = text.split(",")
    if len(items) > 1:
        while items and not items[-1]:
            items.pop()
    return [item.strip() for item in items]


def _check_values(
    config: ControllerConfig,
    kind: int,
    values: Mapping[str, str],
    changes: Changes,
) -> None:
    """Refuse values that are too long, of unknown configs, or not allowed; INVALID_CONFIG."""
    for name, value in changes.items():
        if value is not None and len(value) > MAX_CONFIG_VALUE_CHARACTERS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{name} has {len(value)} characters, the most is {MAX_CONFIG_VALUE_CHARACTERS}",
            )
    try:
        if kind == RESOURCE_TOPIC:
            validate_topic_configs(values, config.topic_defaults)
        elif kind in config.resource_checks:
            config.resource_checks[kind](values)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, error.answer) from None


def _check_cordoning(image: ClusterImage, kind: int, changes: Changes) -> None:
    """Refuse to cordon directories where the metadata cannot say which are; INVALID_CONFIG."""
    if (
        kind == RESOURCE_BROKER
        and changes.get(CORDONED_LOG_DIRS) is not None
        and not image.has_cordoned_directories
    ):
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED_LOG_DIRS} needs a metadata.version of at least {CORDONED_SINCE}",
        )


def _check_size(present: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse to store more configs of a resource than fit. What is too much already may shrink."""
    for unit, most, before, after in (
        ("configs", MAX_CONFIGS, len(present), len(values)),
        ("characters", MAX_CONFIG_CHARACTERS, _characters(present), _characters(values)),
    ):
        if after > max(most, before):
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"the resource's configs would be {after} {unit}, the most is {most}",
            )


def _characters(values: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in values.items())


def _check_exists(image: ClusterImage, config: ControllerConfig, kind: int, name: str) -> None:
    """Refuse configs of topics and nodes that there are not."""
    if kind == RESOURCE_TOPIC:
        if name not in image.topics_by_name:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
    elif kind == RESOURCE_BROKER and name:
        node_id = int(name)
        nodes = (image.brokers, image.controllers, {config.node_id})
        if not any(node_id in ids for ids in nodes):
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")
