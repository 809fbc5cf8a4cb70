"""DescribeConfigs (key 32) v1-4: configs of topics, of this node and of its loggers.

Served by brokers and controllers; what is said of a broker below is true of either.

Every resource is answered alone, a repeated one twice. An empty list of keys means all keys, like
null; unknown keys are passed over, unless they are set: a broker's are shown without value,
documentation and type, as sensitive. Internal configs are shown where they are set.

* a resource whose configs the client may not see: 29, 30 or 31 by its type, before all else.
* topic: 17 for a name that cannot be one, 3 for a topic that does not exist.
* broker: this broker's id, or the empty name for the dynamic configs all brokers share; any other
  name is 42, because only the broker itself knows its file.
* broker logger: this broker's id; levels by logger.
* group: any name but the empty one (42); the group need not exist.
* anything else is 42.

Deviation: client metrics (16) are refused with 42, because they are not offered.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple

from fencepost.broker.cluster.config_changes import is_integer
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config import loggers
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.view import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    group_entries,
    shared_broker_entries,
    topic_entries,
)
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.log.names import invalid_topic_reason
from fencepost.machines.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
)
from fencepost.machines.image.acls import CLUSTER_NAME
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import (
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
)
from fencepost.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from fencepost.wire.errors import ErrorCode

MAX_RESOURCES_AND_KEYS = 20_000
"""A resource of three bytes is answered with thousands."""


class _Refused(Exception):
    """The resource cannot be described."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@handles(
    DescribeConfigsRequest,
    max_elements=MAX_RESOURCES_AND_KEYS,
    listeners=(BROKER, CONTROLLER),
)
def handle(
    context: RequestContext,
    request: DescribeConfigsRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    config: BrokerConfig,
) -> Generator[None, None, DescribeConfigsResponse]:
    """Describe each resource of the request, in its order.

    One that is asked for again, with the same keys, is answered once: clients keep one answer for
    each, and 50 KB of repetitions would otherwise make an answer of hundreds of megabytes.
    """
    results = []
    answered: set[tuple[int, str, frozenset[str]]] = set()
    for resource in request.resources:
        keys = frozenset(resource.configuration_keys or ())
        asked = (resource.resource_type, resource.resource_name, keys)
        if asked in answered:
            continue
        answered.add(asked)
        if refusal := _refusal(access, context, resource):
            results.append(_refused(resource, refusal))
        else:
            results.append(_describe(_Configs(metadata.image, config), request, resource))
        yield
    return DescribeConfigsResponse(results=results)


_PERMISSIONS = {
    RESOURCE_TOPIC: DESCRIBE_TOPIC_CONFIGS,
    RESOURCE_GROUP: DESCRIBE_GROUP_CONFIGS,
    RESOURCE_BROKER: DESCRIBE_CLUSTER_CONFIGS,
    RESOURCE_BROKER_LOGGER: DESCRIBE_CLUSTER_CONFIGS,
    RESOURCE_CLIENT_METRICS: DESCRIBE_CLUSTER_CONFIGS,
}


def _refusal(
    access: Access, context: RequestContext, resource: DescribeConfigsResource
) -> ErrorCode:
    """Why the client may not see the resource's configs; NONE if it may."""
    permission = _PERMISSIONS.get(resource.resource_type)
    if permission is None:
        return ErrorCode.NONE
    is_named = permission is not DESCRIBE_CLUSTER_CONFIGS
    return access.refusal(context, permission, resource.resource_name if is_named else CLUSTER_NAME)


def _refused(resource: DescribeConfigsResource, error: ErrorCode) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=int(error),
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


class _Configs(NamedTuple):
    """Where the values are."""

    image: ClusterImage
    config: BrokerConfig


def _describe(
    source: _Configs, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        result.configs = _configs_of(source, request, resource)
    except _Refused as refused:
        result.error_code = int(refused.code)
        result.error_message = refused.message
    return result


def _configs_of(
    source: _Configs, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    wanted = frozenset(resource.configuration_keys or ())
    kind, name = resource.resource_type, resource.resource_name
    if kind == RESOURCE_TOPIC:
        entries = _topic(source, name)
    elif kind == RESOURCE_BROKER:
        entries = _broker(source, name)
    elif kind == RESOURCE_GROUP:
        entries = _group(source, name)
    elif kind == RESOURCE_BROKER_LOGGER:
        _check_own_id(source, name, "")
        return [
            DescribeConfigsResourceResult(
                name=logger,
                value=level,
                config_source=int(ConfigSource.BROKER_LOGGER),
                documentation=None,
            )
            for logger, level in loggers.levels().items()
            if not wanted or logger in wanted
        ]
    else:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no configs here.")
    return [_result(request, entry) for entry in entries if not wanted or entry.name in wanted]


def _topic(source: _Configs, name: str) -> Iterable[ConfigEntry]:
    reason = invalid_topic_reason(name)
    if reason is not None:
        raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in source.image.topics_by_name:
        raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic_entries(source.config, source.image, source.image.topic_configs(name))


def _group(source: _Configs, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise _Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return group_entries(source.config, source.image, source.image.configs_of(RESOURCE_GROUP, name))


def _broker(source: _Configs, name: str) -> Iterable[ConfigEntry]:
    if name == "":
        return shared_broker_entries(source.image)
    _check_own_id(source, name, " or empty string,")
    return broker_entries(source.config, source.image)


def _check_own_id(source: _Configs, name: str, alternative: str) -> None:
    own = source.config.node_id
    if not name:
        raise _Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if not is_integer(name):
        raise _Refused(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if name != str(own):
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {own}{alternative} but received {name}",
        )


def _result(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.stack if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.text,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=value.key, value=value.text, source=int(value.source))
            for value in synonyms
        ],
        config_type=int(entry.definition.type),
        documentation=(entry.definition.doc or None) if request.include_documentation else None,
    )
