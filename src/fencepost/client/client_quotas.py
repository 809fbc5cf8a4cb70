"""Quotas of clients: see and change them (KIP-13, KIP-546).

A quota is for an entity: a user, a client id, both, or an address; None as a name stands for the
default of that type, which is for all that have no quota of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.refusals import Refusals, passing, raise_refusal
from fencepost.wire.api import alter_client_quotas as alter
from fencepost.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

QUOTA_KEYS: Final = {
    "producer_byte_rate": "bytes written per second, by each broker",
    "consumer_byte_rate": "bytes read per second, by each broker",
    "request_percentage": "time of handling requests, in % of one thread",
    "controller_mutation_rate": "partitions created and deleted per second",
    "connection_creation_rate": "connections made per second, from one address",
}
"""What can be limited, and its unit."""


@dataclass(frozen=True, order=True, slots=True)
class ClientQuotaEntity:
    """Whom a quota is for: names by type, None for the default of the type."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> ClientQuotaEntity:
        """The entity of these names by type (`user`, `client-id`, `ip`)."""
        order = {one: place for place, one in enumerate(ENTITY_TYPES)}
        return cls(tuple(sorted(names.items(), key=lambda part: order.get(part[0], 9))))

    @property
    def names(self) -> dict[str, str | None]:
        """Names by type."""
        return dict(self.parts)

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {name}" if name is not None else f"every other {kind}"
            for kind, name in self.parts
        )


class QuotaMatch(IntEnum):
    """How a component of a filter chooses entities."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class ClientQuotaFilter(NamedTuple):
    """A component: entities with a part of this type whose name is `name` (EXACT), is the default
    (DEFAULT), or is any."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None


Quotas = dict[ClientQuotaEntity, dict[str, float]]


def describing_client_quotas(
    view: ClusterView[Any], components: Iterable[ClientQuotaFilter] = (), *, strict: bool = False
) -> Conversation[Quotas]:
    """Quotas by entity, of those that all components choose; with `strict` only of entities without
    other parts. BrokerError."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=one.entity_type, match_type=one.match, match=one.name)
            for one in components
        ],
        strict=strict,
    )
    response = yield from asking.request_any(view, request, passing)
    raise_refusal(response, "quotas cannot be described")
    found = {
        ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
            one.key: one.value for one in sorted(entry.values, key=lambda one: one.key)
        }
        for entry in response.entries or ()
    }
    return dict(sorted(found.items(), key=lambda pair: str(pair[0])))


def altering_client_quotas(
    view: ClusterView[Any],
    changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
) -> Conversation[None]:
    """Set quotas by entity and key (`QUOTA_KEYS`), or remove those whose value is None.
    BrokerError when an entity is refused; the others are changed all the same."""
    request = alter.AlterClientQuotasRequest(
        entries=[
            alter.EntryDataRequest(
                entity=[
                    alter.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts
                ],
                ops=[
                    alter.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ],
        validate_only=validate_only,
    )

    def passing_row(response: Any) -> int:
        return next(filter(None, map(passing, response.entries)), 0)

    response = yield from asking.request_controller(view, request, passing_row)
    refusals = Refusals("quotas were not changed")
    for entry in response.entries:
        entity = ClientQuotaEntity.of({p.entity_type: p.entity_name for p in entry.entity})
        refusals.note(str(entity), entry)
    refusals.check(len(changes), len(response.entries))
