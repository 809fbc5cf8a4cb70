"""Records of Kafka's own logs, from the documents of `fencepost.wire.stored_records` to bytes and
back, with the errors of the command line."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any, Final

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert.json_parts import check_version, message_from, text_of, version_of
from fencepost.cli.wire.lookup.names import find_message
from fencepost.wire import stored_records
from fencepost.wire.errors import DecodeError
from fencepost.wire.json_form import JsonFormError
from fencepost.wire.message import Message
from fencepost.wire.records import control
from fencepost.wire.stored_records import KINDS, Document, MissingPart, StoredKind

Parts = list[tuple[str, bytes | None]]

_INT16 = Layout(">h")


def kinds() -> list[str]:
    """What `--record` takes."""
    return list(KINDS)


def has_key(kind: str) -> bool:
    """Whether records of this kind have a key."""
    return KINDS[kind].has_key


def decode(kind: str, key: bytes | None, value: bytes | None, **how: bool) -> Document:
    """The document of a record; `how` is as of `stored_records.decode`.

    Raises DecodeError, InputError without a part that it needs.
    """
    try:
        return stored_records.decode(kind, key, value, **how)
    except MissingPart as error:
        if error.part == "key":
            why = "the class of the value is in the key, which --key is for"
            raise InputError(why) from None
        raise InputError("there is no value to decode") from None


def encode(document: Document) -> Parts:
    """The key (where there is one) and the value. Raises what `documents.encode_document` does."""
    kind = text_of(document, "record")
    if kind not in KINDS:
        raise JsonFormError(f"{kind!r} is none of {', '.join(KINDS)}", "record")
    chosen = KINDS[kind]
    for name in ("key", "value") if chosen.has_key else ("value",):
        if name not in document:
            raise JsonFormError("missing", name)
    if not chosen.has_key and "key" in document:
        raise JsonFormError(f"a {kind} record has no key", "key")
    parts = _ENCODERS[kind](chosen.load_module(), document)
    _check_readable(chosen, parts, document)
    return parts


def _check_readable(chosen: StoredKind, parts: Parts, document: Document) -> None:
    """Raise JsonFormError when readers would not find in `parts` what the document says.

    A value's class is not in its bytes: readers have it from the kind of the record and its key.
    """
    found = dict(parts)
    if found["value"] is None:
        return
    wanted = find_message(text_of(document["value"], "message")).__name__
    try:
        value = chosen.decode(found.get("key"), found["value"]).value
    except DecodeError as error:
        raise JsonFormError(f"readers would find no {wanted} here: {error}", "value") from None
    if type(value).__name__ != wanted:
        raise JsonFormError(
            f"readers would find a {type(value).__name__} here, no {wanted}: "
            "the kind of a record and its key say what it is",
            "value",
        )


def _encode_coordinator(module: Any, document: Document) -> Parts:
    part = _object(document["key"], "key", {"message", "body"})
    key_class = find_message(text_of(part, "message"))
    key = module.encode_key(message_from(key_class, 0, part.get("body", {}), "key.body"))
    if document["value"] is None:
        return [("key", key), ("value", None)]
    message, version = _value_from(document)
    return [("key", key), ("value", module.encode_value(message, version))]


def _encode_framed(module: Any, document: Document) -> Parts:
    message, version = _value_from(document)
    return [("value", module.encode_record(message, version))]


def _encode_prefixed(_module: Any, document: Document) -> Parts:
    message, version = _value_from(document)
    return [("value", _INT16.pack(version) + message.encode(version))]


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


_ENCODERS: Final[dict[str, Callable[[Any, Document], Parts]]] = {
    "metadata": _encode_framed,
    "remote-log": _encode_framed,
    "group": _encode_coordinator,
    "transaction": _encode_coordinator,
    "share": _encode_coordinator,
    "control": _encode_control,
    "subscription": _encode_prefixed,
    "assignment": _encode_prefixed,
    "principal": _encode_prefixed,
}
