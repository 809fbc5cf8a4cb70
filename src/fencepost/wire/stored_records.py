"""Records of Kafka's own logs as documents that JSON can hold.

    {"record": "metadata", "value": {"message": "TopicRecord", "version": 0, "body": {...}}}
    {"record": "group", "key": {"message": "OffsetCommitKey", "body": {...}}, "value": ...}

A value that is null (a tombstone) is `null`; a key of a control record is `{"type": 1}`, after
which comes what it says. Each log's own module in `fencepost.wire.records` reads the bytes; this
module knows which one that is, and finds out the version.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from fencepost.wire.errors import DecodeError
from fencepost.wire.json_form import to_json
from fencepost.wire.message import Message
from fencepost.wire.records import control
from fencepost.wire.runtime import read_uvarint

Document = dict[str, Any]

_INT16 = Layout(">h")
_RECORDS: Final = "fencepost.wire.records"

TOPICS: Final = {
    "__cluster_metadata": "metadata",
    "__consumer_offsets": "group",
    "__transaction_state": "transaction",
    "__share_group_state": "share",
    "__remote_log_metadata": "remote-log",
}
"""The kinds of records in Kafka's own topics."""


class MissingPart(DecodeError):
    """The record has no `part` ("key" or "value"), without which it cannot be decoded."""

    def __init__(self, part: str) -> None:
        super().__init__(f"there is no {part} to decode it by")
        self.part = part


class Decoded(NamedTuple):
    """What a record's bytes say; a key is a message, the type of a control record, or not there."""

    key: Message | int | None
    value: Message | None
    version: int = 0


class StoredKind(NamedTuple):
    """One kind of record: whether it has a key, and how it is decoded by the module of its log."""

    has_key: bool
    decode_by: Callable[[Any, bytes | None, bytes | None], Decoded]
    module: str

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """What the bytes say. Raises DecodeError."""
        return self.decode_by(self.load_module(), key, value)

    def load_module(self) -> Any:
        """The module that reads and writes the records of this log."""
        return importlib.import_module(f"{_RECORDS}.{self.module}")


def decode(
    kind: str,
    key: bytes | None,
    value: bytes | None,
    *,
    int64_as_strings: bool = False,
    show_secrets: bool = False,
) -> Document:
    """The document of a record of `kind`, one of KINDS; secrets are hidden unless `show_secrets`.
    Raises DecodeError, MissingPart where it lacks what tells its class."""
    found = KINDS[kind].decode(key, value)
    document: Document = {"record": kind}
    as_json = partial(to_json, int64_as_strings=int64_as_strings, hide_secrets=not show_secrets)
    if isinstance(found.key, Message):
        body = as_json(found.key, 0)
        document["key"] = {"message": type(found.key).__name__, "body": body}
    elif found.key is not None:
        document["key"] = {"type": found.key}
    document["value"] = None
    if found.value is not None:
        document["value"] = {
            "message": type(found.value).__name__,
            "version": found.version,
            "body": as_json(found.value, found.version),
        }
    return document


# -- logs of coordinators: an int16 type before the key, an int16 version before the value ----


def _decode_coordinator(module: Any, key: bytes | None, value: bytes | None) -> Decoded:
    if key is None:
        raise MissingPart("key")
    key_message = module.decode_key(key)
    if value is None:
        return Decoded(key_message, None)
    value_message = module.decode_value(key_message, value)
    (version,) = _INT16.unpack_from(value)
    return Decoded(key_message, value_message, version)


# -- logs whose values carry frame version, record id and version as uvarints ------------------


def _decode_framed(module: Any, _key: bytes | None, value: bytes | None) -> Decoded:
    value = _needed(value)
    record = module.decode_record(value)
    _, pos = read_uvarint(value, 0)
    _, pos = read_uvarint(value, pos)
    version, _ = read_uvarint(value, pos)
    return Decoded(None, record, version)


# -- an int16 version before the message -------------------------------------------------------


def _decoder_of_prefixed(name: str) -> Callable[[Any, bytes | None, bytes | None], Decoded]:
    def decode_one(module: Any, _key: bytes | None, value: bytes | None) -> Decoded:
        value = _needed(value)
        cls = getattr(module, name)
        if len(value) < _INT16.size:
            raise DecodeError(f"{name} needs a version, not {len(value)} bytes")
        (version,) = _INT16.unpack_from(value)
        if not cls.min_version <= version <= cls.max_version:
            raise DecodeError(f"{name} has no version {version}")
        message, end = cls.read(value, _INT16.size, version)
        if end != len(value):
            raise DecodeError(f"{len(value) - end} bytes left over", position=end)
        return Decoded(None, message, version)

    return decode_one


# -- control records ---------------------------------------------------------------------------


def _decode_control(_module: Any, key: bytes | None, value: bytes | None) -> Decoded:
    if key is None:
        raise MissingPart("key")
    control_type = control.decode_control_key(key)
    value = _needed(value)
    message = control.decode_control_value(control_type, value)
    if message is None:
        raise DecodeError(f"no control record has the type {control_type}", "key")
    return Decoded(control_type, message)


def _needed(value: bytes | None) -> bytes:
    if value is None:
        raise MissingPart("value")
    return value


_PREFIXED: Final = {
    "subscription": ("consumer", "ConsumerProtocolSubscription"),
    "assignment": ("consumer", "ConsumerProtocolAssignment"),
    "principal": ("principal", "DefaultPrincipalData"),
}
KINDS: Final[dict[str, StoredKind]] = {
    "metadata": StoredKind(False, _decode_framed, "metadata"),
    "remote-log": StoredKind(False, _decode_framed, "remote_log"),
    "group": StoredKind(True, _decode_coordinator, "group"),
    "transaction": StoredKind(True, _decode_coordinator, "transaction"),
    "share": StoredKind(True, _decode_coordinator, "share"),
    "control": StoredKind(True, _decode_control, "control"),
    **{
        kind: StoredKind(False, _decoder_of_prefixed(name), module)
        for kind, (module, name) in _PREFIXED.items()
    },
}
