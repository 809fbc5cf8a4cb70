"""The frame of records that are told apart by a number: `metadata` and `remote_log` use it.

Layout of a log record's value: uvarint frame version (1), uvarint record id, uvarint version of
the record, and the record in its flexible form. There is no record key, and bytes left over are an
error. Ids are numbers within one log: 0 is one thing in `__cluster_metadata` and another in
`__remote_log_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message
from fencepost.wire.runtime import Malformed, read_uvarint
from fencepost.wire.types import Buffer

FRAME_VERSION: Final = 1


class FramedLog:
    """Encodes and decodes the records of one log.

    `kind` is what its records are called in errors; `classes` has the class of every record id.
    """

    __slots__ = ("_classes", "_kind")

    def __init__(self, kind: str, classes: Mapping[int, type[Message]]) -> None:
        # Ids and versions are below 128, where a uvarint is the byte itself.
        assert all(0 <= key < 128 and cls.max_version < 128 for key, cls in classes.items())
        self._kind = kind
        self._classes = classes

    def encode(self, record: Message, version: int) -> bytes:
        """The value of the log record that holds `record`.

        Raises EncodeError for a message that is no record of this log or does not fit the version,
        and UnsupportedVersionError.
        """
        record_class = type(record)
        record_id = record_class.record_id
        if record_id is None or self._classes.get(record_id) is not record_class:
            raise EncodeError(f"{record_class.__name__} is no {self._kind} record")
        body = record.encode(version)
        return bytes((FRAME_VERSION, record_id, version)) + body

    def decode(self, data: Buffer) -> Message:
        """The record in a log record's value.

        Raises DecodeError for another frame version, an unknown id or version, and damaged bytes.
        """
        if len(data) > 3 and data[0] == FRAME_VERSION and data[1] < 128 and data[2] < 128:
            # A byte each, as always so far: an image is loaded by the hundred thousand.
            record_class = self._classes.get(data[1])
            version = data[2]
            if record_class and record_class.min_version <= version <= record_class.max_version:
                record, end = record_class.read(data, 3, version)
                if end == len(data):
                    return record
        return self._decode_slowly(data)

    def _decode_slowly(self, data: Buffer) -> Message:
        """`decode`, number by number, for whatever is unusual or wrong."""
        frame_version, pos = _read_number(data, 0, "frame version")
        if frame_version != FRAME_VERSION:
            raise DecodeError(f"{self._kind} frame version {frame_version} is not {FRAME_VERSION}")
        record_id, pos = _read_number(data, pos, "record id")
        record_class = self._classes.get(record_id)
        if record_class is None:
            raise DecodeError(f"no {self._kind} record has the id {record_id}", position=pos)
        version, pos = _read_number(data, pos, "version")
        if not record_class.min_version <= version <= record_class.max_version:
            raise DecodeError(f"{record_class.__name__} has no version {version}", position=pos)
        record, end = record_class.read(data, pos, version)
        if end != len(data):
            raise DecodeError(
                f"{len(data) - end} bytes follow a {record_class.__name__}", position=end
            )
        return record


def _read_number(data: Buffer, pos: int, path: str) -> tuple[int, int]:
    """An unsigned varint and the position behind it."""
    try:
        return read_uvarint(data, pos)
    except IndexError:
        raise DecodeError("the bytes end inside a number", path, pos) from None
    except Malformed:
        raise DecodeError("a number of more than 32 bits", path, pos) from None
