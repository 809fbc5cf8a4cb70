"""Client quotas: which may be set for which entity, and the records that set them (KIP-546).

Entities stand or fall alone, each with all its changes. What is set to the value that it has, or
removed and not there, makes no record. An entity that a request names twice is refused, as is one
that names a key twice; but of an entity named twice the first takes effect, as in Kafka.

Kafka takes the name of a host for an `ip` and looks it up, wherever the quota is used. Here it has
to be an address: nothing is looked up.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.machines.controller.decision import MAX_RECORDS, Refused
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.quotas import CLIENT_ID, IP, USER, QuotaEntity, entity_of, record_of
from fencepost.machines.quota.limits import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataRequest,
    EntryDataResponse,
    OpData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

_LONG_MAX: Final = float((1 << 63) - 1)
_INT_MAX: Final = float((1 << 31) - 1)
_FRACTION_MAX: Final = 1e-6
_WHOLE: Final[Mapping[str, tuple[float, str]]] = {
    PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONNECTION_CREATION_RATE: (_INT_MAX, "an INT"),
}
"""The largest values of keys that take whole numbers alone, and what Kafka calls their type."""
_OF_CLIENTS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)
_OF_ADDRESSES: Final = frozenset({CONNECTION_CREATION_RATE})
_SPOKEN_ORDER: Final = (CLIENT_ID, USER, IP)
TOO_MANY: Final = "Request parameters do not satisfy the configured policy."


def decide_quotas(
    image: ClusterImage, request: AlterClientQuotasRequest
) -> tuple[list[EntryDataResponse], list[Message]]:
    """One result for each entity, and the records."""
    results: dict[QuotaEntity, EntryDataResponse] = {}
    records: list[Message] = []
    for entry in request.entries:
        entity = _entity_of(entry)
        keys = [op.key for op in entry.ops]
        result = EntryDataResponse(error_message=None, entity=_told(entity))
        try:
            if entity in results or len(set(keys)) < len(keys):
                raise _invalid(f"Ignoring duplicate entity {_text(entity)}")
            records += _changes(image, entity, entry.ops)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results[entity] = result
    if len(records) > MAX_RECORDS:
        for result in results.values():
            result.error_code = ErrorCode.POLICY_VIOLATION
            result.error_message = TOO_MANY
        records = []
    return list(results.values()), records


def _entity_of(entry: EntryDataRequest) -> QuotaEntity:
    """The entity; of a type that is there twice the last counts."""
    return entity_of({part.entity_type: part for part in entry.entity}.values())


def _told(entity: QuotaEntity) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]


def _changes(image: ClusterImage, entity: QuotaEntity, ops: Iterable[OpData]) -> list[Message]:
    keys = _keys_for(entity)
    present = image.quotas.get(entity, {})
    records: list[Message] = []
    for op in ops:
        if op.remove:
            if op.key in present:
                records.append(record_of(entity, op.key, None))
            continue
        _check_value(op.key, op.value, keys)
        if present.get(op.key) != op.value:
            records.append(record_of(entity, op.key, op.value))
    return records


def _keys_for(entity: QuotaEntity) -> frozenset[str]:
    """The keys that the entity may have. Refused if there can be no such entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    address = dict(entity).get(IP)
    if IP not in dict(entity):
        return _OF_CLIENTS
    if len(entity) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId"
        )
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(key: str, value: float, keys: frozenset[str]) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if key not in _WHOLE:
        return
    most, kind = _WHOLE[key]
    if value > most:
        raise _invalid(f"Proposed value for {key} is too large for {kind}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _text(entity: QuotaEntity) -> str:
    """The entity as Kafka's messages have it."""
    names = dict(entity)
    known = [kind for kind in _SPOKEN_ORDER if kind in names]
    kinds = [*known, *(kind for kind in names if kind not in known)]
    told = (f"{kind}={'null' if names[kind] is None else names[kind]}" for kind in kinds)
    return f"ClientQuotaEntity(entries={{{', '.join(told)}}})"


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
