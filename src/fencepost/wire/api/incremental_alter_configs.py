"""IncrementalAlterConfigs (key 44): change single configs and leave the others as they are.

Replaces AlterConfigs, which resets whatever it does not mention (KIP-339). v1 is flexible.
Operations: 0 set, 1 delete (back to the default), 2 append to and 3 subtract from a list.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import IF_CONFIG
from fencepost.wire.types import Bool, Int8, Int16, Int32, String


class AlterableConfig(Struct):
    """One change."""

    name: String = field(doc="Name of the config.")
    config_operation: Int8 = field(doc="0 set, 1 delete, 2 append, 3 subtract.")
    value: String | None = field(
        secret=IF_CONFIG, doc="The value to set, append or subtract; null with delete."
    )


class AlterConfigsResource(Struct):
    """A resource to change."""

    resource_type: Int8 = field(
        doc="2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.",
    )
    resource_name: String = field(
        doc="Name of the resource; a broker's is its id, empty for the default of all.",
    )
    configs: list[AlterableConfig] = field(doc="The changes; each config at most once.")


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"], api_key=44, versions="0-1", flexible="1+"
):
    """Changes configs, or only checks whether it could."""

    resources: list[AlterConfigsResource] = field(doc="The resources; each at most once.")
    validate_only: Bool = field(doc="Whether to check everything and change nothing.")


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: Int16 = field(doc="0, or why nothing was changed.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    resource_type: Int8 = field(doc="Type of the resource, as in the request.")
    resource_name: String = field(doc="Name of the resource.")


class IncrementalAlterConfigsResponse(
    Message, api_key=44, kind="response", versions="0-1", flexible="1+"
):
    """What became of the changes; one resource changes as a whole or not at all."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    responses: list[AlterConfigsResourceResponse] = field(
        doc="One entry per resource of the request.",
    )
