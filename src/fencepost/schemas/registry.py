"""The schema registry, asked once per schema and worker.

Confluent's client does the asking: authentication, TLS, retries. What is kept are decoders, since
making one costs more than using it. An encoder's schema is the newest of its subject, or one that
each worker registers (`Registration`): registries answer an equal schema with the id that it has. A
schema that the registry does not have is the record's fault, and is asked for again with the next
batch of rows; a registry that does not answer, or has lost the schema that all values are to be
read by, fails the task, which Spark tries again, and no record becomes a dead letter for it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from fencepost.schemas.decoders import Decoder, SchemaText, make_decoder
from fencepost.schemas.encoders import EncodeError, Encoder, make_encoder
from fencepost.schemas.framing import DecodeError, frame, split_frame

K = TypeVar("K")
V = TypeVar("V")

DECODERS_MAX: Final = 1000
REGISTRIES_MAX: Final = 8
REFERENCES_MAX: Final = 1000
REFERENCES_DEEP_MAX: Final = 50
TIMEOUT_S: Final = 10
NOT_FOUND: Final = 404
REFUSALS: Final = (404, 409, 422)
"""Answers that say no to a schema; others say that the registry is in trouble."""
LATEST: Final = "latest"
Which = int | Literal["latest"]
"""A version of a subject."""
ERROR_CHARACTERS_MAX: Final = 500

Config = tuple[tuple[str, Any], ...]
Decoded = tuple[str | None, int | None, str | None]
"""JSON text, schema id, error."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A schema to encode by: registered under its subject, or only looked up there."""

    text: str
    kind: str
    references: tuple[tuple[str, str, int], ...]
    """Name, subject, version of each."""
    is_registered: bool
    is_normalized: bool


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

        self._properties = {"timeout": TIMEOUT_S, **properties}
        self._client = SchemaRegistryClient(self._properties)
        # What a client has registered it answers from memory, and not in the form asked for.
        self._registering = SchemaRegistryClient(self._properties)
        self._decoders: OrderedDict[tuple[int, int | None], Decoder] = OrderedDict()
        self._encoders: OrderedDict[int, Encoder] = OrderedDict()
        self._registered: OrderedDict[tuple[str, Registration], int] = OrderedDict()

    def version(self, subject: str, version: Which = LATEST) -> tuple[int, SchemaText]:
        """Id and schema of a version of a subject. DecodeError for one that is not there, or that
        names what is not there; what the client raises for other reasons."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            found = self._client.get_version(subject, version, fmt="serialized")
            assert found.schema_id is not None  # in answers it is always there
            return found.schema_id, self._text(found.schema)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise DecodeError(
                    f"the registry has no version {version} of subject {subject}, or lacks a schema"
                    " that it names"
                ) from error
            raise

    def decode_all(
        self, values: Iterable[bytes | None], reader_id: int | None = None
    ) -> list[Decoded]:
        """Every value, or why it could not be decoded; null for null. `reader_id` is the schema in
        whose shape they are to be. Raises what the client raises when the registry cannot be asked,
        or does not have that schema."""
        unusable: dict[int, str] = {}
        return [
            (None, None, None) if v is None else self._decode(v, reader_id, unusable)
            for v in values
        ]

    def encode_all(
        self, subject: str, values: Iterable[Any], registration: Registration | None = None
    ) -> list[bytes | None]:
        """Every value in a frame, by the newest schema of the subject, or by that of the
        registration; null for null. EncodeError for what does not fit, no such subject, and a
        schema that the registry refuses; what the client raises for other reasons."""
        if registration is None:
            schema_id, encoder = self._newest(subject)
        else:
            schema_id, encoder = self._by_registration(subject, registration)
        return [None if value is None else frame(schema_id, encoder(value)) for value in values]

    def _newest(self, subject: str) -> tuple[int, Encoder]:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            # The client keeps it, as long as its property cache.latest.ttl.sec says.
            found = self._client.get_latest_version(subject, fmt="serialized")
            schema_id = found.schema_id
            assert schema_id is not None  # in answers it is always there
            return schema_id, self._encoder(schema_id, found.schema)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise EncodeError(
                    f"the registry has no subject {subject}, or lacks a schema that it names"
                ) from error
            raise
        except (DecodeError, EncodeError) as error:
            raise EncodeError(f"subject {subject}: {error}") from error

    def _by_registration(self, subject: str, given: Registration) -> tuple[int, Encoder]:
        from confluent_kafka.schema_registry import Schema, SchemaReference
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        key = subject, given
        schema_id = self._registered.get(key)
        try:
            if schema_id is None:
                references = [SchemaReference(*one) for one in given.references]
                schema = Schema(given.text, given.kind, references)
                ask = self._registering
                if given.is_registered:
                    schema_id = ask.register_schema(subject, schema, given.is_normalized)
                else:
                    schema_id = ask.lookup_schema(subject, schema, given.is_normalized).schema_id
                assert schema_id is not None  # in answers it is always there
                _keep(self._registered, key, schema_id)
            if schema_id in self._encoders:
                return schema_id, self._encoder(schema_id, None)
            found = self._client.get_schema(schema_id, fmt="serialized")
            return schema_id, self._encoder(schema_id, found)
        except SchemaRegistryError as error:
            if error.http_status_code in REFUSALS:
                raise EncodeError(
                    f"subject {subject}: the registry refuses the schema: {error.error_message}"
                ) from error
            raise
        except (DecodeError, EncodeError) as error:
            raise EncodeError(f"subject {subject}: {error}") from error

    def _encoder(self, schema_id: int, schema: Any) -> Encoder:
        known = self._encoders.pop(schema_id, None) or make_encoder(self._text(schema))
        _keep(self._encoders, schema_id, known)
        return known

    def _decode(self, value: bytes, reader_id: int | None, unusable: dict[int, str]) -> Decoded:
        schema_id = None
        try:
            schema_id, payload = split_frame(value)
            if schema_id in unusable:
                return None, schema_id, unusable[schema_id]
            try:
                decoder = self._decoder(schema_id, reader_id)
            except DecodeError as error:
                unusable[schema_id] = _short(f"schema {schema_id}: {error}")
                return None, schema_id, unusable[schema_id]
            return decoder(payload), schema_id, None
        except DecodeError as error:
            return None, schema_id, _short(str(error))

    def _decoder(self, schema_id: int, reader_id: int | None) -> Decoder:
        key = schema_id, None if reader_id == schema_id else reader_id
        known = self._decoders.pop(key, None)
        if known is None:
            reader = None if key[1] is None else self._reader(key[1])
            known = make_decoder(self.schema(schema_id), reader)
        _keep(self._decoders, key, known)
        return known

    def _reader(self, schema_id: int) -> SchemaText:
        try:
            return self.schema(schema_id)
        except DecodeError as error:
            raise RuntimeError(
                f"schema {schema_id}, by which values are to be read: {error}"
            ) from error

    def schema(self, schema_id: int) -> SchemaText:
        """A schema by its id. DecodeError for one that is not there, or that names what is not
        there; what the client raises for other reasons."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            # Registries give Protobuf as a descriptor then, and pass over it for other types.
            found = self._client.get_schema(schema_id, fmt="serialized")
            return self._text(found)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                raise DecodeError("the registry does not have it, or a schema it names") from error
            raise

    def _text(self, schema: Any) -> SchemaText:
        return self._with_references(schema, [REFERENCES_MAX], REFERENCES_DEEP_MAX)

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


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """Put it in; what was put in first goes when there is too much."""
    kept[key] = value
    while len(kept) > DECODERS_MAX:
        kept.popitem(last=False)


def _short(text: str) -> str:
    if len(text) <= ERROR_CHARACTERS_MAX:
        return text
    return text[:ERROR_CHARACTERS_MAX] + "..."
