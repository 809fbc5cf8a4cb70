"""Classes whose declarations are not among Kafka's schema files, against their known field tables.

A table has one row per field, nested fields behind the field that holds them: depth, Kafka's name,
Kafka's type, and whether it can be null, has a tag, or a default that is not its type's zero. All
fields are in all versions.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire import records

PARTITION = [
    (0, "Name", "string", ""),
    (0, "Id", "uuid", ""),
    (0, "Partition", "int32", ""),
]


def inside(rows: list[Any]) -> list[Any]:
    """The rows one step further in."""
    return [(depth + 1, *rest) for depth, *rest in rows]


SEGMENT_ID = [
    (0, "RemoteLogSegmentId", "RemoteLogSegmentIdEntry", ""),
    (1, "TopicIdPartition", "TopicIdPartitionEntry", ""),
    *inside(inside(PARTITION)),
    (1, "Id", "uuid", ""),
]
SEGMENT = [
    (0, "StartOffset", "int64", ""),
    (0, "EndOffset", "int64", ""),
    (0, "BrokerId", "int32", ""),
    (0, "MaxTimestampMs", "int64", ""),
    (0, "EventTimestampMs", "int64", ""),
    (0, "SegmentLeaderEpochs", "[]SegmentLeaderEpochEntry", ""),
    (1, "LeaderEpoch", "int32", ""),
    (1, "Offset", "int64", ""),
    (0, "SegmentSizeInBytes", "int32", ""),
    (0, "CustomMetadata", "bytes", "nullable, default null"),
    (0, "RemoteLogSegmentState", "int8", ""),
    (0, "TxnIndexEmpty", "bool", "tag 0"),
]
TABLES = {
    "ProducerSnapshot": [
        (0, "Crc", "uint32", ""),
        (0, "ProducerEntries", "[]ProducerEntry", ""),
        (1, "ProducerId", "int64", ""),
        (1, "Epoch", "int16", ""),
        (1, "LastSequence", "int32", ""),
        (1, "LastOffset", "int64", ""),
        (1, "OffsetDelta", "int32", ""),
        (1, "Timestamp", "int64", ""),
        (1, "CoordinatorEpoch", "int32", ""),
        (1, "CurrentTxnFirstOffset", "int64", ""),
    ],
    "RemoteLogSegmentMetadataRecord": [*SEGMENT_ID, *SEGMENT],
    "RemoteLogSegmentMetadataSnapshotRecord": [(0, "SegmentId", "uuid", ""), *SEGMENT],
    "RemoteLogSegmentMetadataUpdateRecord": [
        *SEGMENT_ID,
        (0, "BrokerId", "int32", ""),
        (0, "EventTimestampMs", "int64", ""),
        (0, "CustomMetadata", "bytes", "nullable, default null"),
        (0, "RemoteLogSegmentState", "int8", ""),
    ],
    "RemotePartitionDeleteMetadataRecord": [
        (0, "TopicIdPartition", "TopicIdPartitionEntry", ""),
        *inside(PARTITION),
        (0, "BrokerId", "int32", ""),
        (0, "EventTimestampMs", "int64", ""),
        (0, "RemotePartitionDeleteState", "int8", ""),
    ],
}
# Kind, record id, versions, first flexible version.
FACTS = {
    "ProducerSnapshot": ("data", None, 1, 1, None),
    "RemoteLogSegmentMetadataRecord": ("metadata", 0, 0, 0, 0),
    "RemoteLogSegmentMetadataSnapshotRecord": ("metadata", 3, 0, 0, 0),
    "RemoteLogSegmentMetadataUpdateRecord": ("metadata", 1, 0, 0, 0),
    "RemotePartitionDeleteMetadataRecord": ("metadata", 2, 0, 0, 0),
}


def rows(cls: Any, first: int, last: int, depth: int = 0) -> list[Any]:
    found: list[Any] = []
    for field in cls.fields:
        assert all(field.versions.holds(version) for version in range(first, last + 1))
        assert not field.ignorable
        said = []
        if field.nullable.holds(first):
            said.append("nullable")
        if field.tag is not None:
            assert field.tagged == field.versions
            said.append(f"tag {field.tag}")
        if field.fresh_default() is None:
            said.append("default null")
        elif field.struct is None and not field.is_array:
            assert field.default in (0, "", b"", bytes(16))
        found.append((depth, field.kafka_name, field.type, ", ".join(said)))
        if field.struct is not None:
            found += rows(field.struct, first, last, depth + 1)
    return found


@pytest.mark.parametrize("name", sorted(TABLES))
def test_fields_are_kafkas(name: str) -> None:
    cls = records.message_class(name)
    kind, record_id, first, last, flexible_from = FACTS[name]
    assert (cls.kind, cls.record_id, cls.flexible_from) == (kind, record_id, flexible_from)
    assert (cls.min_version, cls.max_version) == (first, last)
    assert rows(cls, first, last) == TABLES[name]
