"""The frame around keys and values in the logs that coordinators keep their state in.

A key is an int16 record type and a plain body; a value is an int16 version and a body; a null value
deletes what the key names. The type is a number within one log: 0 is one thing in
`__consumer_offsets` and another in `__share_group_state`. Before Kafka 4.0 it was taken for a
version of the key, which is the same on disk.

`group`, `share` and `transaction` each hold the table of one log and give its four functions out
under their own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Layout

from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer

_INT16 = Layout(">h")


class UnknownRecordTypeError(DecodeError):
    """A record type from another kind of coordinator or from the future; skip the record.

    `record_type` is the number in front of the key.
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class CoordinatorLog:
    """Encodes and decodes the records of one coordinator's log.

    `topic` is the log's name, for errors; `records` has the key class and the value class of every
    record type.
    """

    __slots__ = ("_key_class_of_type", "_topic", "_value_class_of_key", "_value_classes")

    def __init__(
        self, topic: str, records: Mapping[int, tuple[type[Message], type[Message]]]
    ) -> None:
        self._topic = topic
        self._key_class_of_type = {record_type: key for record_type, (key, _) in records.items()}
        self._value_class_of_key = dict(records.values())
        self._value_classes = frozenset(self._value_class_of_key.values())

    def encode_key(self, key: Message) -> bytes:
        """A record's key: its type and its body. Raises EncodeError for what is no key here."""
        record_type = type(key).record_id
        if record_type is None or type(key) not in self._value_class_of_key:
            raise EncodeError(f"{type(key).__name__} is no key of {self._topic}")
        return _INT16.pack(record_type) + key.encode(0)

    def decode_key(self, data: Buffer) -> Message:
        """The key in `data`. Raises UnknownRecordTypeError and other DecodeErrors."""
        if len(data) < _INT16.size:
            raise DecodeError(f"a key of {len(data)} bytes has no record type")
        (record_type,) = _INT16.unpack_from(data)
        if record_type not in self._key_class_of_type:
            raise UnknownRecordTypeError(record_type)
        return _read_all(self._key_class_of_type[record_type], data, 0)

    def encode_value(self, value: Message, version: int) -> bytes:
        """A record's value: its version and its body.

        Raises EncodeError for what is no value here, and UnsupportedVersionError.
        """
        if type(value) not in self._value_classes:
            raise EncodeError(f"{type(value).__name__} is no value of {self._topic}")
        body = value.encode(version)  # first: it refuses what is no version
        return _INT16.pack(version) + body

    def decode_value(self, key: Message, data: Buffer) -> Message:
        """The value in `data`, of the class that belongs to `key`. Raises DecodeError.

        A null value is not bytes: the caller takes it for what it is, a deletion.
        """
        value_class = self._value_class_of_key.get(type(key))
        if value_class is None:
            raise DecodeError(f"{type(key).__name__} is no key of {self._topic}")
        if len(data) < _INT16.size:
            raise DecodeError(f"a value of {len(data)} bytes has no version")
        (version,) = _INT16.unpack_from(data)
        if not value_class.min_version <= version <= value_class.max_version:
            raise DecodeError(f"{value_class.__name__} has no version {version}")
        return _read_all(value_class, data, version)


def _read_all(cls: type[Message], data: Buffer, version: int) -> Message:
    """The message behind the int16 that begins `data`; bytes left over are a DecodeError."""
    message, end = cls.read(data, _INT16.size, version)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow a {cls.__name__}", position=end)
    return message
