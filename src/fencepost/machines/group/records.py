"""The records of groups and their offsets, and in which versions they are written."""

from __future__ import annotations

from typing import Final

from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    GroupMetadataValue,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

GroupRecord = tuple[Message, Message | None]
"""(key, value); a value of None is a tombstone."""

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION: Final = 1
OTHER_VERSION: Final = 0
"""Of all records but those of classic groups and offsets: they add fields by tag."""


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The bytes of a record."""
    key, value = record
    data = None if value is None else encode_value(value, value_version(value))
    return encode_key(key), data


def value_version(value: Message) -> int:
    """The version in which a record's value is written: what every broker since 2.1 can read.

    Offsets go as v4 with their topic's id, or as v1 if they bring their own expiry, which later
    versions do not have.
    """
    if isinstance(value, GroupMetadataValue):
        return GROUP_METADATA_VERSION
    if not isinstance(value, OffsetCommitValue):
        return OTHER_VERSION
    if value.expire_timestamp != -1:
        return OFFSET_COMMIT_WITH_EXPIRY_VERSION
    return OFFSET_COMMIT_VERSION
