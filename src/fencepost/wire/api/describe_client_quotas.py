"""DescribeClientQuotas (key 48): the quotas that are set for users, client ids and addresses.

Any broker answers, with what is set and nothing that follows from it: which quota a client falls
under is for the reader to work out. An entity is a set of parts, such as a user, or a user together
with a client id; a part is of type `user`, `client-id` or `ip` and has a name or is the default.

KIP-546; `ip` is from KIP-612. v1 is flexible (KIP-482). The caller must be allowed to describe the
cluster's configs.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Bool, Float64, Int8, Int16, Int32, String


class ComponentData(Struct):
    """What one part of an entity is to be like."""

    entity_type: String = field(
        doc="`user`, `client-id` or `ip`; each at most once, and `ip` alone.",
    )
    match_type: Int8 = field(
        doc="0 the part named in `match`, 1 the default of that type, 2 any part of that type.",
    )
    match: String | None = field(
        doc="The name with match type 0; null with the others, where even an empty one is error 42."
    )


class DescribeClientQuotasRequest(
    Request["DescribeClientQuotasResponse"], api_key=48, versions="0-1", flexible="1+"
):
    """Asks for the quotas that are set for the entities that match all components."""

    components: list[ComponentData] = field(
        doc="What entities must have; empty matches all of them.",
    )
    strict: Bool = field(
        doc=(
            "Whether entities with parts of other types do not match: then `user` alone finds no "
            "user together with a client id, and no components find nothing."
        ),
    )


class EntityData(Struct):
    """A part of an entity."""

    entity_type: String = field(doc="`user`, `client-id` or `ip`.")
    entity_name: String | None = field(doc="Name of it; null for the default of that type.")


class ValueData(Struct):
    """A quota."""

    key: String = field(
        doc=(
            "`producer_byte_rate`, `consumer_byte_rate`, `request_percentage` or "
            "`controller_mutation_rate`; with `ip` it is `connection_creation_rate`."
        ),
    )
    value: Float64 = field(
        doc=(
            "Per broker: bytes per second, percent of one thread's time, partitions made or "
            "deleted per second (by the controller), new connections per second."
        ),
    )


class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData] = field(doc="Its parts, in any order.")
    values: list[ValueData] = field(doc="Its quotas.")


class DescribeClientQuotasResponse(
    Message, api_key=48, kind="response", versions="0-1", flexible="1+"
):
    """The quotas that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0; 31 when the caller may not ask, 35 for another type, 42 for a wrong filter.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    entries: list[EntryData] | None = field(doc="One entry per entity; null on an error.")
