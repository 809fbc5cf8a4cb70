"""Keys and values of `__consumer_offsets`: committed offsets, classic and newer groups.

A key is an int16 record type and a plain body; a value is an int16 version and a body; a null value
deletes what the key names. Before Kafka 4.0 the type was taken for a version of the key, which is
the same on disk: types 0 and 1 are both committed offsets.

The record classes are in `group_classic` and `group_consumer`. Types of share and streams groups
are not read here; `decode_key` reports them like any type from the future, and a coordinator that
replays a log must skip those.
"""

from __future__ import annotations

from struct import Struct as Layout

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message
from fencepost.wire.records.group_classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from fencepost.wire.records.group_consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    TopicPartitions,
)

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionMetadata",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitions",
    "UnknownRecordTypeError",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]

_INT16 = Layout(">h")

# Behind type 0 is an offset like behind type 1: version 0 of its value is the legacy value.
_RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (LegacyOffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


class UnknownRecordTypeError(DecodeError):
    """A record type from another kind of group or from the future; skip the record.

    `record_type` is the number in front of the key.
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


def encode_key(key: Message) -> bytes:
    """A record's key: its type and its body. Raises EncodeError for a message that is no key."""
    record_type = type(key).record_id
    if record_type is None or _RECORDS.get(record_type, (None,))[0] is not type(key):
        raise EncodeError(f"{type(key).__name__} is no key of __consumer_offsets")
    return _INT16.pack(record_type) + key.encode(0)


def decode_key(data: bytes | bytearray | memoryview) -> Message:
    """The key in `data`. Raises UnknownRecordTypeError and other DecodeErrors."""
    if len(data) < _INT16.size:
        raise DecodeError(f"a key of {len(data)} bytes has no record type")
    (record_type,) = _INT16.unpack_from(data)
    if record_type not in _RECORDS:
        raise UnknownRecordTypeError(record_type)
    key_class = _RECORDS[record_type][0]
    key, end = key_class.read(data, _INT16.size, 0)
    _refuse_rest(key_class, data, end)
    return key


def encode_value(value: Message, version: int) -> bytes:
    """A record's value: its version and its body. Raises EncodeError, UnsupportedVersionError."""
    return _INT16.pack(version) + value.encode(version)


def decode_value(key: Message, data: bytes | bytearray | memoryview) -> Message:
    """The value in `data`, of the class that belongs to `key`. Raises DecodeError.

    A null value is not bytes: the caller takes it for what it is, a deletion.
    """
    record_type = type(key).record_id
    if record_type is None or record_type not in _RECORDS:
        raise DecodeError(f"{type(key).__name__} is no key of __consumer_offsets")
    if len(data) < _INT16.size:
        raise DecodeError(f"a value of {len(data)} bytes has no version")
    value_class = _RECORDS[record_type][1]
    (version,) = _INT16.unpack_from(data)
    if not value_class.min_version <= version <= value_class.max_version:
        raise DecodeError(f"{value_class.__name__} has no version {version}")
    value, end = value_class.read(data, _INT16.size, version)
    _refuse_rest(value_class, data, end)
    return value


def _refuse_rest(cls: type[Message], data: bytes | bytearray | memoryview, end: int) -> None:
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow a {cls.__name__}", position=end)
