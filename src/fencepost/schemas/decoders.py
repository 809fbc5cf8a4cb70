"""From a schema of the registry to a function from bytes to JSON text.

JSON text, because Spark has a reader for it (`from_json`) and the columns of a DataFrame must be
known before the first schema is. Bytes become Base64, as that reader takes them, decimals text,
dates, times and timestamps ISO 8601, NaN and the infinities what Spark reads as such. JSON values
are checked to be JSON; they are not validated against their schema.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from fencepost.schemas.framing import DecodeError, read_message_indexes

Decoder = Callable[[bytes], str]
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
"""Messages of Protobuf that are but a value which may be absent."""
BROKEN: Final = (ValueError, ArithmeticError, LookupError, TypeError, EOFError, RecursionError)
"""What libraries raise for bytes that do not fit a schema: anything of this, by the place."""


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as the registry has it: `kind` is AVRO, PROTOBUF or JSON; `references` are the
    schemas that it names, by the names that it uses. Protobuf comes as a FileDescriptorProto in
    Base64 (`format=serialized`)."""

    kind: str
    text: str
    references: Mapping[str, SchemaText] = field(default_factory=dict)


def make_decoder(schema: SchemaText, reader: SchemaText | None = None) -> Decoder:
    """A function that raises DecodeError for what does not fit. DecodeError, too, for a schema of
    another kind, or that makes no sense.

    With `reader`, values come in the shape of that schema, whichever they were written with: by
    Avro's resolution of schemas; by Protobuf's numbers of fields, as the message of the same name.
    JSON stays as it is.
    """
    makers: dict[str, Callable[[SchemaText, SchemaText | None], Decoder]] = {
        "AVRO": _avro,
        "PROTOBUF": _protobuf,
        "JSON": lambda *_: _read_json,
    }
    if schema.kind not in makers:
        raise DecodeError(f"schemas of type {schema.kind} are unknown")
    if reader is not None and reader.kind != schema.kind:
        raise DecodeError(f"it is {schema.kind}, and is to be read as {reader.kind}")
    try:
        return makers[schema.kind](schema, reader)
    except schema_errors() as error:
        raise DecodeError(f"its schema cannot be used: {told(error)}") from error


def schema_errors() -> tuple[type[Exception], ...]:
    """What libraries raise for a schema that makes no sense."""
    from fastavro.schema import SchemaParseException, UnknownType
    from google.protobuf.message import DecodeError as ProtobufError

    return (*BROKEN, SchemaParseException, UnknownType, ProtobufError)


def told(error: Exception) -> str:
    """An error of a library as a part of a text of ours."""
    return f"{type(error).__name__}: {error}"


def dump(value: object) -> str:
    """JSON text in the forms that the module names. TypeError for what has none."""
    return json.dumps(value, default=_plain_value, ensure_ascii=False, separators=(",", ":"))


def _plain_value(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


# -- JSON ------------------------------------------------------------------------------------------


def _read_json(payload: bytes) -> str:
    try:
        text = payload.decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"no JSON: {told(error)}") from error
    return text


# -- Avro ------------------------------------------------------------------------------------------


def avro_schema(schema: SchemaText) -> Any:
    """Parsed, with what it names; `schema_errors` for one that makes no sense or has no end."""
    import fastavro

    named: dict[str, Any] = {}
    for text in dict.fromkeys(_inner_texts(schema)):
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    _refuse_endless(parsed, named, frozenset(), set())
    return parsed


def _avro(schema: SchemaText, reader: SchemaText | None) -> Decoder:
    import fastavro
    from fastavro.read import SchemaResolutionError

    parsed = avro_schema(schema)
    wanted = None if reader is None else avro_schema(reader)

    def decode(payload: bytes) -> str:
        stream = io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(stream, parsed, wanted)
            text = dump(value)
        except SchemaResolutionError as error:
            raise DecodeError(f"cannot be read by the schema asked for: {told(error)}") from error
        except BROKEN as error:
            raise DecodeError(f"does not fit its Avro schema: {told(error)}") from error
        if stream.tell() != len(payload):
            left = len(payload) - stream.tell()
            raise DecodeError(f"{left} bytes are left behind the end of its Avro schema")
        return text

    return decode


def _inner_texts(schema: SchemaText) -> Iterable[str]:
    """The schemas that it names, the innermost first."""
    for referenced in schema.references.values():
        yield from _inner_texts(referenced)
        yield referenced.text


def _refuse_endless(
    one: Any, named: Mapping[str, Any], within: frozenset[str], done: set[str]
) -> None:
    """ValueError for a schema by which a few bytes could claim to be more than memory holds.

    Recursive ones: fastavro's compiled reader follows a value however deep it goes, and ends the
    process (Spark's own reader refuses them, too). Arrays whose items take no bytes.
    """
    if isinstance(one, str):
        if one in within:
            raise ValueError(f"{one} is recursive")
        if one not in done and one in named:
            _refuse_endless(named[one], named, within | {one}, done)
            done.add(one)
    elif isinstance(one, list):
        for branch in one:
            _refuse_endless(branch, named, within, done)
    elif isinstance(one, dict):
        if one["type"] == "array" and _takes_no_bytes(one["items"], named):
            raise ValueError("it has an array of items that take no bytes")
        inside = within | {one["name"]} if "name" in one else within
        for part in one.get("fields", ()):
            _refuse_endless(part["type"], named, inside, done)
        for inner in ("items", "values"):
            _refuse_endless(one.get(inner), named, within, done)


def _takes_no_bytes(one: Any, named: Mapping[str, Any]) -> bool:
    if isinstance(one, str):
        return one == "null" or (one in named and _takes_no_bytes(named[one], named))
    if not isinstance(one, dict):
        return False  # a union has its branch's number
    if one["type"] in ("record", "error"):
        return all(_takes_no_bytes(part["type"], named) for part in one["fields"])
    return one["type"] == "null" or (one["type"] == "fixed" and one["size"] == 0)


# -- Protobuf --------------------------------------------------------------------------------------


def message_types(schema: SchemaText) -> list[Any]:
    """Descriptors of the file's messages, in their order; `schema_errors` where they make none."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    file = pool.FindFileByName(_add_file(pool, schema, None, set()))
    return list(file.message_types_by_name.values())


def _protobuf(schema: SchemaText, reader: SchemaText | None) -> Decoder:
    from google.protobuf.message import DecodeError as ProtobufError
    from google.protobuf.message_factory import GetMessageClass

    top = message_types(schema)
    wanted = None if reader is None else message_types(reader)[0]

    def decode(payload: bytes) -> str:
        indexes, data = read_message_indexes(payload)
        try:
            found = top[_index(indexes[0])]
            for index in indexes[1:]:
                found = found.nested_types[_index(index)]
        except IndexError:
            raise DecodeError(f"its schema has no message at the indexes {indexes}") from None
        if wanted is not None:
            if found.full_name != wanted.full_name:
                raise DecodeError(f"is a {found.full_name}, not a {wanted.full_name}")
            found = wanted
        try:
            return dump(_plain_message(GetMessageClass(found).FromString(data)))
        except (*BROKEN, ProtobufError) as error:
            raise DecodeError(f"is no {found.full_name}: {told(error)}") from error

    return decode


def _index(index: int) -> int:
    if index < 0:
        raise IndexError
    return index


def _add_file(pool: Any, schema: SchemaText, name: str | None, added: set[str]) -> str:
    """Put the file and what it imports into the pool; the name that it goes by."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    proto = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    proto.name = name or proto.name or "value.proto"
    for dependency in proto.dependency:
        if dependency in added:
            continue
        added.add(dependency)
        if dependency in schema.references:
            _add_file(pool, schema.references[dependency], dependency, added)
        else:
            pool.AddSerializedFile(_well_known(dependency))
    pool.AddSerializedFile(proto.SerializeToString())
    return str(proto.name)


def _well_known(name: str) -> bytes:
    """A file of Google's that every compiler has and no registry keeps. ValueError for others."""
    package, _, file = name.rpartition("/")
    if package != "google/protobuf" or not file.removesuffix(".proto").isidentifier():
        raise ValueError(f"imports {name}, which is not among its references")
    try:
        module = importlib.import_module(f"google.protobuf.{file.removesuffix('.proto')}_pb2")
    except ImportError as error:
        raise ValueError(f"imports {name}, which does not exist") from error
    return bytes(module.DESCRIPTOR.serialized_pb)


def _plain_message(message: Any) -> Any:
    """A message by the names of its fields; absent ones that can tell so are null. 64-bit numbers
    stay numbers: Protobuf's own JSON has them as text, which Spark does not take for numbers."""
    from google.protobuf import json_format

    descriptor = message.DESCRIPTOR
    if descriptor.full_name in WRAPPERS:
        return message.value
    if descriptor.file.package == "google.protobuf":
        return json_format.MessageToDict(message)  # a Timestamp is a text, a Struct an object
    plain: dict[str, Any] = {}
    for one in descriptor.fields:
        value = getattr(message, one.name)
        if one.message_type is not None and one.message_type.GetOptions().map_entry:
            inner = one.message_type.fields_by_name["value"]
            plain[one.name] = {_key(key): _plain_field(inner, value[key]) for key in value}
        elif one.is_repeated:
            plain[one.name] = [_plain_field(one, item) for item in value]
        elif one.has_presence and not message.HasField(one.name):
            plain[one.name] = None
        else:
            plain[one.name] = _plain_field(one, value)
    return plain


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _plain_field(one: Any, value: Any) -> Any:
    if one.message_type is not None:
        return _plain_message(value)
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
