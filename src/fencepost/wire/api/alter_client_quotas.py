"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses.

Handled by the controller; a broker forwards it. An entity is a set of parts, such as a user, or a
user together with a client id; a part is of type `user`, `client-id` or `ip` and has a name or is
the default. Every entity succeeds or fails alone, and with all its changes.

KIP-546; `controller_mutation_rate` is from KIP-599, `ip` from KIP-612. v1 is flexible (KIP-482).
The caller must be allowed to alter the cluster's configs.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Float64, Int16, Int32, String


class EntityData(Struct):
    """A part of an entity."""

    entity_type: String = field(
        doc="`user`, `client-id` or `ip`; each at most once, and `ip` alone.",
    )
    entity_name: String | None = field(doc="Name of it; null for the default of that type.")


class OpData(Struct):
    """A change of one quota."""

    key: String = field(
        doc=(
            "`producer_byte_rate`, `consumer_byte_rate`, `request_percentage` or "
            "`controller_mutation_rate`; with `ip` it is `connection_creation_rate`. Each at most "
            "once."
        ),
    )
    value: Float64 = field(
        doc=(
            "What to set, above 0 and per broker: bytes per second, percent of one thread's time, "
            "partitions made or deleted per second (by the controller), new connections per "
            "second. Rates of bytes and connections are whole numbers. Ignored with `remove`."
        ),
    )
    remove: Bool = field(
        doc="Whether to remove the quota; one that is not set is no error.",
    )


class EntryDataRequest(Struct, kafka_name="EntryData"):
    """The changes of one entity."""

    entity: list[EntityData] = field(doc="Its parts, in any order.")
    ops: list[OpData] = field(doc="The changes.")


class AlterClientQuotasRequest(
    Request["AlterClientQuotasResponse"], api_key=49, versions="0-1", flexible="1+"
):
    """Sets and removes quotas of entities, or only checks whether it could."""

    entries: list[EntryDataRequest] = field(doc="The entities; each at most once.")
    validate_only: Bool = field(doc="Whether to check everything and change nothing.")


class EntryDataResponse(Struct, kafka_name="EntryData"):
    """What became of one entity."""

    error_code: Int16 = field(
        doc="0; 31 when the caller may not, 42 for an entity, quota or value that cannot be.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    entity: list[EntityData] = field(doc="Its parts, in any order.")


class AlterClientQuotasResponse(
    Message, api_key=49, kind="response", versions="0-1", flexible="1+"
):
    """What became of the changes."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    entries: list[EntryDataResponse] = field(doc="One entry per entity of the request.")
