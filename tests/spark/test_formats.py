"""Values behind a schema registry, decoded without Spark; hostile values and schemas."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from fencepost.testing.registry import Reference, SchemaRegistry

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2  # noqa: E402
from google.protobuf.message_factory import GetMessageClass  # noqa: E402

from fencepost.schemas.decoders import SchemaText, make_decoder  # noqa: E402
from fencepost.schemas.encoders import EncodeError  # noqa: E402
from fencepost.schemas.framing import (  # noqa: E402
    DecodeError,
    read_message_indexes,
    split_frame,
)
from fencepost.schemas.registry import Registry  # noqa: E402

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
VALUE = {
    "id": 7,
    "note": None,
    "raw": b"\0\xff",
    "price": Decimal("12.30"),
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "tags": ["a", "ü"],
}
TEXT = (
    '{"id":7,"note":null,"raw":"AP8=","price":"12.30","at":"2026-01-02T03:04:05+00:00",'
    '"tags":["a","ü"]}'
)


def frame(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """A file of two messages, the second with one inside it, as a registry would give it."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    field = descriptor_pb2.FieldDescriptorProto
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    order.field.add(name="raw", number=2, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    order.field.add(name="tags", number=3, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    order.field.add(
        name="at", number=4, type=field.TYPE_MESSAGE, label=field.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )  # fmt: skip
    entry = order.nested_type.add(name="SizesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    order.field.add(
        name="sizes", number=5, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED,
        type_name=".shop.Order.SizesEntry",
    )  # fmt: skip
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    order.field.add(
        name="state", number=6, type=field.TYPE_ENUM, label=field.LABEL_OPTIONAL,
        type_name=".shop.Order.State",
    )  # fmt: skip
    outer = file.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    return file


def serialized(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def message(file: descriptor_pb2.FileDescriptorProto, name: str, **fields: Any) -> bytes:
    """A message of the file's, by a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    made = GetMessageClass(pool.FindMessageTypeByName(name))(**fields)
    return made.SerializeToString()


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        yield made


def put(
    server: SchemaRegistry,
    schema_id: int,
    text: str,
    kind: str = "AVRO",
    references: Sequence[tuple[str, str, int]] = (),
) -> None:
    """A schema, sound or not, which is version 1 of the subject `s<id>` as well."""
    named = [Reference(*one) for one in references]
    server.put_unchecked(schema_id, text, kind, named, subject=f"s{schema_id}")


@pytest.fixture
def registry(server: SchemaRegistry) -> Registry:
    return Registry({"url": server.url, "max.retries": 0})


# -- what is decoded -------------------------------------------------------------------------------


def test_avro_and_its_logical_types(server: SchemaRegistry, registry: Registry):
    put(server, 7, json.dumps(ORDER))
    values = [frame(7, avro(ORDER, VALUE)), None, frame(7, avro(ORDER, VALUE))]
    assert registry.decode_all(values) == [(TEXT, 7, None), (None, None, None), (TEXT, 7, None)]
    registry.decode_all(values)
    assert server.asked == {"/schemas/ids/7": 1}


def test_avro_that_names_other_schemas_twice(server: SchemaRegistry, registry: Registry):
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    line = {"type": "record", "name": "Line", "fields": [{"name": "each", "type": "Money"}]}
    bill = {
        "type": "record",
        "name": "Bill",
        "fields": [{"name": "sum", "type": "Money"}, {"name": "first", "type": "Line"}],
    }
    put(server, 1, json.dumps(money))
    put(server, 2, json.dumps(line), references=[("Money", "s1", 1)])
    put(server, 3, json.dumps(bill), references=[("Money", "s1", 1), ("Line", "s2", 1)])
    payload = bytes([2, 4])  # zigzag 1 and 2
    assert registry.decode_all([frame(3, payload)]) == [
        ('{"sum":{"cents":1},"first":{"each":{"cents":2}}}', 3, None)
    ]


def test_protobuf_with_maps_enums_and_googles_types(server: SchemaRegistry, registry: Registry):
    file = order_file()
    put(server, 9, serialized(file), "PROTOBUF")
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    payload = message(
        file, "shop.Order", id=2**60, raw=b"\xff", tags=["a"], at=at, sizes={"x": 5}, state=1
    )
    ((text, _, error),) = registry.decode_all([frame(9, b"\0" + payload)])
    assert error is None
    assert text is not None
    assert json.loads(text) == {
        "id": 2**60,
        "raw": "/w==",
        "tags": ["a"],
        "at": "2023-11-14T22:13:20Z",
        "sizes": {"x": 5},
        "state": "PAID",
    }
    ((text, _, _),) = registry.decode_all([frame(9, b"\0")])
    assert text == '{"id":0,"raw":"","tags":[],"at":null,"sizes":{},"state":"NEW"}'


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [("BOOL", {True: 1}, '{"true":1}'), ("INT64", {-(2**60): 2}, f'{{"-{2**60}":2}}')],
)
def test_keys_of_protobuf_maps_are_texts(kind: str, values: dict[Any, int], text: str):
    file = order_file()
    order = file.message_type[0]
    number = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind}")
    order.nested_type[0].field[0].type = number
    decoder = make_decoder(SchemaText("PROTOBUF", serialized(file)))
    assert f'"sizes":{text}' in decoder(b"\0" + message(file, "shop.Order", sizes=values))


def test_protobuf_messages_within_messages(server: SchemaRegistry, registry: Registry):
    file = order_file()
    put(server, 9, serialized(file), "PROTOBUF")
    inner = message(file, "shop.Outer.Inner", n=3)
    indexes = bytes([4, 2, 0])  # zigzag: two indexes, 1 and 0
    assert registry.decode_all([frame(9, indexes + inner)]) == [('{"n":3}', 9, None)]
    ((text, _, error),) = registry.decode_all([frame(9, bytes([2, 6]) + inner)])
    assert (text, error) == (None, "its schema has no message at the indexes [3]")
    ((text, _, error),) = registry.decode_all([frame(9, bytes([2, 1]) + inner)])
    assert (text, error) == (None, "its schema has no message at the indexes [-1]")


def test_protobuf_that_imports_another_schema(server: SchemaRegistry, registry: Registry):
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="box.proto", package="shop", syntax="proto3")
    file.dependency.extend(["order.proto", "google/protobuf/timestamp.proto"])
    box = file.message_type.add(name="Box")
    box.field.add(
        name="order", number=1, type=field.TYPE_MESSAGE, label=field.LABEL_OPTIONAL,
        type_name=".shop.Order",
    )  # fmt: skip
    put(server, 1, serialized(order_file()), "PROTOBUF")
    put(server, 2, serialized(file), "PROTOBUF", [("order.proto", "s1", 1)])
    assert registry.decode_all([frame(2, b"\0")]) == [('{"order":null}', 2, None)]
    put(server, 3, serialized(file), "PROTOBUF")
    ((_, _, error),) = registry.decode_all([frame(3, b"\0")])
    assert error is not None
    assert "imports order.proto, which is not among its references" in error


def test_json_is_checked_to_be_json(server: SchemaRegistry, registry: Registry):
    put(server, 4, '{"type": "object"}', "JSON")
    good, bad = registry.decode_all([frame(4, b'{"a": 1}'), frame(4, b"{")])
    assert good == ('{"a": 1}', 4, None)
    assert bad[:2] == (None, 4)
    assert bad[2] is not None
    assert bad[2].startswith("no JSON: JSONDecodeError")


# -- what is encoded -------------------------------------------------------------------------------


def test_encoded_avro_comes_back(server: SchemaRegistry, registry: Registry):
    put(server, 7, json.dumps(ORDER))
    encoded = registry.encode_all("s7", [VALUE, None, VALUE])
    assert encoded == [frame(7, avro(ORDER, VALUE)), None, frame(7, avro(ORDER, VALUE))]
    assert registry.encode_all("s7", []) == []
    short = {name: value for name, value in VALUE.items() if name != "note"}  # it has a default
    assert registry.encode_all("s7", [short]) == encoded[:1]
    assert server.asked == {"/subjects/s7/versions/latest": 1}


def test_encoded_json_and_protobuf_come_back(server: SchemaRegistry, registry: Registry):
    put(server, 1, "{}", "JSON")
    put(server, 9, serialized(order_file()), "PROTOBUF")
    (text,) = registry.encode_all("s1", [VALUE])
    assert text == frame(1, TEXT.encode())
    value = {"id": 2**60, "raw": b"\xff", "tags": ["a"], "at": VALUE["at"], "sizes": {"x": 5},
             "state": "PAID"}  # fmt: skip
    ((told, _, error),) = registry.decode_all(registry.encode_all("s9", [value]))
    assert error is None
    assert told is not None
    assert json.loads(told) == {**value, "raw": "/w==", "at": "2026-01-02T03:04:05Z"}
    (empty,) = registry.encode_all("s9", [dict.fromkeys(value)])
    assert empty == frame(9, b"\0")


@pytest.mark.parametrize(
    ("subject", "value", "text"),
    [
        ("s7", {**VALUE, "id": "x"}, "does not fit its Avro schema"),
        ("s7", {**VALUE, "id": 2**70}, "does not fit its Avro schema"),
        ("s7", {**VALUE, "price": Decimal("1.234")}, "does not fit its Avro schema"),
        ("s7", {**VALUE, "another": 1}, "does not fit its Avro schema"),
        ("s7", {"id": 1}, "does not fit its Avro schema"),
        ("s7", 5, "does not fit its Avro schema"),
        ("s9", {"another": 1}, "is no shop.Order"),
        ("s9", {"id": "x"}, "is no shop.Order"),
        ("s1", {"x": object()}, "has no form in JSON"),
        ("s3", VALUE, "subject s3: the schema cannot be used"),
        ("s4", VALUE, "subject s4: the schema cannot be used"),
        ("s5", VALUE, "subject s5: schemas of type XML are unknown"),
        ("nowhere", VALUE, "the registry has no subject nowhere"),
    ],
)
def test_what_cannot_be_encoded(
    server: SchemaRegistry, registry: Registry, subject: str, value: Any, text: str
):
    put(server, 7, json.dumps(ORDER))
    put(server, 9, serialized(order_file()), "PROTOBUF")
    put(server, 1, "{}", "JSON")
    put(server, 3, '{"type": "record"}')
    put(server, 4, serialized(descriptor_pb2.FileDescriptorProto(name="empty.proto")), "PROTOBUF")
    put(server, 5, "<a/>", "XML")
    with pytest.raises(EncodeError, match=text):
        registry.encode_all(subject, [value])


# -- what is not -----------------------------------------------------------------------------------


def test_values_without_a_frame(registry: Registry):
    for value, words in (
        (b"", "0 bytes are too few"),
        (b'{"a": 1}', "begins with byte 0x7b"),
        (b"\1" + bytes(16), "begins with byte 0x01"),
        (b"\0\xff\xff\xff\xff", "schema id -1 is negative"),
    ):
        ((text, schema_id, error),) = registry.decode_all([value])
        assert (text, schema_id) == (None, None)
        assert error is not None
        assert words in error
    assert split_frame(bytes(5)) == (0, b"")


def test_a_schema_that_is_registered_later(server: SchemaRegistry, registry: Registry):
    value = frame(7, avro(ORDER, VALUE))
    found = registry.decode_all([value, value])
    assert found == 2 * [(None, 7, "schema 7: the registry does not have it, or a schema it names")]
    assert server.asked == {"/schemas/ids/7": 1}  # not once per record
    put(server, 7, json.dumps(ORDER))
    assert registry.decode_all([value]) == [(TEXT, 7, None)]


def test_a_registry_in_trouble_makes_no_dead_letters(server: SchemaRegistry, registry: Registry):
    put(server, 7, json.dumps(ORDER))
    server.fail(500)
    with pytest.raises(Exception, match="500"):
        registry.decode_all([frame(7, avro(ORDER, VALUE))])
    server.heal()
    server.credentials = "user:secret"
    with pytest.raises(Exception, match="401"):
        registry.decode_all([frame(7, avro(ORDER, VALUE))])
    known = Registry({"url": server.url, "basic.auth.user.info": "user:secret"})
    assert known.decode_all([frame(7, avro(ORDER, VALUE))])[0][0] == TEXT


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", "{"),
        ("AVRO", '{"type": "record"}'),
        ("AVRO", '"Unknown"'),
        ("AVRO", "[" * 10_000),
        ("AVRO", '{"type": "array", "items": "null"}'),
        (
            "AVRO",
            '{"type": "array", "items": {"type": "record", "name": "E", "fields": '
            '[{"name": "f", "type": {"type": "fixed", "name": "F", "size": 0}}]}}',
        ),
        (
            "AVRO",
            '{"type": "record", "name": "Link", "fields": '
            '[{"name": "next", "type": ["null", "Link"]}]}',
        ),
        (
            "AVRO",
            '{"type": "array", "items": {"type": "record", "name": "A", "fields": '
            '[{"name": "a", "type": "A"}]}}',
        ),
        ("PROTOBUF", "syntax = proto3"),
        ("PROTOBUF", base64.b64encode(b"\xff\xff").decode()),
        ("THRIFT", ""),
    ],
)
def test_schemas_that_cannot_be_used_are_the_records_error(
    server: SchemaRegistry, registry: Registry, kind: str, text: str
):
    put(server, 5, text, kind)
    ((value, schema_id, error),) = registry.decode_all([frame(5, bytes([8, 0]))])
    assert (value, schema_id) == (None, 5)
    assert error is not None
    assert error.startswith("schema 5: ")
    assert len(error) < 600


def test_schemas_that_name_themselves(server: SchemaRegistry, registry: Registry):
    put(server, 5, '"A"', references=[("A", "s5", 1)])
    ((_, _, error),) = registry.decode_all([frame(5, b"")])
    assert error == "schema 5: it names too many schemas, or itself"


def test_every_cut_and_changed_value_is_decoded_or_has_an_error(
    server: SchemaRegistry, registry: Registry
):
    file = order_file()
    put(server, 1, json.dumps(ORDER))
    put(server, 2, serialized(file), "PROTOBUF")
    whole = (
        frame(1, avro(ORDER, VALUE)),
        frame(2, b"\0" + message(file, "shop.Order", id=5, tags=["abc"], sizes={"x": 5})),
    )
    rng = random.Random(20261123)
    for value in whole:
        damaged = [value[:end] for end in range(len(value))]
        for _ in range(2000):
            changed = bytearray(value)
            for _ in range(rng.randint(1, 4)):
                changed[rng.randrange(5, len(changed))] = rng.randrange(256)
            damaged.append(bytes(changed))
        for text, _, error in registry.decode_all(damaged):
            assert (text is None) != (error is None)
            if text is not None:
                json.loads(text)
    assert all(text is None for text, _, _ in registry.decode_all([whole[0] + b"x"]))


def test_framing_alone():
    assert split_frame(b"\0\0\0\1\2xyz") == (258, b"xyz")
    assert read_message_indexes(b"\0abc") == ([0], b"abc")
    assert read_message_indexes(b"\4\2\0abc") == ([1, 0], b"abc")
    most = b"\xc8\1" + bytes(100)
    assert read_message_indexes(most) == ([0] * 100, b"")
    with pytest.raises(DecodeError, match="101 message indexes"):
        read_message_indexes(b"\xca\1" + bytes(101))
    for payload in (b"", b"\2", b"\xff\xff\xff\xff\xff\xff", b"\1", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(DecodeError):
            read_message_indexes(payload)


def test_a_kind_of_schema_that_nobody_knows():
    with pytest.raises(DecodeError, match="schemas of type X are unknown"):
        make_decoder(SchemaText("X", ""))
