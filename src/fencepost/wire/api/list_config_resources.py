"""ListConfigResources (key 74): the resources that can have configs.

Sent by the administrator's client to any broker; what a resource's configs are says
DescribeConfigs. v0 lists client metrics subscriptions and nothing else, and was called
ListClientMetricsResources up to 4.0 (KIP-1000); v1 lists resources of any type (KIP-1142).
The request needs DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class ListConfigResourcesRequest(
    Request["ListConfigResourcesResponse"], api_key=74, versions="0-1", flexible="0+"
):
    """Asks for the names of resources."""

    resource_types: list[Int8] = field(
        "1+",
        doc=(
            "Types to list: 2 topics, 4 brokers, 8 broker loggers, 16 client metrics, 32 groups; "
            "any other is error 35. Empty for all of these. v0 has no choice: 16."
        ),
    )


class ConfigResource(Struct):
    """A resource."""

    resource_name: String = field(
        doc=(
            "Name of the topic, group or subscription, or id of the broker. v0 of 4.0 and before "
            "calls the field `Name`."
        ),
    )
    resource_type: Int8 = field(
        "1+",
        default=16,
        ignorable=True,
        doc="Type, numbered as in the request; in v0 all are 16.",
    )


class ListConfigResourcesResponse(
    Message, api_key=74, kind="response", versions="0-1", flexible="0+"
):
    """The resources; groups are those with configs, whether they have members or not."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(doc="0; 31, 35 there is a type the broker does not know.")
    config_resources: list[ConfigResource] = field(doc="The resources; empty on an error.")
