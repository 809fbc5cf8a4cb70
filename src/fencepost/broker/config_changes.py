"""Changes of configs on their way to the controller: what a node checks and does itself.

IncrementalAlterConfigs and AlterConfigs share this. A node looks at each resource first: it may
refuse it, do what is asked alone (levels of its own loggers), or leave it to the active controller.
What is left goes there as one request, and the results come back into their places. A request with
nothing left in it goes nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.broker.config_keys import BROKER_CONFIGS, DYNAMIC_BROKER_KEYS
from fencepost.broker.registry import RequestContext
from fencepost.log.config import LogConfig
from fencepost.log.configdef import ConfigError
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.broker.node import Node

Ask = Callable[[Message, Callable[[ErrorCode, Any], None]], None]
"""Has the controller decide over a request."""


class ResourceRefused(Exception):
    """The resource stays as it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def decide_by_resource(
    context: RequestContext,
    request: Any,
    is_done_here: Callable[[Any], bool],
    make_result: Callable[..., Any],
    make_response: Callable[..., Message],
    ask: Ask,
) -> None:
    """Answer a request of resources: `is_done_here` does or checks one, or raises ResourceRefused.

    A resource that is named twice is refused both times. `make_result` and `make_response` are the
    API's classes for one resource and for all.
    """
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    results: list[Any] = []
    left: list[Any] = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = make_result(resource_type=kind, resource_name=name, error_message=None)
        try:
            if named[kind, name] > 1:
                raise ResourceRefused(
                    ErrorCode.INVALID_REQUEST, "The resource is named more than once."
                )
            if not is_done_here(resource):
                left.append(resource)
                result = None
        except ResourceRefused as refused:
            result.error_code, result.error_message = int(refused.code), refused.message
        results.append(result)
    if not left:
        context.reply(make_response(responses=results))
        return

    def on_reply(error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE:
            decided = iter(all_refused(left, error, make_result))
        else:
            decided = iter(reply.responses)
        responses = [next(decided) if result is None else result for result in results]
        context.reply(make_response(responses=responses))

    ask(type(request)(resources=left, validate_only=request.validate_only), on_reply)


def all_refused(
    resources: Iterable[Any], error: ErrorCode, make_result: Callable[..., Any]
) -> list[Any]:
    """The same error for every resource."""
    return [
        make_result(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=int(error),
            error_message=None,
        )
        for resource in resources
    ]


def check_own_id(node: Node, name: str) -> None:
    """Refuse what is meant for another node."""
    own = str(node.config.node_id)
    if name != own:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {own}; what is meant for {name!r} has to be sent elsewhere.",
        )


def check_broker_values(values: Mapping[str, str | None], behind: Mapping[str, Any]) -> None:
    """Refuse values that brokers could not put into force while they run.

    `behind` has the values in force of the other configs, parsed. None is a value that the
    controller will work out, or refuse.
    """
    merged = dict(behind)
    for name, value in values.items():
        if name not in DYNAMIC_BROKER_KEYS:
            raise ResourceRefused(
                ErrorCode.INVALID_REQUEST, f"{name} cannot change while a broker runs."
            )
        if value is None:
            continue
        try:
            merged[name] = BROKER_CONFIGS[name].parse(value)
        except ConfigError as error:
            raise ResourceRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    try:
        LogConfig.from_props({}, merged)
    except ConfigError as error:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
