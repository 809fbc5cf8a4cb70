"""The records of `__cluster_metadata-0`, and the frame each of them travels in.

The value of such a record is: uvarint frame version (1), uvarint record id, uvarint version of the
record, and the record in its flexible form. There is no record key, and bytes left over are an
error. The record classes are in `metadata_nodes`, `metadata_topics` and `metadata_security`; this
module knows all of them by id.

Which version of a record may be written depends on the cluster's `metadata.version`.
`written_version` answers for the one this project formats clusters with, so that Apache Kafka of
the same release reads what we write.
"""

from __future__ import annotations

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message
from fencepost.wire.records.metadata_nodes import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    ZkMigrationStateRecord,
)
from fencepost.wire.records.metadata_security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from fencepost.wire.records.metadata_topics import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

__all__ = [
    "FRAME_VERSION",
    "RECORD_CLASSES",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "EntityData",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UnregisterControllerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "decode_record",
    "encode_record",
    "written_version",
]

FRAME_VERSION = 1

_CLASSES: tuple[type[Message], ...] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
    RemoveUserScramCredentialRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RemoveDelegationTokenRecord,
    RegisterControllerRecord,
    ClearElrRecord,
    UnregisterControllerRecord,
)

RECORD_CLASSES: dict[int, type[Message]] = {
    cls.record_id: cls for cls in _CLASSES if cls.record_id is not None
}
"""Every record class by its id on disk."""

# Versions newer than metadata.version 4.3-IV0 knows are read but not written.
_WRITTEN_BELOW_MAX: dict[type[Message], int] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
}


def written_version(record_class: type[Message]) -> int:
    """The version in which records of this class are written at metadata.version 4.3-IV0."""
    return _WRITTEN_BELOW_MAX.get(record_class, record_class.max_version)


def encode_record(record: Message, version: int | None = None) -> bytes:
    """The value of the log record that holds `record`, at `version` or at `written_version`.

    Raises EncodeError for a message that is no metadata record or does not fit the version.
    """
    record_class = type(record)
    record_id = record_class.record_id
    if record_id is None or RECORD_CLASSES.get(record_id) is not record_class:
        raise EncodeError(f"{record_class.__name__} is no metadata record")
    if version is None:
        version = written_version(record_class)
    # All three numbers are below 128, where a uvarint is the byte itself.
    return bytes((FRAME_VERSION, record_id, version)) + record.encode(version)


def decode_record(data: bytes | bytearray | memoryview) -> Message:
    """The metadata record in a log record's value.

    Raises DecodeError for another frame version, an unknown id or version, and damaged bytes.
    """
    frame_version, pos = _read_uvarint(data, 0, "frame version")
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata frame version {frame_version} is not {FRAME_VERSION}")
    record_id, pos = _read_uvarint(data, pos, "record id")
    record_class = RECORD_CLASSES.get(record_id)
    if record_class is None:
        raise DecodeError(f"no metadata record has the id {record_id}", position=pos)
    version, pos = _read_uvarint(data, pos, "version")
    if version > record_class.max_version:
        raise DecodeError(f"{record_class.__name__} has no version {version}", position=pos)
    record, end = record_class.read(data, pos, version)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow a {record_class.__name__}", position=end)
    return record


def _read_uvarint(data: bytes | bytearray | memoryview, pos: int, path: str) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and the position behind it."""
    value = 0
    for shift in range(0, 35, 7):
        if pos >= len(data):
            raise DecodeError("the bytes end inside a number", path, pos)
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise DecodeError("a number of more than five bytes", path, pos)
