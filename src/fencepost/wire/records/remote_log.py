"""The records of `__remote_log_metadata`: which segments lie in remote storage (KIP-405).

The default manager of remote log metadata keeps its knowledge in this topic. A value is framed
like a metadata record (`framed`): uvarint frame version (1), uvarint record id, uvarint version,
flexible body. Ids are the topic's own.

A segment's life is one `RemoteLogSegmentMetadataRecord` when its upload begins, then an
`...UpdateRecord` per change of its state. The `...SnapshotRecord` is the same knowledge without the
topic, which the file it stands in is about anyway.

Traps: the nested struct `RemoteLogSegmentId` is not a uuid but one with the partition around it;
`TxnIndexEmpty` came later, but as a tagged field of version 0 and without a version of its own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.records.framed import FramedLog
from fencepost.wire.types import Bool, Buffer, Bytes, Int8, Int32, Int64, String, Uuid


class RemoteLogSegmentState(IntEnum):
    """The numbers of `remote_log_segment_state`."""

    COPY_SEGMENT_STARTED = 0
    """The upload has begun; nothing can be read yet."""

    COPY_SEGMENT_FINISHED = 1
    """All of it is there and readable."""

    DELETE_SEGMENT_STARTED = 2
    """It is being deleted, no longer to be read."""

    DELETE_SEGMENT_FINISHED = 3
    """It is gone."""


class RemotePartitionDeleteState(IntEnum):
    """The numbers of `remote_partition_delete_state`."""

    DELETE_PARTITION_MARKED = 0
    """A controller has asked for it."""

    DELETE_PARTITION_STARTED = 1
    """Segments are being deleted."""

    DELETE_PARTITION_FINISHED = 2
    """Nothing of it is left."""


class TopicIdPartitionEntry(Struct):
    """A partition, by name and by id of its topic."""

    name: String = field(doc="Name of the topic.")
    id: Uuid = field(doc="Id of the topic.")
    partition: Int32 = field(doc="Number of the partition.")


class RemoteLogSegmentIdEntry(Struct):
    """One upload of a segment; another attempt has another id."""

    topic_id_partition: TopicIdPartitionEntry = field(doc="The partition the segment is from.")
    id: Uuid = field(doc="Id of the upload, drawn by the broker that makes it.")


class SegmentLeaderEpochEntry(Struct):
    """A leader epoch that has records in the segment."""

    leader_epoch: Int32 = field(doc="The epoch.")
    offset: Int64 = field(doc="First offset that was written in it.")


class RemoteLogSegmentMetadataRecord(
    Message, record_id=0, kind="metadata", versions="0", flexible="0+"
):
    """A segment whose upload begins."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(doc="Which upload of which partition.")
    start_offset: Int64 = field(doc="Offset of the segment's first record.")
    end_offset: Int64 = field(doc="Offset of its last record, not of the one behind it.")
    broker_id: Int32 = field(doc="Node id of the broker that uploads it.")
    max_timestamp_ms: Int64 = field(
        doc="Largest timestamp of its records, in milliseconds since 1970; -1 without records.",
    )
    event_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 at which this was written.",
    )
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(
        doc="Leader epochs in the segment, in order.",
    )
    segment_size_in_bytes: Int32 = field(doc="Size of the segment's log file in bytes.")
    custom_metadata: Bytes | None = field(
        default=None,
        doc="What the remote storage wants to be told again when it is asked; null for nothing.",
    )
    remote_log_segment_state: Int8 = field(
        doc="Where it stands: a number of `RemoteLogSegmentState`.",
    )
    txn_index_empty: Bool = field(
        tag=0,
        doc="Whether it has no transaction index to fetch; false also when it is unknown.",
    )


class RemoteLogSegmentMetadataUpdateRecord(
    Message, record_id=1, kind="metadata", versions="0", flexible="0+"
):
    """A segment's new state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(doc="Which upload of which partition.")
    broker_id: Int32 = field(doc="Node id of the broker that reports it.")
    event_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 at which this was written.",
    )
    custom_metadata: Bytes | None = field(
        default=None,
        doc="What the remote storage said at the end of the upload; null for nothing.",
    )
    remote_log_segment_state: Int8 = field(
        doc="Where it stands now: a number of `RemoteLogSegmentState`.",
    )


class RemotePartitionDeleteMetadataRecord(
    Message, record_id=2, kind="metadata", versions="0", flexible="0+"
):
    """A partition whose remote segments are to go, or have gone."""

    topic_id_partition: TopicIdPartitionEntry = field(doc="The partition.")
    broker_id: Int32 = field(doc="Node id of the node that reports it.")
    event_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 at which this was written.",
    )
    remote_partition_delete_state: Int8 = field(
        doc="Where it stands: a number of `RemotePartitionDeleteState`.",
    )


class RemoteLogSegmentMetadataSnapshotRecord(
    Message, record_id=3, kind="metadata", versions="0", flexible="0+"
):
    """A segment as a snapshot of one partition's remote metadata has it."""

    segment_id: Uuid = field(doc="Id of the upload.")
    start_offset: Int64 = field(doc="Offset of the segment's first record.")
    end_offset: Int64 = field(doc="Offset of its last record, not of the one behind it.")
    broker_id: Int32 = field(doc="Node id of the broker that reported it last.")
    max_timestamp_ms: Int64 = field(
        doc="Largest timestamp of its records, in milliseconds since 1970; -1 without records.",
    )
    event_timestamp_ms: Int64 = field(
        doc="Milliseconds since 1970 of the latest report.",
    )
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(
        doc="Leader epochs in the segment, in order.",
    )
    segment_size_in_bytes: Int32 = field(doc="Size of the segment's log file in bytes.")
    custom_metadata: Bytes | None = field(
        default=None,
        doc="What the remote storage wants to be told again when it is asked; null for nothing.",
    )
    remote_log_segment_state: Int8 = field(
        doc="Where it stands: a number of `RemoteLogSegmentState`.",
    )
    txn_index_empty: Bool = field(
        tag=0,
        doc="Whether it has no transaction index to fetch; false also when it is unknown.",
    )


_CLASSES: Final[tuple[type[Message], ...]] = (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
)

RECORD_CLASSES: Final[dict[int, type[Message]]] = {
    cls.record_id: cls for cls in _CLASSES if cls.record_id is not None
}
"""Every record class by its id in the topic."""

_LOG = FramedLog("remote log", RECORD_CLASSES)


def encode_record(record: Message, version: int | None = None) -> bytes:
    """The value of the log record that holds `record`, at `version` or at its highest.

    Raises EncodeError for a message that is no record of this topic, and UnsupportedVersionError.
    """
    return _LOG.encode(record, type(record).max_version if version is None else version)


def decode_record(data: Buffer) -> Message:
    """The record in a log record's value; DecodeError."""
    return _LOG.decode(data)
