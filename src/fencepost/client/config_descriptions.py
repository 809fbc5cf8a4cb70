"""The configs of many resources in one request, with what each would be if it were not set.

`Admin.describe_configs` is about one resource; what compares brokers or lists topics needs many.
The configs of a broker are its own to tell, so they take a request for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.admin import CONFIG_SOURCES, DEFAULT_SOURCE, described
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import Node
from fencepost.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.secrets import is_secret_config

NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class DescribedConfig(NamedTuple):
    """A config in force. `value` is None where there is none or it is sensitive: the broker says
    so, or its name does. `default` is what it would be if neither this resource nor, of a topic or
    group, its broker set it (None: not told); `inherited` is what it would be without this
    resource's own. Where a config of another name gives these, maybe in another unit, they have its
    name: "log.retention.hours=168"."""

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    default: str | None
    inherited: str | None
    is_default: bool


def describing_many_configs(
    view: ClusterView[Any],
    resource_type: int,
    resource_names: Sequence[str],
    names: Iterable[str] | None = None,
    *,
    node: Node | None = None,
) -> Conversation[dict[str, list[DescribedConfig]]]:
    """The configs of these resources by name of the resource, each list in order of the configs'
    names; `names` chooses (None: all). `node` is the broker to ask, any if None. Resources that
    are not there are left out. BrokerError for any other refusal."""
    keys = None if names is None else list(names)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=keys
            )
            for name in resource_names
        ],
        include_synonyms=True,
    )
    if node is None:
        response = yield from asking.request_any(view, request)
    else:
        response = yield from asking.request_node(node, request)
    found = {}
    for result in response.results:
        if result.error_code in NOT_THERE:
            continue
        if result.error_code:
            what = f"cannot describe configs of {described(resource_type, result.resource_name)}"
            raise BrokerError.of(result.error_code, f"{what}: {result.error_message or ''}")
        found[result.resource_name] = sorted(map(_config, result.configs))
    return found


def _config(entry: DescribeConfigsResourceResult) -> DescribedConfig:
    sensitive = entry.is_sensitive or is_secret_config(entry.name)
    is_default = entry.config_source == DEFAULT_SOURCE or (
        entry.config_source < 0 and entry.is_default
    )
    default = entry.value if is_default else _behind(entry, lambda one: one == DEFAULT_SOURCE)
    inherited = _behind(entry, lambda one: one != entry.config_source)
    if inherited is None:
        inherited = default
    return DescribedConfig(
        entry.name,
        None if sensitive else entry.value,
        CONFIG_SOURCES.get(entry.config_source, str(entry.config_source)),
        entry.read_only,
        sensitive,
        None if sensitive else default,
        None if sensitive else inherited,
        is_default,
    )


def _behind(entry: DescribeConfigsResourceResult, is_wanted: Callable[[int], bool]) -> str | None:
    """The first value from a wanted source that stands behind the one in force."""
    for one in entry.synonyms:
        if is_wanted(one.source):
            is_same = one.name == entry.name or one.value is None
            return one.value if is_same else f"{one.name}={one.value}"
    return None
