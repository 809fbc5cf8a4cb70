"""Changes of configs on their way to the controller: what a node checks and does itself.

IncrementalAlterConfigs and AlterConfigs share this. A node looks at each resource first: it may
refuse it, do what is asked alone (levels of its own loggers), or leave it to the active controller.
What is left goes there as one request, and the results come back into their places. A request with
nothing left in it goes nowhere.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fencepost.broker.config.broker_config import BrokerConfig, check_pairs, is_foreign
from fencepost.broker.config.keys import BROKER_CONFIGS, UpdateMode
from fencepost.broker.config.prefixed_keys import base_key, definition_of, listener_of
from fencepost.broker.config.settings import Settings
from fencepost.log.config import LogConfig
from fencepost.log.configdef import ConfigError
from fencepost.machines.controller.configs import (
    CORDONED_LOG_DIRS,
    RESOURCE_TWICE,
    check_items,
)
from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, ClusterImage
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import ReplacedText

Ask = Callable[[Message, Callable[[ErrorCode, Any], None]], None]
"""Has the controller decide over a request."""


FIXED_WHILE_RUNNING: Final = frozenset({"listeners", "listener.security.protocol.map"})
"""Dynamic configs that may be set to what they are, and to nothing else.

Kafka changes listeners of KRaft brokers only where clients are not told of them.
"""

FIXED_LOGIN_KEYS: Final = frozenset(
    {"sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"}
)
"""Dynamic configs of which a listener keeps what it began with, in Kafka too.

Kafka accepts such a change with the prefix of a listener, and the listener does not follow: an
operator who takes a mechanism away would believe that no client logs in by it any more.
"""

REFUSING_ALL_CLIENTS: Final = {"max.connections": 0, "max.connection.creation.rate": 0}
"""Values with which no client could connect to revert them, not even after a restart.

Kafka accepts them. In a file they are allowed, which can be edited.
"""

THREAD_KEYS: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)
"""Numbers of threads: one change may at most halve or double them, as in Kafka."""


KEY_STORE_KEYS: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Dynamic configs that need the prefix of a listener, as in Kafka."""


class ResourceRefused(Exception):
    """The resource stays as it is."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = code
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
                raise ResourceRefused(ErrorCode.INVALID_REQUEST, RESOURCE_TWICE)
            check_items(resource)
            if any(isinstance(item.value, ReplacedText) for item in resource.configs):
                raise ResourceRefused(ErrorCode.INVALID_CONFIG, "A value is not UTF-8.")
            if not is_done_here(resource):
                left.append(resource)
                result = None
        except (Refused, ResourceRefused) as refused:
            result.error_code, result.error_message = int(refused.error), refused.message
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


def is_integer(text: str) -> bool:
    """Whether Java would read the name of a resource as a node's id."""
    return re.fullmatch(r"[+-]?[0-9]{1,10}", text) is not None


def check_own_id(config: BrokerConfig, name: str, kind: int = RESOURCE_BROKER) -> None:
    """Refuse what is meant for another node; `kind` is the resource's type."""
    own = config.node_id
    if not is_integer(name):
        reason = f"Node id must be an integer, but it is: {name}"
    elif name == str(own):
        return
    elif kind == RESOURCE_BROKER_LOGGER:
        reason = f"Unexpected node id. Expected {own}, but received {name}"
    else:
        reason = f"Unexpected broker id, expected {own}, but received {name}"
    raise ResourceRefused(ErrorCode.INVALID_REQUEST, reason)


def check_cordoned_by_controller(
    image: ClusterImage, resource: Any, values: Mapping[str, str | None]
) -> None:
    """Refuse to cordon more directories of a broker than are, if the controller is asked for it.

    A broker knows its directories, and checks that they are there before it forwards the request.
    The controller does not: asked by a client it takes directories away, for a broker that is not
    running (KIP-1066).
    """
    value = values.get(CORDONED_LOG_DIRS)
    if resource.resource_type != RESOURCE_BROKER or not value:
        return
    present = image.configs_of(RESOURCE_BROKER, resource.resource_name).get(CORDONED_LOG_DIRS, "")
    added = set(value.split(",")) - set(present.split(","))
    if added:
        raise ResourceRefused(
            ErrorCode.INVALID_CONFIG,
            f"{CORDONED_LOG_DIRS} may only lose directories through a controller; ask the broker to"
            f" add {', '.join(sorted(added))}",
        )


def check_broker_values(
    name: str,
    values: Mapping[str, str | None],
    kept: Mapping[str, str],
    image: ClusterImage,
    settings: Settings,
) -> None:
    """Refuse dynamic configs that this broker could not put into force while it runs.

    `name` is the resource's, empty for all brokers. `values` are the new ones, `kept` what the
    resource has besides. A key that no broker has may have any value (KIP-226).
    """
    config = settings.startup
    given = {key: text for key, text in values.items() if text is not None}
    _check_keys(name, given)
    for key, text in given.items():
        _check_value(key, text, settings)
    shared = image.broker_configs() if name else {**kept, **given}
    own = {**kept, **given} if name else image.broker_configs(config.node_id)
    typed: dict[str, Any] = {}
    for key, text in {**shared, **own}.items():
        definition = definition_of(key)
        if definition is not None and definition.is_dynamic:
            with contextlib.suppress(ConfigError):  # of another version, and not in force
                typed[key] = definition.parse(text)
    try:
        check_pairs(lambda key: typed[key] if key in typed else config.get(key))
        LogConfig.from_props({}, {**config.topic_defaults, **typed})
        if name:
            settings.check_listeners(values, typed)
    except ConfigError as error:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, error.answer) from None


def _check_keys(name: str, keys: Iterable[str]) -> None:
    """Refuse keys that cannot change while a broker runs, or not for all brokers at once."""
    known = {key: one for key in keys if (one := definition_of(key)) is not None}
    fixed = [key for key, definition in known.items() if not definition.is_dynamic]
    fixed += [key for key in keys if key not in known and not is_foreign(key)]
    if fixed:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]",
        )
    without = sorted(KEY_STORE_KEYS & known.keys())
    if without:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener"
            f" prefix: [{', '.join(without)}]",
        )
    single = [key for key, one in known.items() if one.mode is UpdateMode.PER_BROKER]
    if single and not name:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(sorted(single))}]",
        )


def _check_value(key: str, text: str, settings: Settings) -> None:
    """Refuse a dynamic config that may not be set to this."""
    definition = definition_of(key)
    if definition is None:
        return
    try:
        value = definition.parse(text)
    except ConfigError as error:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, error.answer) from None
    if base_key(key) in FIXED_LOGIN_KEYS:
        _check_login_key(key, value, settings)
    if key not in BROKER_CONFIGS:
        return
    present = settings.get(key)
    if key in FIXED_WHILE_RUNNING and value != present:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            f"{key} cannot change while a broker of a KRaft cluster runs: its listeners are"
            " registered with the controller. Restart it with the new value.",
        )
    if REFUSING_ALL_CLIENTS.get(key) == value:
        raise ResourceRefused(
            ErrorCode.INVALID_REQUEST,
            f"{key}={value} would refuse every connection, also those that could take it back.",
        )
    if key in THREAD_KEYS:
        _check_threads(key, value, present)


def _check_login_key(key: str, value: Any, settings: Settings) -> None:
    """Refuse another value for a listener with SASL that the broker has."""
    base, startup = base_key(key), settings.startup
    for listener in [endpoint.name for endpoint in startup.listeners]:
        if not startup.protocol_of(listener).has_sasl:
            continue
        if key != base and listener_of(key) != listener.upper():
            continue
        config = startup.for_listener(listener)
        if (key != base or not config.has_own(base)) and config.get(base) != value:
            raise ResourceRefused(
                ErrorCode.INVALID_REQUEST,
                "Configs cannot be updated dynamically for existing listener"
                f" ListenerName({listener.upper()}), restart broker or create a new listener for"
                f" update: {key}",
            )


def _check_threads(key: str, value: int, present: int) -> None:
    if value > present * 2:
        reason = f"value should not be greater than double the current value {present}"
    elif value < max(1, present // 2):
        reason = f"value should be at least half the current value {present}"
    else:
        return
    raise ResourceRefused(
        ErrorCode.INVALID_REQUEST,
        f"Dynamic thread count update validation failed for {key}={value}, {reason}",
    )
