"""Which Avro schema reads what another wrote; schemas that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastavro")

from fencepost.testing.registry.avro_rules import unreadable
from fencepost.testing.registry.avro_schemas import parse
from fencepost.testing.registry.budget import STEPS_MAX
from fencepost.testing.registry.errors import RegistryError
from fencepost.testing.registry.schemas import Schema, unreadable as schemas_unreadable


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def reasons(reader: Any, writer: Any) -> list[str]:
    return unreadable(parse(json.dumps(reader), ())[0], parse(json.dumps(writer), ())[0])


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    ("long", "int"), ("float", "int"), ("double", "int"), ("float", "long"), ("double", "long"),
    ("double", "float"), ("bytes", "string"), ("string", "bytes"),
}  # fmt: skip
LINK = record(field("next", ["null", "R"]), field("x", "int"))


def test_every_pair_of_primitives():
    for reader in PRIMITIVES:
        for writer in PRIMITIVES:
            is_readable = reader == writer or (reader, writer) in PROMOTED
            assert (not reasons(reader, writer)) == is_readable, (reader, writer)


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "/items: int"),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, None),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "/values: int"),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "map does not read"),
        ({"type": "int", "logicalType": "date"}, "int", None),
        (fixed(4), fixed(4), None),
        (fixed(4), fixed(5), "4 bytes do not read 5"),
        (fixed(4), fixed(4, "G"), "fixed F does not read G"),
        (fixed(4, "a.F"), fixed(4, "b.F"), None),
        (fixed(4, aliases=["G"]), fixed(4, "G"), None),
        (fixed(4, "a.F", aliases=["G"]), fixed(4, "b.G"), "does not read b.G"),
        (fixed(4, "a.F", aliases=["G"]), fixed(4, "a.G"), None),
        (fixed(4, "a.F", aliases=["b.G"]), fixed(4, "b.G"), None),
        (enum("A", "B"), enum("A"), None),
        (enum("A"), enum("A", "B", "C"), "lacks B, C"),
        (enum("A", default="A"), enum("A", "B"), None),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), None),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), "/b: the reader"),
        (record(field("b", "int", default=1)), record(), None),
        (record(field("b", ["null", "int"], default=None)), record(), None),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), None),
        (record(field("b", "int", aliases=["a"])), record(field("a", "string")), "/b: int does"),
        (
            record(field("b", "int", aliases=["a"])),
            record(field("a", "int"), field("b", "int")),
            "/b: several fields",
        ),
        (record(name="R"), record(name="S"), "record R does not read S"),
        (record(name="R", aliases=["S"]), record(name="S"), None),
        ("int", ["int"], None),
        ("int", ["int", "string"], "int does not read string"),
        ("long", ["int", "long"], None),
        (["int", "string"], "int", None),
        (["null", "string"], "int", "no branch of the union reads int"),
        (["null", "long"], ["int", "null"], None),
        (["null", "long"], ["int", "string"], "no branch of the union reads string"),
        ([], "int", "no branch"),
        (LINK, LINK, None),
        (LINK, record(field("next", ["null", "R"]), field("x", "string")), "/x: int does not"),
        (
            record(field("a", record(field("x", "int"), name="I")), field("b", "I")),
            record(field("a", record(field("x", "int"), name="I")), field("b", "I")),
            None,
        ),
    ],
)  # fmt: skip
def test_what_reads_what(reader: Any, writer: Any, reason: str | None):
    found = reasons(reader, writer)
    if reason is None:
        assert found == []
    else:
        assert any(reason in one for one in found), found


def test_all_reasons_are_told():
    new = record(field("a", "int"), field("b", "int"), field("c", enum("A")))
    old = record(field("a", "string"), field("c", enum("B")))
    assert reasons(new, old) == [
        "/a: int does not read string",
        "/b: the reader's field has no default and was not written",
        "/c: enum E has no default and lacks B",
    ]


def test_a_type_that_is_met_again_is_looked_at_once():
    """Twenty records, each with two fields of the next: a million ways to the last."""
    made: Any = record(field("x", "int"), name="R0")
    for number in range(1, 21):
        name = f"R{number - 1}"
        made = record(field("a", made), field("b", name), name=f"R{number}")
    assert reasons(made, made) == []


def test_unions_of_unions_of_records_are_bounded():
    """Every branch of one is compared with every branch of the other."""

    def wide(kind: str) -> Any:
        branches = [record(field("x", kind), name=f"R{n}") for n in range(400)]
        return {"type": "array", "items": branches}

    reader = Schema("AVRO", "", (), parse(json.dumps(wide("int")), ())[0])
    writer = Schema("AVRO", "", (), parse(json.dumps(wide("string")), ())[0])
    assert schemas_unreadable(reader, writer) == [
        f"/: the schemas cannot be compared in {STEPS_MAX} steps"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[", "null", "int", "5", '"nothing"', "nothing", "[" * 50_000, "{}",
        '{"type": "record"}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Gone"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}',
        '{"type": "record", "name": "5", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]}',
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '{"type": "fixed", "name": "F"}', '{"type": ["int"], "name": 5, "fields": 7, "type": {}}',
        '{"type": "record", "name": "R", "aliases": [["x"]], "fields": []}',
        '{"type": "record", "name": "R", "aliases": "x", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": [7]}]}',
        '{"type": "array"}', '{"type": "record", "name": "R", "fields": 5}', '["int", 7]',
        '{"type": ' * 150 + '"int"' + "}" * 150,
    ],
)  # fmt: skip
def test_what_is_no_schema(text: str):
    with pytest.raises(RegistryError) as caught:
        parse(text, ())
    assert caught.value.code == 42201
    assert len(str(caught.value)) < 5000


def test_canonical_forms():
    same = ('"int"', ' "int"\n', '{"type": "int"}')
    assert len({parse(one, ())[1] for one in same}) == 1
    date = '{"type": "int", "logicalType": "date"}'
    assert parse(date, ())[1] != parse('"int"', ())[1]
    documented = json.dumps(record(field("a", "int"), doc="x"))
    assert parse(documented, ())[1] != parse(json.dumps(record(field("a", "int"))), ())[1]
