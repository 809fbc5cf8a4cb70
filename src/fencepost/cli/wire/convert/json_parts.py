"""Small pieces of JSON documents, checked: a text, a version, a message in its JSON form."""

from __future__ import annotations

from typing import Any

from fencepost.wire.errors import EncodeError, UnsupportedVersionError
from fencepost.wire.json_form import JsonFormError, from_json
from fencepost.wire.message import Message


def text_of(document: dict[str, Any], key: str) -> str:
    """A string. Raises JsonFormError."""
    value = document.get(key)
    if not isinstance(value, str):
        raise JsonFormError("a string is needed", key)
    return value


def version_of(document: dict[str, Any]) -> int:
    """The version. Raises JsonFormError."""
    value = document.get("version")
    if isinstance(value, bool) or not isinstance(value, int):
        raise JsonFormError("a whole number is needed", "version")
    return value


def check_version(cls: type[Message], version: int) -> None:
    """Raise UnsupportedVersionError for a version that `cls` does not have."""
    if not cls.min_version <= version <= cls.max_version:
        raise UnsupportedVersionError(cls.__name__, version, cls.min_version, cls.max_version)


def message_from(cls: type[Message], version: int, obj: Any, where: str) -> Message:
    """A message in its JSON form at `where`. Raises JsonFormError, UnsupportedVersionError."""
    try:
        return from_json(cls, version, obj)
    except JsonFormError as error:
        raise JsonFormError(error.reason, f"{where}.{error.path}".rstrip(".")) from None


def encode_inner(cls: type[Message], version: int, obj: Any, where: str) -> bytes:
    """The bytes of a message in its JSON form at `where`; also EncodeError."""
    message = message_from(cls, version, obj, where)
    try:
        return message.encode(version)
    except EncodeError as error:
        raise EncodeError(error.reason, f"{where}.{error.path}".rstrip(".")) from None
