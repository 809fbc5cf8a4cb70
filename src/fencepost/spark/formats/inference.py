"""From a schema of the registry to a type of Spark's, for values as `decoders` writes them.

Every column may be null. What has no type of its own becomes a string with its JSON: a union of
several types, JSON without a fixed type, a Struct or an Any of Google's, a decimal of more than 38
digits. A schema that contains itself has no end as a type, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from fencepost.schemas.decoders import (
    WRAPPERS,
    SchemaText,
    avro_schema,
    message_types,
    schema_errors,
    told,
)
from fencepost.schemas.framing import DecodeError

PRECISION_MAX: Final = 38
FIELDS_MAX: Final = 10_000
"""Of one type, with those within each other."""


def spark_type(schema: SchemaText) -> DataType:
    """The type. DecodeError for a schema that makes no sense, contains itself, or is of a type that
    is unknown."""
    makers: Mapping[str, Callable[[SchemaText], DataType]] = {
        "AVRO": _avro,
        "PROTOBUF": lambda one: _Messages().type_of(message_types(one)[0]),
        "JSON": lambda one: _Json().of(one),
    }
    if schema.kind not in makers:
        raise DecodeError(f"schemas of type {schema.kind} are unknown")
    try:
        return makers[schema.kind](schema)
    except schema_errors() as error:
        raise DecodeError(f"its schema cannot be used: {told(error)}") from error


class _Count:
    def __init__(self) -> None:
        self._fields = 0

    def take(self) -> None:
        """One more field. ValueError when there are too many."""
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise ValueError(f"it has more than {FIELDS_MAX} fields")


def _struct(fields: Mapping[str, DataType]) -> DataType:
    """Spark has structs without fields, but reads none of JSON: they are what they are."""
    if not fields:
        return StringType()
    return StructType([StructField(name, kind) for name, kind in fields.items()])


# -- Avro ------------------------------------------------------------------------------------------

_AVRO: Final[Mapping[str, DataType]] = {
    "null": StringType(), "boolean": BooleanType(), "int": IntegerType(), "long": LongType(),
    "float": FloatType(), "double": DoubleType(), "bytes": BinaryType(), "string": StringType(),
    "fixed": BinaryType(), "enum": StringType(),
}  # fmt: skip
_LOGICAL: Final[Mapping[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("int", "time-millis"): StringType(),
    ("long", "time-micros"): StringType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
    ("string", "uuid"): StringType(),
    ("fixed", "uuid"): StringType(),
}
_WIDER: Final = ({"int", "long"}, LongType()), ({"float", "double"}, DoubleType())


def _avro(schema: SchemaText) -> DataType:
    # `avro_schema` refuses schemas that contain themselves.
    parsed = avro_schema(schema)
    named = dict(parsed.get("__named_schemas__", {})) if isinstance(parsed, dict) else {}
    return _avro_type(parsed, named, _Count())


def _avro_type(one: Any, named: dict[str, Any], count: _Count) -> DataType:
    count.take()
    if isinstance(one, list):
        return _union(one, named, count)
    if isinstance(one, str):
        return _avro_type(named[one], named, count) if one in named else _AVRO[one]
    kind = one["type"]
    if "name" in one:
        named[one["name"]] = one
    if kind in ("record", "error"):
        return _struct(
            {part["name"]: _avro_type(part["type"], named, count) for part in one["fields"]}
        )
    if kind == "array":
        return ArrayType(_avro_type(one["items"], named, count))
    if kind == "map":
        return MapType(StringType(), _avro_type(one["values"], named, count))
    if one.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
        precision = int(one["precision"])
        if precision > PRECISION_MAX:
            return StringType()
        return DecimalType(precision, int(one.get("scale", 0)))
    if not isinstance(kind, str):
        return _avro_type(kind, named, count)
    found = _LOGICAL.get((kind, str(one.get("logicalType"))))
    return found if found is not None else _avro_type(kind, named, count)


def _union(branches: list[Any], named: dict[str, Any], count: _Count) -> DataType:
    others = [one for one in branches if one != "null"]
    if len(others) == 1:
        return _avro_type(others[0], named, count)
    for kinds, wider in _WIDER:
        if others and all(isinstance(one, str) and one in kinds for one in others):
            return wider
    return StringType()


# -- Protobuf --------------------------------------------------------------------------------------

_GOOGLE: Final[Mapping[str, DataType]] = {
    "Timestamp": TimestampType(), "Duration": StringType(), "FieldMask": StringType(),
    "Struct": StringType(), "Value": StringType(), "ListValue": StringType(), "Any": StringType(),
    "Empty": StringType(),
}  # fmt: skip


class _Messages:
    """Types of messages, one within the other."""

    def __init__(self) -> None:
        self._count = _Count()
        self._within: list[str] = []

    def type_of(self, message: Any) -> DataType:
        if message.full_name in WRAPPERS:
            return self._value(message.fields_by_name["value"])
        if message.file.package == "google.protobuf":
            return _GOOGLE.get(message.name, StringType())
        if message.full_name in self._within:
            raise ValueError(f"{message.full_name} is recursive")
        self._within.append(message.full_name)
        made = _struct({one.name: self._field(one) for one in message.fields})
        self._within.pop()
        return made

    def _field(self, field: Any) -> DataType:
        self._count.take()
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            return MapType(StringType(), self._value(message.fields_by_name["value"]))
        one = self._value(field)
        return ArrayType(one) if field.is_repeated else one

    def _value(self, field: Any) -> DataType:
        from google.protobuf.descriptor import FieldDescriptor as Kinds

        if field.message_type is not None:
            return self.type_of(field.message_type)
        if field.type == Kinds.TYPE_BYTES:
            return BinaryType()
        return {
            Kinds.CPPTYPE_INT32: IntegerType(),
            Kinds.CPPTYPE_INT64: LongType(),
            Kinds.CPPTYPE_UINT32: LongType(),
            Kinds.CPPTYPE_UINT64: DecimalType(20, 0),
            Kinds.CPPTYPE_DOUBLE: DoubleType(),
            Kinds.CPPTYPE_FLOAT: FloatType(),
            Kinds.CPPTYPE_BOOL: BooleanType(),
            Kinds.CPPTYPE_ENUM: StringType(),
            Kinds.CPPTYPE_STRING: StringType(),
        }[field.cpp_type]


# -- JSON ------------------------------------------------------------------------------------------

_JSON: Final[Mapping[str, DataType]] = {
    "string": StringType(), "integer": LongType(), "number": DoubleType(),
    "boolean": BooleanType(), "null": StringType(),
}  # fmt: skip


class _Json:
    """Types of a JSON Schema; references are followed in it and to schemas that it names."""

    def __init__(self) -> None:
        self._count = _Count()
        self._documents: dict[int, Any] = {}

    def of(self, schema: SchemaText) -> DataType:
        return self.type_of(self._document(schema), schema, ())

    def _document(self, schema: SchemaText) -> Any:
        """Each is read once: that it is the same object shows where a schema contains itself."""
        if id(schema) not in self._documents:
            self._documents[id(schema)] = json.loads(schema.text)
        return self._documents[id(schema)]

    def type_of(self, one: Any, schema: SchemaText, within: tuple[int, ...]) -> DataType:
        self._count.take()
        if not isinstance(one, dict):
            return StringType()
        if id(one) in within:
            raise ValueError("it is recursive")
        within = (*within, id(one))
        if isinstance(one.get("$ref"), str):
            return self.type_of(*self._referred(one["$ref"], schema), within)
        kinds = one.get("type")
        if isinstance(kinds, list):
            kinds = [kind for kind in kinds if kind != "null"]
            kinds = kinds[0] if len(kinds) == 1 else None
        if kinds is None:
            branches = [
                branch
                for word in ("oneOf", "anyOf")
                for branch in one.get(word, ())
                if not (isinstance(branch, dict) and branch.get("type") == "null")
            ]
            if len(branches) == 1 and "properties" not in one:
                return self.type_of(branches[0], schema, within)
            kinds = "object" if "properties" in one else None
        if kinds == "object":
            return self._object(one, schema, within)
        if kinds == "array":
            items = one.get("items")
            return ArrayType(self.type_of(items, schema, within))
        return _JSON.get(str(kinds), StringType())

    def _object(self, one: dict[str, Any], schema: SchemaText, within: tuple[int, ...]) -> DataType:
        properties, others = one.get("properties"), one.get("additionalProperties")
        if properties:
            return _struct(
                {name: self.type_of(part, schema, within) for name, part in properties.items()}
            )
        if isinstance(others, dict):
            return MapType(StringType(), self.type_of(others, schema, within))
        return StringType()

    def _referred(self, reference: str, schema: SchemaText) -> tuple[Any, SchemaText]:
        """What a `$ref` is to. LookupError, ValueError."""
        name, _, pointer = reference.partition("#")
        if name:
            schema = schema.references[name]
        found = self._document(schema)
        for word in pointer.split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            found = found[int(word)] if isinstance(found, list) else found[word]
        return found, schema
