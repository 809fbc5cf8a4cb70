"""Records of Kafka's own logs as JSON documents, and back.

    {"record": "metadata", "value": {"message": "TopicRecord", "version": 0, "body": {...}}}
    {"record": "group", "key": {"message": "OffsetCommitKey", "body": {...}}, "value": ...}

A value that is null (a tombstone) is `null`; a key of a control record is `{"type": 1}`, after
which comes what it says. Each log's own module in `fencepost.wire.records` reads and writes the
bytes, this module only finds out the version and the class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert.json_parts import check_version, message_from, text_of, version_of
from fencepost.cli.wire.lookup.names import find_message
from fencepost.wire.errors import DecodeError
from fencepost.wire.json_form import JsonFormError, to_json
from fencepost.wire.message import Message
from fencepost.wire.records import control
from fencepost.wire.runtime import read_uvarint

Document = dict[str, Any]
Parts = list[tuple[str, bytes | None]]

_INT16 = Layout(">h")
_RECORDS: Final = "fencepost.wire.records"


class Decoded(NamedTuple):
    """What a record's bytes say; a key is a message, the type of a control record, or not there."""

    key: Message | int | None
    value: Message | None
    version: int = 0


class Kind(NamedTuple):
    """One kind of record: whether it has a key, and the functions for both directions."""

    has_key: bool
    decode: Callable[[Any, bytes | None, bytes | None], Decoded]
    encode: Callable[[Any, Document], Parts]
    module: str


def kinds() -> list[str]:
    """What `--record` takes."""
    return list(_KINDS)


def has_key(kind: str) -> bool:
    """Whether records of this kind have a key."""
    return _KINDS[kind].has_key


def decode(
    kind: str,
    key: bytes | None,
    value: bytes | None,
    *,
    int64_as_strings: bool = False,
    show_secrets: bool = False,
) -> Document:
    """The document of a record; secrets are hidden unless `show_secrets`.

    Raises DecodeError, InputError without a key that it needs.
    """
    chosen = _KINDS[kind]
    module = importlib.import_module(f"{_RECORDS}.{chosen.module}")
    found = chosen.decode(module, key, value)
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


def encode(document: Document) -> Parts:
    """The key (where there is one) and the value. Raises what `documents.encode_document` does."""
    kind = text_of(document, "record")
    if kind not in _KINDS:
        raise JsonFormError(f"{kind!r} is none of {', '.join(_KINDS)}", "record")
    chosen = _KINDS[kind]
    for name in ("key", "value") if chosen.has_key else ("value",):
        if name not in document:
            raise JsonFormError("missing", name)
    if not chosen.has_key and "key" in document:
        raise JsonFormError(f"a {kind} record has no key", "key")
    module = importlib.import_module(f"{_RECORDS}.{chosen.module}")
    parts = chosen.encode(module, document)
    _check_readable(chosen, module, parts, document)
    return parts


def _check_readable(chosen: Kind, module: Any, parts: Parts, document: Document) -> None:
    """Raise JsonFormError when readers would not find in `parts` what the document says.

    A value's class is not in its bytes: readers have it from the kind of the record and its key.
    """
    found = dict(parts)
    if found["value"] is None:
        return
    wanted = find_message(text_of(document["value"], "message")).__name__
    try:
        value = chosen.decode(module, found.get("key"), found["value"]).value
    except DecodeError as error:
        raise JsonFormError(f"readers would find no {wanted} here: {error}", "value") from None
    if type(value).__name__ != wanted:
        raise JsonFormError(
            f"readers would find a {type(value).__name__} here, no {wanted}: "
            "the kind of a record and its key say what it is",
            "value",
        )


# -- logs of coordinators: an int16 type before the key, an int16 version before the value ----


def _decode_coordinator(module: Any, key: bytes | None, value: bytes | None) -> Decoded:
    if key is None:
        raise InputError("the class of the value is in the key, which --key is for")
    key_message = module.decode_key(key)
    if value is None:
        return Decoded(key_message, None)
    value_message = module.decode_value(key_message, value)
    (version,) = _INT16.unpack_from(value)
    return Decoded(key_message, value_message, version)


def _encode_coordinator(module: Any, document: Document) -> Parts:
    part = _object(document["key"], "key", {"message", "body"})
    key_class = find_message(text_of(part, "message"))
    key = module.encode_key(message_from(key_class, 0, part.get("body", {}), "key.body"))
    if document["value"] is None:
        return [("key", key), ("value", None)]
    message, version = _value_from(document)
    return [("key", key), ("value", module.encode_value(message, version))]


# -- logs whose values carry frame version, record id and version as uvarints ------------------


def _decode_framed(module: Any, _key: bytes | None, value: bytes | None) -> Decoded:
    value = _needed(value)
    record = module.decode_record(value)
    _, pos = read_uvarint(value, 0)
    _, pos = read_uvarint(value, pos)
    version, _ = read_uvarint(value, pos)
    return Decoded(None, record, version)


def _encode_framed(module: Any, document: Document) -> Parts:
    message, version = _value_from(document)
    return [("value", module.encode_record(message, version))]


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


def _encode_prefixed(_module: Any, document: Document) -> Parts:
    message, version = _value_from(document)
    return [("value", _INT16.pack(version) + message.encode(version))]


# -- control records ---------------------------------------------------------------------------


def _decode_control(_module: Any, key: bytes | None, value: bytes | None) -> Decoded:
    if key is None:
        raise InputError("the class of the value is in the key, which --key is for")
    control_type = control.decode_control_key(key)
    value = _needed(value)
    message = control.decode_control_value(control_type, value)
    if message is None:
        raise DecodeError(f"no control record has the type {control_type}", "key")
    return Decoded(control_type, message)


def _encode_control(_module: Any, document: Document) -> Parts:
    part = _object(document["key"], "key", {"type"})
    control_type = part.get("type")
    if isinstance(control_type, bool) or not isinstance(control_type, int):
        raise JsonFormError("a whole number is needed", "key.type")
    if not -0x8000 <= control_type <= 0x7FFF:
        raise JsonFormError(f"{control_type} does not fit into int16", "key.type")
    message, _ = _value_from(document)
    key = control.encode_control_key(control_type)
    return [("key", key), ("value", control.encode_control_value(message))]


# -- pieces ------------------------------------------------------------------------------------


def _needed(value: bytes | None) -> bytes:
    if value is None:
        raise InputError("there is no value to decode")
    return value


def _value_from(document: Document) -> tuple[Message, int]:
    part = _object(document["value"], "value", {"message", "version", "body"})
    version = version_of(part)
    cls = find_message(text_of(part, "message"))
    check_version(cls, version)
    return message_from(cls, version, part.get("body", {}), "value.body"), version


def _object(part: Any, where: str, keys: set[str]) -> Document:
    if not isinstance(part, dict):
        raise JsonFormError("an object is needed", where)
    for key in part:
        if key not in keys:
            raise JsonFormError("no key of it", f"{where}.{key}")
    return part


_PREFIXED: Final = {
    "subscription": ("consumer", "ConsumerProtocolSubscription"),
    "assignment": ("consumer", "ConsumerProtocolAssignment"),
    "principal": ("principal", "DefaultPrincipalData"),
}
_KINDS: Final[dict[str, Kind]] = {
    "metadata": Kind(False, _decode_framed, _encode_framed, "metadata"),
    "remote-log": Kind(False, _decode_framed, _encode_framed, "remote_log"),
    "group": Kind(True, _decode_coordinator, _encode_coordinator, "group"),
    "transaction": Kind(True, _decode_coordinator, _encode_coordinator, "transaction"),
    "share": Kind(True, _decode_coordinator, _encode_coordinator, "share"),
    "control": Kind(True, _decode_control, _encode_control, "control"),
    **{
        kind: Kind(False, _decoder_of_prefixed(name), _encode_prefixed, module)
        for kind, (module, name) in _PREFIXED.items()
    },
}
