"""IncrementalAlterConfigs (key 44) v0-1: change single configs of topics, brokers and loggers.

A resource that is named twice is 42 both times. Otherwise, by type:

* topic: the controller's rules (`machines.controller.configs`).
* broker: this broker's id, or the empty name for all brokers, else 42. Which configs can change
  while a broker runs is Kafka's to say (`config_keys.DYNAMIC_BROKER_KEYS`); another one, one for
  single brokers at the empty name, or a value that is not allowed or does not go with the others,
  is 42. Any key may be deleted. A config that no broker has is stored with any value (KIP-226), and
  described without it.
* broker logger: this broker's id, else 42. Unknown loggers and levels are 40; only set and delete
  are possible, and the root logger's level cannot be deleted: 42.
* group: the controller's rules; unknown names, values that are not allowed or out of this cluster's
  bounds, and a session that is not longer than a heartbeat interval are 40, the empty name 42.
  Nothing is appended to them. The group need not exist.
* client metrics: the controller refuses them with 42, as they are not offered; a type that does not
  exist is 42, too.

Resources stand or fall alone. The answer comes when what could be done is committed and in force on
this node. On a controller's listener the controller decides over everything but its own loggers; a
type that does not exist is 35 there. A controller that is not the active one answers 41; a broker
looks for the active one, and what it would have to decide is 7 if there is none in a minute.

Deviations: unknown configs that begin with `fencepost.` are refused, and those that must not be
ignored (`config_keys.REFUSED`, configs of single listeners among them), where Kafka stores any; so
is every change of `listeners` and `listener.security.protocol.map`, which Kafka allows for
listeners that clients are not told of.
"""

from __future__ import annotations

from fencepost.broker.cluster.config_changes import (
    ResourceRefused,
    check_broker_values,
    check_cordoned_by_controller,
    check_own_id,
    decide_by_resource,
)
from fencepost.broker.cluster.controller_access import config_refusal
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config import loggers
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.broker.config.prefixed_keys import definition_of
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.log.configdef import ConfigType
from fencepost.machines.controller.configs import (
    APPEND,
    CORDONED_LOG_DIRS,
    DELETE,
    RESOURCE_TYPES,
    SET,
    SUBTRACT,
    changed_value,
)
from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, ClusterImage
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import ALTER_CLUSTER_CONFIGS
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from fencepost.wire.errors import ErrorCode


@handles(
    IncrementalAlterConfigsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest,
    request: IncrementalAlterConfigsRequest,
    *,
    access: Access,
    forwarder: Forwarder,
    metadata: MetadataCache,
    settings: Settings,
) -> None:
    """Check what is this broker's to check, and let the controller decide the rest."""
    own = settings.startup

    def is_done_here(resource: AlterConfigsResource) -> bool:
        if resource.resource_type not in RESOURCE_TYPES:
            raise ResourceRefused(
                ErrorCode.INVALID_REQUEST,
                f"Unknown resource type {resource.resource_type}",
            )
        if resource.resource_type == RESOURCE_BROKER_LOGGER:
            _check_permission(access.refusal(context, ALTER_CLUSTER_CONFIGS))
            _change_loggers(own, resource, request.validate_only)
            return True
        if resource.resource_type == RESOURCE_BROKER:
            _check_broker(metadata.image, settings, resource)
        return False

    decide_by_resource(
        context,
        request,
        is_done_here,
        AlterConfigsResourceResponse,
        IncrementalAlterConfigsResponse,
        lambda asked, on_reply: forwarder.forward(context, asked, on_reply),
    )


@handles(
    IncrementalAlterConfigsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest,
    request: IncrementalAlterConfigsRequest,
    *,
    access: Access,
    controller: ControllerService,
    config: BrokerConfig,
) -> None:
    """Set this node's loggers, and let the controller decide the rest."""

    def is_done_here(resource: AlterConfigsResource) -> bool:
        if resource.resource_type != RESOURCE_BROKER_LOGGER:
            if not context.is_forwarded and controller.image is not None:
                _check_cordoned(controller.image, resource)
            return False
        _check_permission(config_refusal(access, context, resource))
        _change_loggers(config, resource, request.validate_only)
        return True

    decide_by_resource(
        context,
        request,
        is_done_here,
        AlterConfigsResourceResponse,
        IncrementalAlterConfigsResponse,
        lambda asked, on_reply: controller.serve(asked, on_reply, context.api_version, context),
    )


def _check_broker(image: ClusterImage, settings: Settings, resource: AlterConfigsResource) -> None:
    """Refuse what this broker could not put into force."""
    if resource.resource_name:
        check_own_id(settings.startup, resource.resource_name)
    name = resource.resource_name
    present = image.broker_configs(settings.startup.node_id if name else None)
    changes: dict[str, str | None] = {}
    gone: set[str] = set()
    for change in resource.configs:
        if change.config_operation == DELETE:
            gone.add(change.name)
            continue
        _check_is_list(change)
        try:
            definition = definition_of(change.name)
            known = {} if definition is None else {change.name: definition}
            changes[change.name] = changed_value(known, change, present.get(change.name))
        except Refused as refused:
            raise ResourceRefused(refused.error, refused.message) from None
    kept = {key: text for key, text in present.items() if key not in gone}
    check_broker_values(name, changes, kept, image, settings)


def _check_cordoned(image: ClusterImage, resource: AlterConfigsResource) -> None:
    """Refuse what only the broker may be asked for."""
    present = image.configs_of(resource.resource_type, resource.resource_name)
    for change in resource.configs:
        if change.name == CORDONED_LOG_DIRS:
            value = changed_value(BROKER_CONFIGS, change, present.get(change.name))
            check_cordoned_by_controller(image, resource, {change.name: value})


def _check_is_list(change: AlterableConfig) -> None:
    """Refuse to append to, or subtract from, what is no list."""
    if change.config_operation not in (APPEND, SUBTRACT):
        return
    definition = definition_of(change.name)
    if definition is None:
        raise ResourceRefused(ErrorCode.INVALID_CONFIG, f"Unknown config name: {change.name}")
    if definition.type is not ConfigType.LIST:
        name = "append" if change.config_operation == APPEND else "subtract"
        raise ResourceRefused(
            ErrorCode.INVALID_CONFIG,
            f"Config value {name} is not allowed for config key: {change.name}",
        )


# -- loggers -------------------------------------------------------------------------------------


def _check_permission(refusal: ErrorCode) -> None:
    """Refuse a client that may not change the loggers of this node."""
    if refusal:
        raise ResourceRefused(refusal, None)


def _change_loggers(
    config: BrokerConfig, resource: AlterConfigsResource, validate_only: bool
) -> None:
    """Set levels, all of the resource's or none."""
    check_own_id(config, resource.resource_name, RESOURCE_BROKER_LOGGER)
    changes: dict[str, str | None] = {}
    for change in resource.configs:
        changes[change.name] = _new_level(change.name, change.config_operation, change.value)
    if validate_only:
        return
    for name, level in changes.items():
        loggers.set_level(name, level)


def _new_level(name: str, operation: int, value: str | None) -> str | None:
    """The level to set, None to fall back to the logger above."""
    if operation not in (SET, DELETE):
        kind = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}.get(operation)
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operations type {operation}"
            if kind is None
            else f"{kind} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation == DELETE and name == loggers.ROOT:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if not loggers.exists(name):
        raise ResourceRefused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == DELETE or value is None:
        return None
    if value.strip() not in loggers.LEVELS:
        raise ResourceRefused(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level."
            f" Valid log levels are {', '.join(sorted(loggers.LEVELS))}",
        )
    return value.strip()
