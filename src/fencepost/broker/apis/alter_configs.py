"""AlterConfigs (key 33) v0-2: all configs of topics, brokers and groups, the older way (KIP-133).

What a resource has and the request does not name is deleted: two callers at once easily undo each
other's work, so IncrementalAlterConfigs is the better way since 2.3. Old clients know only this.

A resource that is named twice is 42 both times; so is one with a config named twice, or without a
value. Otherwise, by type:

* topic: the controller's rules (`machines.controller.configs`).
* broker: this broker's id, or the empty name for all brokers, else 42. Which configs can change
  while a broker runs is Kafka's to say (`config_keys.DYNAMIC_BROKER_KEYS`); another one, one for
  single brokers at the empty name, or a value that is not allowed or does not go with the others,
  is 42. A config that no broker has is stored with any value (KIP-226).
* group: as with `incremental_alter_configs`.
* anything else, loggers too: 42, on a controller's listener 35 if the type does not exist.

Resources stand or fall alone. The answer comes when what could be done is committed and in force on
this node. A controller that is not the active one answers 41; a broker looks for the active one,
and what it would have to decide is 7 if there is none in a minute.

Deviation: see `incremental_alter_configs`.
"""

from __future__ import annotations

from fencepost.broker.cluster.config_changes import (
    ResourceRefused,
    check_broker_values,
    check_cordoned_by_controller,
    check_own_id,
    decide_by_resource,
)
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, WHOLE_REQUEST_ELEMENTS_MAX, handles
from fencepost.machines.controller.configs import RESOURCE_TYPES
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, ClusterImage
from fencepost.wire.api.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from fencepost.wire.errors import ErrorCode

_REPLACEABLE = RESOURCE_TYPES - {RESOURCE_BROKER_LOGGER}


@handles(
    AlterConfigsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
)
def handle(
    context: PendingRequest,
    request: AlterConfigsRequest,
    *,
    forwarder: Forwarder,
    metadata: MetadataCache,
    settings: Settings,
) -> None:
    """Check what is this broker's to check, and let the controller decide the rest."""

    def is_done_here(resource: AlterConfigsResource) -> bool:
        _check(metadata.image, settings, resource)
        return False

    decide_by_resource(
        context,
        request,
        is_done_here,
        AlterConfigsResourceResponse,
        AlterConfigsResponse,
        lambda asked, on_reply: forwarder.forward(context, asked, on_reply),
    )


@handles(
    AlterConfigsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
)
def handle_here(
    context: PendingRequest, request: AlterConfigsRequest, *, controller: ControllerService
) -> None:
    """Let the controller decide; answer when that is committed."""

    def is_done_here(resource: AlterConfigsResource) -> bool:
        if not context.is_forwarded and controller.image is not None:
            values = {item.name: item.value for item in resource.configs}
            check_cordoned_by_controller(controller.image, resource, values)
        return False

    decide_by_resource(
        context,
        request,
        is_done_here,
        AlterConfigsResourceResponse,
        AlterConfigsResponse,
        lambda asked, on_reply: controller.serve(asked, on_reply, context.api_version, context),
    )


def _check(image: ClusterImage, settings: Settings, resource: AlterConfigsResource) -> None:
    """Refuse what does not make sense, or could not be put into force here."""
    if resource.resource_type not in _REPLACEABLE:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}"
        )
    if resource.resource_type == RESOURCE_BROKER:
        if resource.resource_name:
            check_own_id(settings.startup, resource.resource_name)
        values = {item.name: item.value for item in resource.configs}
        check_broker_values(resource.resource_name, values, {}, image, settings)
