"""`GroupCodec`: the records of `__consumer_offsets` that a coordinator of certain types keeps.

Records of group types that are not offered mean nothing here, and their values need no decoding:
they may be of versions that this one does not know. A coordinator that loads passes over them. They
stay in the log, so a broker that does offer their type finds them there.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.machines.group.group_type import GroupType
from fencepost.machines.group.records import GroupRecord, encode_record
from fencepost.machines.group.types import GROUP_TYPES
from fencepost.wire.records.group import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    UnknownRecordTypeError,
    decode_key,
    decode_value,
)


class GroupCodec:
    """How the records of offsets, and of groups of `types`, are written."""

    def __init__(self, types: Sequence[type[GroupType]] = GROUP_TYPES) -> None:
        self._keys = frozenset(
            (OffsetCommitKey, LegacyOffsetCommitKey, *(key for one in types for key in one.keys))
        )

    @staticmethod
    def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
        """The bytes of a record."""
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        """The record; None if it is of a type that is not kept here. DecodeError."""
        try:
            decoded = decode_key(key)
        except UnknownRecordTypeError:
            return None
        if type(decoded) not in self._keys:
            return None
        return decoded, None if value is None else decode_value(decoded, value)
