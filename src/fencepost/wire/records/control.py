"""Control records: what brokers and voters write into logs among the data.

A control batch has the control bit set. The key of its records is an int16 version (0) and a plain
`ControlRecordTypeSchema`, which is an int16 type; the value belongs to the type. Two layouts exist:

* a transaction's end marker is an int16 version (0) and a plain body (KIP-98);
* Raft's records (KIP-595, KIP-630, KIP-853) are flexible and have nothing in front. The int16 they
  begin with is their own field `version`, and whatever it says, the rest is in the form of v0: so
  v1 of `LeaderChangeMessage` exists and is never written.

Readers skip types they do not know.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Layout

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, String, UInt16, Uuid


class ControlRecordTypeSchema(Message, kind="data", versions="0", flexible="none"):
    """The key of a control record, behind its version."""

    type: Int16 = field(doc="What the record is about: a number of `ControlType`, or a later one.")


class EndTxnMarker(Message, kind="data", versions="0", flexible="none"):
    """The end of a transaction, for both its outcomes; the type says which."""

    coordinator_epoch: Int32 = field(
        doc="Epoch of the coordinator that decided, by which older markers are fenced off.",
    )


class LeaderChangeVoter(Struct, kafka_name="Voter"):
    """A voter that is named in a leader's first record."""

    voter_id: Int32 = field(doc="Node id of the voter.")
    voter_directory_id: Uuid = field("1+", doc="Directory id of the voter.")


class LeaderChangeMessage(Message, kind="data", versions="0-1", flexible="0+"):
    """The first record of every Raft epoch: who leads it and who elected it.

    v1 adds directory ids (KIP-853), but no leader writes it: a voter is known by its number here.
    """

    version: Int16 = field(doc="Version of this value as its writer understood it.")
    leader_id: Int32 = field(doc="Node id of the leader of this epoch.")
    voters: list[LeaderChangeVoter] = field(doc="All voters the leader knew of.")
    granting_voters: list[LeaderChangeVoter] = field(doc="The voters that elected it.")


class SnapshotHeaderRecord(Message, kind="data", versions="0", flexible="0+"):
    """The first record of a snapshot (KIP-630)."""

    version: Int16 = field(doc="Version of this value as its writer understood it.")
    last_contained_log_timestamp: Int64 = field(
        doc="Append time of the last batch in the snapshot, in milliseconds.",
    )


class SnapshotFooterRecord(Message, kind="data", versions="0", flexible="0+"):
    """The last record of a snapshot: a file without it is incomplete."""

    version: Int16 = field(doc="Version of this value as its writer understood it.")


class KRaftVersionRecord(Message, kind="data", versions="0", flexible="0+"):
    """The feature level of Raft itself; 1 brings voter sets that can change (KIP-853)."""

    version: Int16 = field(doc="Version of this value as its writer understood it.")
    kraft_version: Int16 = field(name="KRaftVersion", doc="The level in force from here on.")


class Endpoint(Struct):
    """One listener of a voter."""

    name: String = field(doc="Name of the listener.")
    host: String = field(doc="Host name or address a client can connect to.")
    port: UInt16 = field(doc="TCP port.")


class KRaftVersionFeature(Struct):
    """The Raft feature levels a voter can run."""

    min_supported_version: Int16 = field(doc="Lowest level the voter can run.")
    max_supported_version: Int16 = field(doc="Highest level the voter can run.")


class Voter(Struct):
    """A member of the voter set."""

    voter_id: Int32 = field(doc="Node id of the voter.")
    voter_directory_id: Uuid = field(
        doc="Directory id of the voter: a node with an emptied disk is another voter.",
    )
    endpoints: list[Endpoint] = field(doc="Listeners of the voter.")
    kraft_version_feature: KRaftVersionFeature = field(
        name="KRaftVersionFeature",
        doc="Raft feature levels it can run.",
    )


class VotersRecord(Message, kind="data", versions="0", flexible="0+"):
    """The voter set from here on; in force once appended, before it is committed (KIP-853)."""

    version: Int16 = field(doc="Version of this value as its writer understood it.")
    voters: list[Voter] = field(doc="All voters.")


class ControlType(IntEnum):
    """What a control record is about: the second int16 of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_VERSION = Layout(">h")
_KEY_VERSION = 0
_RAFT_RECORDS: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def encode_control_key(control_type: int) -> bytes:
    """The key of a control record of this type. EncodeError for what is no int16."""
    key = ControlRecordTypeSchema(type=control_type)
    return _VERSION.pack(_KEY_VERSION) + key.encode(_KEY_VERSION)


def decode_control_key(key: bytes | bytearray | memoryview) -> int:
    """The type in a control record's key; compare it with `ControlType`, it may be none of them.

    A key of a later version may be longer, so whatever follows the type is not looked at.
    Raises DecodeError for a key that is too short or of a negative version.
    """
    if len(key) < _VERSION.size:
        raise DecodeError(f"a control record's key of {len(key)} bytes has no version")
    (version,) = _VERSION.unpack_from(key)
    if version < 0:
        raise DecodeError(f"a control record's key cannot be of version {version}")
    return ControlRecordTypeSchema.read(key, _VERSION.size, _KEY_VERSION)[0].type


def encode_control_value(record: Message) -> bytes:
    """The value of the control record that holds `record`.

    Raises EncodeError for a message that is no control record.
    """
    if isinstance(record, EndTxnMarker):
        return _VERSION.pack(0) + record.encode(0)
    if type(record) not in _RAFT_RECORDS.values():
        raise EncodeError(f"{type(record).__name__} is no control record")
    return record.encode(0)


def decode_control_value(
    control_type: int, value: bytes | bytearray | memoryview
) -> Message | None:
    """The message in a control record's value, or None for a type that is not known.

    Values of a later version are read as far as version 0 goes. Raises DecodeError.
    """
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        if len(value) < _VERSION.size:
            raise DecodeError(f"an end marker of {len(value)} bytes has no version")
        (version,) = _VERSION.unpack_from(value)
        if version < 0:
            raise DecodeError(f"an end marker cannot be of version {version}")
        return EndTxnMarker.read(value, _VERSION.size, 0)[0]
    if control_type not in _RAFT_RECORDS:
        return None
    return _RAFT_RECORDS[ControlType(control_type)].read(value, 0, 0)[0]
