"""The schema registry, asked once per schema and worker.

Confluent's client does the asking: authentication, TLS, retries. What is kept are decoders, since
making one costs more than using it. A schema that the registry does not have is the record's fault,
and is asked for again with the next batch of rows; a registry that does not answer is nobody's,
so it fails the task, which Spark tries again, and no record becomes a dead letter for it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fencepost.spark.formats.decoders import Decoder, SchemaText, make_decoder
from fencepost.spark.formats.encoders import EncodeError, Encoder, make_encoder
from fencepost.spark.formats.framing import DecodeError, frame, split_frame

DECODERS_MAX: Final = 1000
REGISTRIES_MAX: Final = 8
REFERENCES_MAX: Final = 1000
REFERENCES_DEEP_MAX: Final = 50
TIMEOUT_S: Final = 10
NOT_FOUND: Final = 404
ERROR_CHARACTERS_MAX: Final = 500

Config = tuple[tuple[str, Any], ...]
Decoded = tuple[str | None, int | None, str | None]
"""JSON text, schema id, error."""

_registries: OrderedDict[tuple[int, Config], Registry] = OrderedDict()


def registry_for(config: Config) -> Registry:
    """The worker's registry for these properties; the one longest unused goes."""
    key = (os.getpid(), config)  # a forked child must not use its parent's sockets
    found = _registries.pop(key, None)
    if found is None:
        found = Registry(dict(config))
    _registries[key] = found
    while len(_registries) > REGISTRIES_MAX:
        _registries.popitem(last=False)
    return found


class Registry:
    """Decoders and encoders by schema id. `properties` are those of SchemaRegistryClient."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self._client = SchemaRegistryClient({"timeout": TIMEOUT_S, **properties})
        self._decoders: OrderedDict[int, Decoder] = OrderedDict()
        self._encoders: OrderedDict[int, Encoder] = OrderedDict()

    def decode_all(self, values: Iterable[bytes | None]) -> list[Decoded]:
        """Every value, or why it could not be decoded; null for null. Raises what the client
        raises when the registry cannot be asked."""
        unusable: dict[int, str] = {}
        return [(None, None, None) if v is None else self._decode(v, unusable) for v in values]

    def encode_all(self, subject: str, values: Iterable[Any]) -> list[bytes | None]:
        """Every value in a frame, by the newest schema of the subject; null for null. EncodeError
        for what does not fit, or no such subject; what the client raises for other reasons."""
        schema_id, encoder = self._newest(subject)
        return [None if value is None else frame(schema_id, encoder(value)) for value in values]

    def _newest(self, subject: str) -> tuple[int, Encoder]:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            # The client keeps it, as long as its property cache.latest.ttl.sec says.
            found = self._client.get_latest_version(subject, fmt="serialized")
            schema_id = found.schema_id
            assert schema_id is not None  # in answers it is always there
            known = self._encoders.pop(schema_id, None)
            if known is None:
                text = self._with_references(found.schema, [REFERENCES_MAX], REFERENCES_DEEP_MAX)
                known = make_encoder(text)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise EncodeError(
                    f"the registry has no subject {subject}, or lacks a schema that it names"
                ) from error
            raise
        except (DecodeError, EncodeError) as error:
            raise EncodeError(f"subject {subject}: {error}") from error
        self._encoders[schema_id] = known
        while len(self._encoders) > DECODERS_MAX:
            self._encoders.popitem(last=False)
        return schema_id, known

    def _decode(self, value: bytes, unusable: dict[int, str]) -> Decoded:
        schema_id = None
        try:
            schema_id, payload = split_frame(value)
            if schema_id in unusable:
                return None, schema_id, unusable[schema_id]
            try:
                decoder = self._decoder(schema_id)
            except DecodeError as error:
                unusable[schema_id] = _short(f"schema {schema_id}: {error}")
                return None, schema_id, unusable[schema_id]
            return decoder(payload), schema_id, None
        except DecodeError as error:
            return None, schema_id, _short(str(error))

    def _decoder(self, schema_id: int) -> Decoder:
        known = self._decoders.pop(schema_id, None)
        if known is None:
            known = make_decoder(self._schema(schema_id))
        self._decoders[schema_id] = known
        while len(self._decoders) > DECODERS_MAX:
            self._decoders.popitem(last=False)
        return known

    def _schema(self, schema_id: int) -> SchemaText:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            # Registries give Protobuf as a descriptor then, and pass over it for other types.
            found = self._client.get_schema(schema_id, fmt="serialized")
            return self._with_references(found, [REFERENCES_MAX], REFERENCES_DEEP_MAX)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise DecodeError("the registry does not have it, or a schema it names") from error
            raise

    def _with_references(self, schema: Any, left: list[int], deep: int) -> SchemaText:
        references = {}
        for reference in schema.references or ():
            left[0] -= 1
            if left[0] < 0 or deep == 0:
                raise DecodeError("it names too many schemas, or itself")
            found = self._client.get_version(
                reference.subject, reference.version, fmt="serialized"
            ).schema
            references[reference.name] = self._with_references(found, left, deep - 1)
        return SchemaText(schema.schema_type or "AVRO", schema.schema_str, references)


def _short(text: str) -> str:
    if len(text) <= ERROR_CHARACTERS_MAX:
        return text
    return text[:ERROR_CHARACTERS_MAX] + "..."
