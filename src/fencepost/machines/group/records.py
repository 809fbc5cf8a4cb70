"""The records of groups and their offsets, as `__consumer_offsets` has them.

Records of other kinds (KIP-848, share and streams groups) mean nothing here, and their values need
no decoding: they may be of versions that this one has never heard of.
"""

from __future__ import annotations

from typing import Final

from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

GroupRecord = tuple[Message, Message | None]
"""(key, value); a value of None is a tombstone."""

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION: Final = 1


class GroupCodec:
    """How the records of groups are written."""

    @staticmethod
    def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
        """The bytes of a record."""
        key, value = record
        data = None if value is None else encode_value(value, value_version(value))
        return encode_key(key), data

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
        """The record; None if it is of a kind that is not kept here. DecodeError."""
        try:
            decoded = decode_key(key)
        except UnknownRecordTypeError:
            return None
        if not isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey | GroupMetadataKey):
            return None
        return decoded, None if value is None else decode_value(decoded, value)


def value_version(value: Message) -> int:
    """The version in which a record's value is written: what every broker since 2.1 can read.

    Offsets go as v4 with their topic's id, or as v1 if they bring their own expiry, which later
    versions do not have.
    """
    if isinstance(value, GroupMetadataValue):
        return GROUP_METADATA_VERSION
    assert isinstance(value, OffsetCommitValue)
    if value.expire_timestamp != -1:
        return OFFSET_COMMIT_WITH_EXPIRY_VERSION
    return OFFSET_COMMIT_VERSION
