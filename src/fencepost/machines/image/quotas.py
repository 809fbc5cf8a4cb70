"""Client quotas in the image (KIP-546): what is set for an entity, by key.

An entity is one type with a name or two: `user`, `client-id`, both of these, or `ip`. A type
without a name is the default of the type: whatever has no quota of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.records.metadata import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The types of an entity with their names, None for a default, in the order of the types."""
Quotas = PersistentMap[QuotaEntity, Mapping[str, float]]
"""The values of each entity that has any, by key."""


class Named(Protocol):
    """A type and a name, as records and requests have them."""

    entity_type: str
    entity_name: str | None


def entity_of(parts: Iterable[Named]) -> QuotaEntity:
    """The entity that the parts make up. Of a type that is there twice both stay."""
    pairs = ((part.entity_type, part.entity_name) for part in parts)
    return tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1] or "")))


def changed(values: Mapping[str, float], record: ClientQuotaRecord) -> Mapping[str, float]:
    """An entity's values after a record about it."""
    kept = {key: value for key, value in values.items() if key != record.key}
    return MappingProxyType(kept if record.remove else {**kept, record.key: record.value})


def quota_records(quotas: Quotas) -> Iterator[ClientQuotaRecord]:
    """The records that make the same quotas again, in an order that depends on them alone."""
    for entity in sorted(quotas, key=repr):
        for key, value in sorted(quotas[entity].items()):
            yield record_of(entity, key, value)


def record_of(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a value, or with None removes it."""
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
