"""Records with something in every field."""

from __future__ import annotations

from typing import Any

from fencepost.wire.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))


def varied(message_class: Any, version: int) -> Any:
    """An object with something other than the default in every plain field of the version."""
    values: dict[str, Any] = {}
    for field in message_class.fields:
        if not field.versions.holds(version) or field.is_array or field.struct is not None:
            continue
        kind = field.primitive.name
        if kind in ("STRING",):
            values[field.name] = "säule"
        elif kind == "BYTES":
            values[field.name] = b"\x00\xff"
        elif kind == "UUID":
            values[field.name] = TOPIC_ID
        elif kind == "BOOL":
            values[field.name] = True
        elif kind == "FLOAT64":
            values[field.name] = 0.5
        else:
            values[field.name] = 7
    return message_class(**values)
