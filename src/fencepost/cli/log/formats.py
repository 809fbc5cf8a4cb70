"""How items, keys and values are shown."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fencepost.cli.failures import InputError
from fencepost.cli.output import json_bytes
from fencepost.cli.wire.convert import stored
from fencepost.log.dump.items import Item
from fencepost.log.dump.segments import RecordDecoder
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.coordinator import UnknownRecordTypeError

_USUAL: Final = {
    "magic": 2,
    "compression": "none",
    "timestamp_type": "create",
    "is_crc_right": True,
}
"""What nearly every batch has, and people need not read every time."""


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _json(data: bytes | None) -> Any:
    """The value behind JSON text; what is not JSON is shown as text."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return json_bytes(data)


BYTES_FORMATS: Final[dict[str, Callable[[bytes | None], Any]]] = {
    "text": json_bytes,
    "base64": _base64,
    "json": _json,
}


def decoder_of(kind: str, *, show_secrets: bool = False) -> RecordDecoder:
    """Decodes the records of one of Kafka's own logs; `kind` is one of `stored.kinds()`."""
    return partial(_decode, kind, show_secrets)


def _decode(
    kind: str, show_secrets: bool, key: bytes | None, value: bytes | None
) -> dict[str, Any]:
    try:
        return stored.decode(kind, key, value, show_secrets=show_secrets)
    except UnknownRecordTypeError as error:
        # of a later release, or of another kind of coordinator: no damage
        return {"undecoded": error.reason, "key": json_bytes(key), "value": json_bytes(value)}
    except InputError as error:
        raise DecodeError(str(error)) from None


def text_line(item: Item) -> str:
    """An item as a line for people: its type and `name=value`, without what says "none"."""
    words = [item.type]
    usual = _USUAL if item.type == "batch" else {}
    for name, value in item.fields.items():
        if type(value) is int:
            if value != -1 and usual.get(name) != value:
                words.append(f"{name}={value}")
        elif value is None or value is False or usual.get(name) == value:
            continue
        elif value is True:
            words.append(name.removeprefix("is_"))
        else:
            words.append(f"{name}={_text_of(value)}")
    return " ".join(words)


def _text_of(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_line(item: Item) -> str:
    """An item as one JSON object."""
    return json.dumps({"type": item.type, **item.fields}, separators=(",", ":"))
