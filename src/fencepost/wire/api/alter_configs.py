"""AlterConfigs (key 33): replace all configs of a resource.

What the request does not name goes back to its default, which two callers at once easily get wrong;
IncrementalAlterConfigs is there instead since 2.3 (KIP-339). Broker configs are sent to the broker
itself, other requests to any; what is to be kept is forwarded to the controller.

KIP-133. v1 throttles after the answer (KIP-219), v2 is flexible (KIP-482).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import IF_CONFIG
from fencepost.wire.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """A config to set."""

    name: String = field(doc="Name of the config.")
    value: String | None = field(
        secret=IF_CONFIG,
        doc="Its value; null is refused: leave the config out to have its default.",
    )


class AlterConfigsResource(Struct):
    """A resource and all its configs from now on."""

    resource_type: Int8 = field(
        doc="2 topic, 4 broker, 16 client metrics, 32 group; no broker loggers here.",
    )
    resource_name: String = field(
        doc="Name of the resource; a broker's is its id, empty for the default of all.",
    )
    configs: list[AlterableConfig] = field(
        doc="What differs from the defaults, each at most once; empty resets everything.",
    )


class AlterConfigsRequest(
    Request["AlterConfigsResponse"], api_key=33, versions="0-2", flexible="2+"
):
    """Replaces all configs of resources: what is not named goes back to its default."""

    resources: list[AlterConfigsResource] = field(doc="The resources; each at most once.")
    validate_only: Bool = field(doc="Whether to check everything and change nothing.")


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: Int16 = field(
        doc=(
            "0, or why nothing was changed: 29 to 31 when the caller may not, 40 for a value that "
            "will not do, 42 for a request that makes no sense, 44 when a policy forbids it."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    resource_type: Int8 = field(doc="Type of the resource, as in the request.")
    resource_name: String = field(doc="Name of the resource.")


class AlterConfigsResponse(Message, api_key=33, kind="response", versions="0-2", flexible="2+"):
    """What became of the changes; one resource changes as a whole or not at all."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    responses: list[AlterConfigsResourceResponse] = field(
        doc="One entry per resource of the request.",
    )
