"""IncrementalAlterConfigs (key 44) v0-1: change single configs of topics, brokers and loggers.

A resource that is named twice is 42 both times. Otherwise, by type:

* topic: the controller's rules (`machines.controller.configs`).
* broker: this broker's id, or the empty name for all brokers, else 42. Only configs that topics
  fall back to can change while a broker runs (`config_view.DYNAMIC_BROKER_KEYS`); another one, or a
  value that is not allowed or does not go with the others, is 42. Any key may be deleted.
* broker logger: this broker's id, else 42. Unknown loggers and levels are 40; only set and delete
  are possible, and the root logger's level cannot be deleted: 42.
* anything else: the controller refuses it with 42.

Resources stand or fall alone. The answer comes when what could be done is committed and in force on
this node. On a controller's listener the controller decides over everything; loggers it has none.
A controller that is not the active one answers 41; a broker looks for the active one, and what it
would have to decide is 7 if there is none in a minute.

Deviations: broker configs that do not exist are refused, where Kafka stores them; appending to and
subtracting from lists is for topics only, for brokers it is 40.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fencepost.broker import loggers
from fencepost.broker.config_keys import BROKER_CONFIGS
from fencepost.broker.config_view import DYNAMIC_BROKER_KEYS, topic_defaults
from fencepost.broker.controller_requests import decide_here
from fencepost.broker.registry import BROKER, CONTROLLER, RequestContext, handles
from fencepost.log.config import LogConfig
from fencepost.log.configdef import ConfigError
from fencepost.machines.image import RESOURCE_BROKER
from fencepost.wire.api.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker.node import Node

RESOURCE_BROKER_LOGGER = 8
SET, DELETE = 0, 1


class _Refused(Exception):
    """The resource stays as it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@handles(IncrementalAlterConfigsRequest, versions="0-1", listeners=(BROKER,))
def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    """Check what is this broker's to check, and let the controller decide the rest."""
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    results: list[AlterConfigsResourceResponse | None] = []
    forwarded: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, "The resource is named more than once.")
            if resource.resource_type == RESOURCE_BROKER_LOGGER:
                _change_loggers(context.node, resource, request.validate_only)
                results.append(_result(resource))
                continue
            if resource.resource_type == RESOURCE_BROKER:
                _check_broker(context.node, resource)
            forwarded.append(resource)
            results.append(None)
        except _Refused as refused:
            results.append(_result(resource, refused.code, refused.message))
    _forward(context, request, forwarded, results)


@handles(IncrementalAlterConfigsRequest, versions="0-1", listeners=(CONTROLLER,))
def handle_here(context: RequestContext, request: IncrementalAlterConfigsRequest) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(context, request, _all_refused)


def _all_refused(
    request: IncrementalAlterConfigsRequest, error: ErrorCode
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[_result(resource, error) for resource in request.resources]
    )


def _forward(
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    forwarded: list[AlterConfigsResource],
    results: list[AlterConfigsResourceResponse | None],
) -> None:
    """Have the controller decide over `forwarded`; its results go where `results` has none."""
    asked = IncrementalAlterConfigsRequest(resources=forwarded, validate_only=request.validate_only)

    def on_reply(error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE:
            decided = iter([_result(resource, error) for resource in forwarded])
        else:
            decided = iter(reply.responses)
        responses = [next(decided) if result is None else result for result in results]
        context.reply(IncrementalAlterConfigsResponse(responses=responses))

    context.node.forwarder.forward(context, asked, on_reply)


def _result(
    resource: AlterConfigsResource, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=int(code),
        error_message=message,
    )


# -- broker configs ------------------------------------------------------------------------------


def _check_broker(node: Node, resource: AlterConfigsResource) -> None:
    """Refuse what this broker could not put into force."""
    if resource.resource_name:
        _check_own_id(node, resource.resource_name)
    merged: dict[str, Any] = topic_defaults(node.config, node.image)
    for change in resource.configs:
        if change.config_operation == DELETE:
            continue
        if change.name not in DYNAMIC_BROKER_KEYS:
            raise _Refused(
                ErrorCode.INVALID_REQUEST, f"{change.name} cannot change while a broker runs."
            )
        if change.config_operation != SET or change.value is None:
            continue  # the controller refuses these
        try:
            merged[change.name] = BROKER_CONFIGS[change.name].parse(change.value)
        except ConfigError as error:
            raise _Refused(ErrorCode.INVALID_REQUEST, str(error)) from None
    try:
        LogConfig.from_props({}, merged)
    except ConfigError as error:
        raise _Refused(ErrorCode.INVALID_REQUEST, str(error)) from None


def _check_own_id(node: Node, name: str) -> None:
    own = str(node.config.node_id)
    if name != own:
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {own}; what is meant for {name!r} has to be sent elsewhere.",
        )


# -- loggers -------------------------------------------------------------------------------------


def _change_loggers(node: Node, resource: AlterConfigsResource, validate_only: bool) -> None:
    """Set levels, all of the resource's or none."""
    _check_own_id(node, resource.resource_name)
    changes: dict[str, str | None] = {}
    for change in resource.configs:
        if change.name in changes:
            raise _Refused(ErrorCode.INVALID_REQUEST, f"{change.name} is changed more than once.")
        changes[change.name] = _new_level(change.name, change.config_operation, change.value)
    if validate_only:
        return
    for name, level in changes.items():
        loggers.set_level(name, level)


def _new_level(name: str, operation: int, value: str | None) -> str | None:
    """The level to set, None to fall back to the logger above."""
    if operation not in (SET, DELETE):
        raise _Refused(ErrorCode.INVALID_REQUEST, "Levels of loggers can be set and deleted only.")
    if operation == DELETE and name == loggers.ROOT:
        raise _Refused(ErrorCode.INVALID_REQUEST, "The root logger has to have a level.")
    if not loggers.exists(name):
        raise _Refused(ErrorCode.INVALID_CONFIG, f"There is no logger {name!r}.")
    if operation == DELETE:
        return None
    if value is None:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"No level for logger {name!r}.")
    if value.strip() not in loggers.LEVELS:
        raise _Refused(
            ErrorCode.INVALID_CONFIG, f"{value!r} is none of {', '.join(loggers.LEVELS)}."
        )
    return value.strip()
