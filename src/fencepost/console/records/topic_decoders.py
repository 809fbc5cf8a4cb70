"""Decoders that only some topics have: of Kafka's own logs, and by the schemas of a registry.

The registry is the console owner's choice, never the browser's, so that no request of a stranger
makes the console connect anywhere. It is asked from the thread that goes through records. One that
does not answer is not asked again for a while, and a look asks for a limited number of schemas that
it does not have, so that neither holds up a page.
"""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import Final

from fencepost.console.asked import Asked
from fencepost.console.records.decoders import AUTOMATIC, Decoder, TopicDecoder, Undecodable
from fencepost.wire import stored_records
from fencepost.wire.errors import DecodeError

REGISTRY_TIMEOUT_S: Final = 3
SILENCE_S: Final = 30
"""How long a registry that did not answer is left alone."""
UNKNOWN_MAX: Final = 100
"""Schemas that the registry does not have, of one look."""


def kafka_decoders(topic: str) -> tuple[list[TopicDecoder], list[TopicDecoder]]:
    """Those for keys and for values of one of Kafka's own topics; none for other topics."""
    kind = stored_records.TOPICS.get(topic)
    if kind is None:
        return [], []

    def always(_: bytes) -> bool:
        return True

    value = TopicDecoder("kafka", partial(_kafka_value, kind), always)
    if not stored_records.KINDS[kind].has_key:
        return [], [value]
    return [TopicDecoder("kafka", partial(_kafka_key, kind), always)], [value]


def _kafka_key(kind: str, data: bytes, _key: bytes | None) -> str:
    return _document(kind, data, None)["key"]


def _kafka_value(kind: str, data: bytes, key: bytes | None) -> str:
    return _document(kind, key, data)["value"]


def _document(kind: str, key: bytes | None, value: bytes | None) -> dict[str, str]:
    try:
        document = stored_records.decode(kind, key, value)
    except DecodeError as error:
        raise Undecodable(str(error)) from None
    return {
        part: json.dumps(document.get(part), ensure_ascii=False, separators=(",", ":"))
        for part in ("key", "value")
    }


class SchemaValues:
    """Decodes values by the schemas of the registry at `url`; may be used from several threads.
    Raises ImportError where the packages for it are not installed."""

    def __init__(self, url: str) -> None:
        from fencepost.schemas.registry import Registry

        properties = {"url": url, "timeout": REGISTRY_TIMEOUT_S, "max.retries": 0}
        self._registry = Registry(properties)
        self._turn = threading.Lock()
        self._silent_until = 0.0
        self._why_silent = ""

    def for_look(self) -> TopicDecoder:
        """The decoder for one look."""
        unknown: set[int] = set()
        return TopicDecoder(
            "registry", partial(self._decode, unknown), lambda data: data[:1] == b"\0"
        )

    def _decode(self, unknown: set[int], data: bytes, _key: bytes | None) -> str:
        with self._turn:
            if time.monotonic() < self._silent_until:
                raise Undecodable(f"the registry does not answer: {self._why_silent}")
            schema_id = int.from_bytes(data[1:5], "big")
            if schema_id in unknown or len(unknown) >= UNKNOWN_MAX:
                raise Undecodable(f"schema {schema_id} is not known, or cannot be used")
            try:
                ((text, _, error),) = self._registry.decode_all([data])
            except Exception as error:  # noqa: BLE001 - a client raises what its libraries do
                self._silent_until = time.monotonic() + SILENCE_S
                self._why_silent = f"{type(error).__name__}: {error}"[:300]
                raise Undecodable(f"the registry does not answer: {self._why_silent}") from None
            if text is None:
                if error is not None and error.startswith(f"schema {schema_id}:"):
                    unknown.add(schema_id)
                raise Undecodable(error or "null")
            return text


def decoders_of(asked: Asked, topic: str, schemas: SchemaValues | None) -> tuple[Decoder, Decoder]:
    """How keys and values of a topic are to be shown. Raises BadQuery."""
    keys, values = kafka_decoders(topic)
    if schemas is not None:
        by_schema = schemas.for_look()
        keys, values = [*keys, by_schema], [*values, by_schema]
    return (
        Decoder(asked.text("key") or AUTOMATIC, "key", keys),
        Decoder(asked.text("value") or AUTOMATIC, "value", values),
    )
