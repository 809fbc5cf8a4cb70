"""The consumer embedded protocol: what classic consumers tell each other through the coordinator.

JoinGroup carries a `ConsumerProtocolSubscription` from each member to the group's leader,
SyncGroup a `ConsumerProtocolAssignment` back. Each is an int16 version and a plain body. Both
have grown together: a reader takes a version it does not know for the highest it does, because
new fields only ever come at the end.

v1 adds owned partitions (KIP-429), v2 the generation they are from (KIP-792), v3 the rack
(KIP-881).
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import TypeVar

from fencepost.wire.errors import DecodeError
from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Bytes, Int32, String


class TopicPartitionOwned(Struct, kafka_name="TopicPartition"):
    """Partitions of one topic that the member holds."""

    topic: String = field("1+", doc="Name of the topic.")
    partitions: list[Int32] = field("1+", doc="Numbers of the partitions.")


class ConsumerProtocolSubscription(Message, kind="data", versions="0-3", flexible="none"):
    """What a member wants to read and what it holds already."""

    topics: list[String] = field(doc="Names of the topics it subscribes to.")
    user_data: Bytes | None = field(default=None, doc="Bytes for the assignor, or null.")
    owned_partitions: list[TopicPartitionOwned] = field(
        "1+",
        ignorable=True,
        doc="Partitions it holds, for assignors that move as few as possible.",
    )
    generation_id: Int32 = field(
        "2+",
        default=-1,
        ignorable=True,
        doc="Generation from which it holds them; -1 when unknown.",
    )
    rack_id: String | None = field(
        "3+",
        default=None,
        ignorable=True,
        doc="Rack of the consumer, or null.",
    )


class TopicPartitionAssigned(Struct, kafka_name="TopicPartition"):
    """Partitions of one topic that the member is given."""

    topic: String = field(doc="Name of the topic.")
    partitions: list[Int32] = field(doc="Numbers of the partitions.")


class ConsumerProtocolAssignment(Message, kind="data", versions="0-3", flexible="none"):
    """What a member is to read."""

    assigned_partitions: list[TopicPartitionAssigned] = field(doc="The partitions, by topic.")
    user_data: Bytes | None = field(default=None, doc="Bytes from the assignor, or null.")


_VERSION = Layout(">h")
Prefixed = TypeVar("Prefixed", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def encode_prefixed(message: Message, version: int) -> bytes:
    """The message as it travels in JoinGroup and SyncGroup: its version, then its body.

    EncodeError, UnsupportedVersionError.
    """
    body = message.encode(version)  # first: it refuses what is no version
    return _VERSION.pack(version) + body


def decode_prefixed(
    message_class: type[Prefixed], data: bytes | bytearray | memoryview
) -> Prefixed:
    """Read a message behind its version; a later version is read as the highest known one.

    Bytes behind the last known field are not looked at. Raises DecodeError.
    """
    if len(data) < _VERSION.size:
        raise DecodeError(f"{message_class.__name__} needs a version, not {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if version < message_class.min_version:
        raise DecodeError(f"{message_class.__name__} has no version {version}")
    known = min(version, message_class.max_version)
    return message_class.read(data, _VERSION.size, known)[0]
