"""How keys, values and the records of Kafka's own logs are shown."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fencepost.cli.output import json_bytes
from fencepost.log.dump.segments import RecordDecoder
from fencepost.wire import stored_records
from fencepost.wire.records.coordinator import UnknownRecordTypeError


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
    """Decodes the records of one of Kafka's own logs; `kind` is one of `stored_records.KINDS`."""
    return partial(_decode, kind, show_secrets)


def _decode(
    kind: str, show_secrets: bool, key: bytes | None, value: bytes | None
) -> dict[str, Any]:
    try:
        return stored_records.decode(kind, key, value, show_secrets=show_secrets)
    except UnknownRecordTypeError as error:
        # of a later release, or of another kind of coordinator: no damage
        return {"undecoded": error.reason, "key": json_bytes(key), "value": json_bytes(value)}
