"""DescribeConfigs (key 32): the configs of topics, brokers and other resources.

Broker configs are asked of the broker itself; the others of any (KIP-133). v1 tells where a value
is from and what it hides (KIP-226), v2 throttles after the answer (KIP-219), v3 adds types and
documentation (KIP-569), v4 is flexible.

Sources: 1 topic, 2 one broker (dynamic), 3 all brokers (dynamic), 4 the server's file, 5 default,
6 broker logger, 7 client metrics, 8 group. Types: 0 unknown, 1 boolean, 2 string, 3 int, 4 short,
5 long, 6 double, 7 list, 8 class, 9 password.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import IF_CONFIG
from fencepost.wire.types import Bool, Int8, Int16, Int32, String


class DescribeConfigsResource(Struct):
    """A resource to describe."""

    resource_type: Int8 = field(
        doc="2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.",
    )
    resource_name: String = field(
        doc="Name of the resource; a broker's is its id, empty for the default of all.",
    )
    configuration_keys: list[String] | None = field(doc="Configs to list; null for all.")


class DescribeConfigsRequest(
    Request["DescribeConfigsResponse"], api_key=32, versions="0-4", flexible="4+"
):
    """Asks for configs."""

    resources: list[DescribeConfigsResource] = field(doc="The resources.")
    include_synonyms: Bool = field(
        "1+",
        doc="Whether to list the values that stand behind the one in force.",
    )
    include_documentation: Bool = field(
        "3+",
        doc="Whether to send the documentation of each config.",
    )


class DescribeConfigsSynonym(Struct):
    """A config that would give the value if no stronger one did; the first is the one in force."""

    name: String = field("1+", doc="Name of the config, which may differ between topic and broker.")
    value: String | None = field(
        "1+", nullable="0+", secret=IF_CONFIG, doc="Its value; null for a sensitive one."
    )
    source: Int8 = field("1+", doc="Where the value is from; see the module's text.")


class DescribeConfigsResourceResult(Struct):
    """A config of a resource."""

    name: String = field(doc="Name of the config.")
    value: String | None = field(secret=IF_CONFIG, doc="Value in force; null for a sensitive one.")
    read_only: Bool = field(doc="Whether it cannot be changed while the broker runs.")
    is_default: Bool = field("0", doc="Whether it was not set, at v0.")
    config_source: Int8 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="Where the value is from; see the module's text.",
    )
    is_sensitive: Bool = field(doc="Whether the value is kept secret.")
    synonyms: list[DescribeConfigsSynonym] = field(
        "1+",
        ignorable=True,
        doc="Values behind this one, strongest first, if asked for.",
    )
    config_type: Int8 = field("3+", ignorable=True, doc="Type of the value; see the module's text.")
    documentation: String | None = field(
        "3+",
        nullable="0+",
        ignorable=True,
        doc="What the config does, if asked for; else null.",
    )


class DescribeConfigsResult(Struct):
    """The configs of one resource."""

    error_code: Int16 = field(doc="0, or why there are no configs.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    resource_type: Int8 = field(doc="Type of the resource, as in the request.")
    resource_name: String = field(doc="Name of the resource.")
    configs: list[DescribeConfigsResourceResult] = field(doc="The configs.")


class DescribeConfigsResponse(Message, api_key=32, kind="response", versions="0-4", flexible="4+"):
    """The configs that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[DescribeConfigsResult] = field(doc="One entry per resource of the request.")
