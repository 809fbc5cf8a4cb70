"""A valid request for every API at every version: the ground that mutations start from.

`sample(route, version)` fills every field that the version has: lists get one element, strings a
name that exists where the field is a topic's, numbers what the API takes. What matters is that all
of a message's shapes are on the wire, so that cutting and bending it meets every one of them.
"""

from __future__ import annotations

from typing import Any

from fencepost.batch.records import build_batch
from fencepost.wire.message import Message, Struct
from fencepost.wire.schema import Field
from fencepost.wire.types import Primitive, Uuid

NUMBERS = {
    "acks": -1,
    "timeout_ms": 1000,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "min_bytes": 1,
    "replica_id": -1,
    "replica_epoch": -1,
    "session_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "leader_epoch": 1,
    "producer_id": -1,
    "producer_epoch": -1,
    "num_partitions": 1,
    "count": 2,
    "replication_factor": 1,
    "timestamp": -1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": 0,
    "endpoint_type": 1,
}
NULLS = {"transactional_id", "assignments", "replica_directory_id", "group_instance_id", "rack_id"}
EMPTY = {"assignments", "forgotten_topics_data"}
TEXTS = {
    "configs": "compact",
    "host": "localhost",
    "protocol_type": "consumer",
    "client_software_name": "sample",
    "client_software_version": "1.0",
    "value": "1000",
    "resource_name": "sample",
    "config_name": "retention.ms",
}


def sample(message: type[Message], version: int, topic: str, topic_id: Uuid) -> Message:
    """A request with every field that the version has filled in."""
    return _fill(message, version, topic, topic_id)


def _fill(cls: Any, version: int, topic: str, topic_id: Uuid) -> Any:
    made = cls()
    for entry in cls.fields:
        if entry.versions.holds(version):
            setattr(made, entry.name, _value(cls, entry, version, topic, topic_id))
    return made


def _value(cls: type[Struct], entry: Field, version: int, topic: str, topic_id: Uuid) -> Any:
    if entry.name in EMPTY and entry.is_array:
        return []
    if entry.name in NULLS and entry.nullable.holds(version):
        return None
    one = _one(cls, entry, version, topic, topic_id)
    return [one] if entry.is_array else one


def _one(cls: type[Struct], entry: Field, version: int, topic: str, topic_id: Uuid) -> Any:
    if entry.struct is not None:
        return _fill(entry.struct, version, topic, topic_id)
    primitive = entry.primitive
    if primitive is Primitive.STRING:
        if entry.name in TEXTS:
            return TEXTS[entry.name]
        if entry.name == "name" and "Config" in cls.__name__:
            return "retention.ms"
        return topic
    if primitive is Primitive.UUID:
        return topic_id if entry.name == "topic_id" else Uuid.ZERO
    if primitive is Primitive.RECORDS:
        return bytes(build_batch([(b"key", b"value")], timestamp_ms=1_700_000_000_000))
    if primitive is Primitive.BYTES:
        return b"\x00\x01bytes"
    if primitive is Primitive.BOOL:
        return False
    if primitive is Primitive.FLOAT64:
        return 1.5
    return NUMBERS.get(entry.name, 0)
