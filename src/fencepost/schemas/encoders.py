"""From a schema of the registry to a function from a row's value to bytes: the other way round.

A value is what Arrow makes of a column: a dictionary for a struct, with dates, decimals and bytes
in it. Avro takes exactly the fields of its schema, those with a default may be missing; Protobuf
those it knows; JSON takes any, and is not validated against its schema. What does not fit is an
EncodeError, and so the end of the task: a row that is to be written must not get lost.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any, Final

from fencepost.schemas.decoders import (
    BROKEN,
    SchemaText,
    avro_schema,
    dump,
    message_types,
    schema_errors,
    told,
)

Encoder = Callable[[Any], bytes]
FIRST_MESSAGE: Final = b"\0"
"""The message indexes of the first message in a file, cut short as Confluent's serializers do."""


class EncodeError(Exception):
    """The value does not fit the schema, or the schema makes no sense; the text has the cause."""


def make_encoder(schema: SchemaText) -> Encoder:
    """A function that raises EncodeError for what does not fit. EncodeError, too, for a schema of
    another kind, or that makes no sense. Protobuf is the first message of the file."""
    makers: dict[str, Callable[[SchemaText], Encoder]] = {
        "AVRO": _avro,
        "PROTOBUF": _protobuf,
        "JSON": lambda _: _write_json,
    }
    if schema.kind not in makers:
        raise EncodeError(f"schemas of type {schema.kind} are unknown")
    try:
        return makers[schema.kind](schema)
    except schema_errors() as error:
        raise EncodeError(f"the schema cannot be used: {told(error)}") from error


def _write_json(value: Any) -> bytes:
    try:
        return dump(value).encode()
    except BROKEN as error:
        raise EncodeError(f"has no form in JSON: {told(error)}") from error


def _avro(schema: SchemaText) -> Encoder:
    import fastavro

    parsed = avro_schema(schema)

    def encode(value: Any) -> bytes:
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, parsed, value, strict_allow_default=True)
        except (*BROKEN, AttributeError, struct.error) as error:
            raise EncodeError(f"does not fit its Avro schema: {told(error)}") from error
        return stream.getvalue()

    return encode


def _protobuf(schema: SchemaText) -> Encoder:
    from google.protobuf import json_format
    from google.protobuf.message_factory import GetMessageClass

    first = GetMessageClass(message_types(schema)[0])

    def encode(value: Any) -> bytes:
        try:
            made = json_format.ParseDict(json.loads(dump(value)), first())
            return FIRST_MESSAGE + made.SerializeToString()
        except (*BROKEN, json_format.Error) as error:
            name = first.DESCRIPTOR.full_name
            raise EncodeError(f"is no {name}: {told(error)}") from error

    return encode
