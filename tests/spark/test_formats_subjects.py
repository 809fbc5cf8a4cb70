"""Values read in the shape of one schema and written by one that is registered, without Spark."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.testing.registry import SchemaRegistry

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

import fastavro
from google.protobuf import descriptor_pb2

from fencepost.schemas.decoders import SchemaText, make_decoder
from fencepost.schemas.encoders import EncodeError
from fencepost.schemas.framing import DecodeError, split_frame
from fencepost.schemas.registry import Registration, Registry
from fencepost.spark.formats.inference import FIELDS_MAX, spark_type


def record(*fields: Any, name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ONE = record(field("id", "int"), field("old", "string"))
TWO = record(field("id", "long"), field("note", ["null", "string"], default=None))


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        yield made


@pytest.fixture
def registry(server: SchemaRegistry) -> Registry:
    return Registry({"url": server.url, "max.retries": 0})


def frame(schema_id: int, text: str, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(text)), value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def avro_type(schema: Any) -> str:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return spark_type(SchemaText("AVRO", text)).simpleString()


def json_type(schema: Any, **references: Any) -> str:
    named = {name: SchemaText("JSON", json.dumps(one)) for name, one in references.items()}
    return spark_type(SchemaText("JSON", json.dumps(schema), named)).simpleString()


# -- one shape -------------------------------------------------------------------------------------


def test_values_of_several_ids_in_the_shape_of_the_newest(
    server: SchemaRegistry, registry: Registry
):
    first, second = server.register("s", ONE), server.register("s", TWO)
    values = [
        frame(first, ONE, {"id": 1, "old": "x"}),
        frame(second, TWO, {"id": 2**40, "note": "y"}),
        None,
    ]
    newest, text = registry.version("s")
    assert (newest, text.text) == (second, TWO)
    found = registry.decode_all(values, newest)
    assert found == [
        ('{"id":1,"note":null}', first, None),
        ('{"id":1099511627776,"note":"y"}', second, None),
        (None, None, None),
    ]
    # As they were written.
    assert registry.decode_all(values[:1]) == [('{"id":1,"old":"x"}', first, None)]
    # And by the older one, which has no default for what is not there.
    assert registry.version("s", 1)[0] == first
    old = registry.decode_all(values, first)
    assert old[0] == ('{"id":1,"old":"x"}', first, None)
    assert old[1][0] is None
    assert "cannot be read by the schema asked for" in str(old[1][2])


def test_values_of_another_record_are_errors(server: SchemaRegistry, registry: Registry):
    first = server.register("s", ONE)
    other = record(field("id", "int"), name="Other")
    second = server.register("t", other)
    ((value, _, error),) = registry.decode_all([frame(second, other, {"id": 1})], first)
    assert value is None
    assert "cannot be read by the schema asked for" in str(error)
    json_id = server.register("j", "{}", "JSON")
    ((_, _, error),) = registry.decode_all([b"\0" + json_id.to_bytes(4, "big") + b"{}"], first)
    assert error == f"schema {json_id}: it is JSON, and is to be read as AVRO"


def test_a_schema_to_read_by_that_is_gone_fails_the_task(
    server: SchemaRegistry, registry: Registry
):
    first = server.register("s", ONE)
    with pytest.raises(RuntimeError, match="schema 99, by which values are to be read"):
        registry.decode_all([frame(first, ONE, {"id": 1, "old": "x"})], 99)
    for subject, version in (("nowhere", "latest"), ("s", 7)):
        with pytest.raises(DecodeError, match=f"no version {version} of subject {subject}"):
            registry.version(subject, version)


def proto(*messages: tuple[str, list[tuple[str, int, int]]]) -> str:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    for name, fields in messages:
        made = file.message_type.add(name=name)
        for word, number, kind in fields:
            made.field.add(name=word, number=number, type=kind, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf_in_the_shape_of_another():
    old = SchemaText("PROTOBUF", proto(("M", [("id", 1, 5)]), ("N", [("x", 1, 5)])))
    new = SchemaText("PROTOBUF", proto(("M", [("number", 1, 3), ("note", 2, 9)])))
    decode = make_decoder(old, new)
    assert decode(b"\0\x08\x05") == '{"number":5,"note":""}'
    with pytest.raises(DecodeError, match=r"is a p\.N, not a p\.M"):
        decode(b"\2\2\x08\x05")


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ('"int"', "int"),
        (["null", "long"], "bigint"),
        (["int", "long"], "bigint"),
        (["float", "null", "double"], "double"),
        (["int", "string"], "string"),
        ({"type": "map", "values": "bytes"}, "map<string,binary>"),
        ({"type": "array", "items": {"type": "int", "logicalType": "date"}}, "array<date>"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "long", "logicalType": "unheard-of"}, "bigint"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}, "string"),
        (
            record(
                field("a", {"type": "record", "name": "I", "fields": [field("x", "int")]}),
                field("b", ["null", "I"]),
            ),
            "struct<a:struct<x:int>,b:struct<x:int>>",
        ),
        (record(), "string"),
    ],
)
def test_types_of_avro(schema: Any, kind: str):
    assert avro_type(schema) == kind


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["number", "null"]}, "double"),
        ({"type": ["number", "string"]}, "string"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "string"),
        ({"properties": {"a": {"type": "string"}, "b": True}}, "struct<a:string,b:string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object"}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"enum": [1, "a"]}, "string"),
        ({"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a"}, "bigint"),
        ({"type": "object", "properties": {"a": {"$ref": "other#/a~1b"}}}, "struct<a:double>"),
    ],
)
def test_types_of_json(schema: Any, kind: str):
    assert json_type(schema, other={"a/b": {"type": "number"}}) == kind


def test_types_of_protobuf():
    from google.protobuf import timestamp_pb2, wrappers_pb2

    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name])
    made = file.message_type.add(name="M")
    for number, (name, kind, label, of) in enumerate(
        [
            ("a", 5, 1, ""), ("b", 4, 1, ""), ("c", 13, 1, ""), ("d", 12, 3, ""),
            ("e", 11, 1, ".google.protobuf.Timestamp"), ("f", 11, 1, ".google.protobuf.Int64Value"),
            ("g", 11, 1, ".p.N"),
        ],
        1,
    ):  # fmt: skip
        made.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)
    file.message_type.add(name="N").field.add(name="x", number=1, type=8, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    assert spark_type(SchemaText("PROTOBUF", text)).simpleString() == (
        "struct<a:int,b:decimal(20,0),c:bigint,d:array<binary>,e:timestamp,f:bigint,"
        "g:struct<x:boolean>>"
    )


def test_schemas_without_an_end_or_a_type():
    link = record(field("next", ["null", "R"]))
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="p", syntax="proto3")
    file.message_type.add(name="M").field.add(
        name="m", number=1, type=11, label=1, type_name=".p.M"
    )
    wide = record(*(field(f"f{number}", "int") for number in range(FIELDS_MAX)))
    for schema, words in (
        (SchemaText("AVRO", link), "recursive"),
        (SchemaText("JSON", json.dumps(tree)), "recursive"),
        (SchemaText("JSON", '{"$ref": "#/gone"}'), "KeyError"),
        (SchemaText("JSON", '{"$ref": "gone"}'), "KeyError"),
        (SchemaText("JSON", "["), "cannot be used"),
        (SchemaText("PROTOBUF", base64.b64encode(file.SerializeToString()).decode()), "recursive"),
        (SchemaText("PROTOBUF", "x"), "cannot be used"),
        (SchemaText("AVRO", wide), f"more than {FIELDS_MAX} fields"),
        (SchemaText("XML", ""), "unknown"),
    ):
        with pytest.raises(DecodeError, match=words):
            spark_type(schema)


# -- registration ----------------------------------------------------------------------------------


def given(text: str, kind: str = "AVRO", **more: Any) -> Registration:
    chosen = {"references": (), "is_registered": True, "is_normalized": False, **more}
    return Registration(text, kind, **chosen)


def test_a_schema_is_registered_once(server: SchemaRegistry, registry: Registry):
    for _ in range(2):
        encoded = registry.encode_all("s", [{"id": 5, "old": "x"}, None], given(ONE))
        assert encoded == [frame(1, ONE, {"id": 5, "old": "x"}), None]
    assert server.asked["/subjects/s/versions"] == 1
    (value,) = registry.encode_all("s", [{"id": 6}], given(TWO))
    assert split_frame(value or b"")[0] == 2
    assert registry.decode_all([value]) == [('{"id":6,"note":null}', 2, None)]


def test_protobuf_is_registered_as_text(server: SchemaRegistry, registry: Registry):
    pytest.importorskip("grpc_tools.protoc")
    text = 'syntax = "proto3"; message M { int64 id = 1; }'
    (value,) = registry.encode_all("s", [{"id": 5}], given(text, "PROTOBUF"))
    assert value == b"\0\0\0\0\1\0\x08\x05"
    (value,) = registry.encode_all("s", [{"id": 5}], given(text, "PROTOBUF"))
    assert registry.decode_all([value]) == [('{"id":5}', 1, None)]


def test_a_schema_with_references(server: SchemaRegistry, registry: Registry):
    server.register("money", record(field("cents", "long"), name="Money"))
    bill = given(record(field("sum", "Money")), references=(("Money", "money", 1),))
    (value,) = registry.encode_all("bill", [{"sum": {"cents": 5}}], bill)
    assert registry.decode_all([value]) == [('{"sum":{"cents":5}}', 2, None)]


def test_what_the_registry_refuses_is_told_in_its_words(server: SchemaRegistry, registry: Registry):
    server.register("s", ONE)
    with pytest.raises(EncodeError) as caught:
        registry.encode_all("s", [], given(record(field("x", "int"))))
    text = str(caught.value)
    assert text.startswith("subject s: the registry refuses the schema: Schema being registered is")
    assert "/x: the reader's field has no default and was not written" in text
    for broken, kind in (("{", "AVRO"), ("x", "PROTOBUF"), ('"int"', "XML")):
        with pytest.raises(EncodeError, match="the registry refuses the schema"):
            registry.encode_all("t", [], given(broken, kind))


def test_a_schema_that_has_to_be_there(server: SchemaRegistry, registry: Registry):
    for _ in range(2):
        with pytest.raises(EncodeError, match="Subject 's' not found"):
            registry.encode_all("s", [], given(ONE, is_registered=False))
    server.register("s", ONE)
    encoded = registry.encode_all("s", [{"id": 5, "old": "x"}], given(ONE, is_registered=False))
    assert encoded == [frame(1, ONE, {"id": 5, "old": "x"})]
    with pytest.raises(EncodeError, match="Schema not found"):
        registry.encode_all("s", [], given(TWO, is_registered=False))


def test_a_registry_in_trouble_is_not_the_schemas_fault(server: SchemaRegistry, registry: Registry):
    server.fail(503)
    with pytest.raises(Exception, match="503") as caught:
        registry.encode_all("s", [], given(ONE))
    assert not isinstance(caught.value, EncodeError)
    server.heal()
    assert registry.encode_all("s", [None], given(ONE)) == [None]
