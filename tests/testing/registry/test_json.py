"""Which JSON Schema allows what another does; schemas that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from fencepost.testing.registry.errors import RegistryError
from fencepost.testing.registry.json_rules import unreadable
from fencepost.testing.registry.json_schemas import parse
from fencepost.testing.registry.schemas import Schema, unreadable as schemas_unreadable

DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
PARTLY = {**OPEN, "additionalProperties": {"type": "string"}}
TREE = {
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "x": {"type": "integer"}},
    "additionalProperties": False,
}


def reasons(new: Any, old: Any) -> list[str]:
    return unreadable(parse(json.dumps(new), {})[0], parse(json.dumps(old), {})[0])


def more(schema: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **properties}}


def several(word: str, *kinds: Any) -> dict[str, Any]:
    return {word: [one if isinstance(one, dict) else {"type": one} for one in kinds]}


@pytest.mark.parametrize(
    ("new", "old", "reason"),
    [
        ({"type": "string"}, {"type": "string"}, None),
        ({"type": "string"}, {"type": "number"}, "it is string now, and was number"),
        ({"type": "number"}, {"type": "integer"}, None),
        ({"type": "integer"}, {"type": "number"}, "integer now"),
        ({}, {"type": "number"}, None),
        ({"type": "number"}, {}, "was anything"),
        ({"type": "number"}, False, None),
        (False, {"type": "number"}, "it is nothing now"),
        ({"type": ["string", "null"]}, {"type": "string"}, None),
        ({"type": "string"}, {"type": ["string", "null"]}, "was any of several"),
        ({"type": ["string"]}, {"type": "string"}, None),
        # limits
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, None),
        ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}, "/maxLength: 4"),
        ({"type": "string", "maxLength": 4}, {"type": "string"}, "/maxLength"),
        ({"type": "string"}, {"type": "string", "minLength": 4}, None),
        ({"type": "string", "minLength": 5}, {"type": "string", "minLength": 4}, "/minLength"),
        ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}, "/pattern"),
        ({"type": "number", "minimum": 3}, {"type": "number", "minimum": 4}, None),
        ({"type": "number", "minimum": 4}, {"type": "number", "minimum": 3}, "/minimum: 4"),
        ({"type": "number", "minimum": 0}, {"type": "number"}, "/minimum: 0, and was not there"),
        ({"type": "number", "maximum": 3}, {"type": "number", "maximum": 4}, "/maximum: 3"),
        ({"type": "number", "exclusiveMaximum": 3}, {"type": "number"}, "/exclusiveMaximum"),
        (
            {**DRAFT4, "type": "number", "minimum": 3, "exclusiveMinimum": True},
            {**DRAFT4, "type": "number", "minimum": 2, "exclusiveMinimum": True},
            "/exclusiveMinimum: 3, and was 2",
        ),
        (
            {"type": "number", "exclusiveMinimum": 3},
            {**DRAFT4, "type": "number", "minimum": 3, "exclusiveMinimum": True},
            None,
        ),
        ({"type": "number", "multipleOf": 0.5}, {"type": "number", "multipleOf": 1.5}, None),
        ({"type": "number", "multipleOf": 0.1}, {"type": "number", "multipleOf": 0.3}, None),
        ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, "/multipleOf"),
        ({"type": "array", "maxItems": 3}, {"type": "array", "maxItems": 4}, "/maxItems"),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, "/uniqueItems"),
        ({"type": "object", "minProperties": 1}, {"type": "object"}, "/minProperties"),
        # values
        ({"enum": [1, 2]}, {"enum": [1]}, None),
        ({"enum": [1]}, {"enum": [1, 2]}, "values of the enumeration are gone"),
        ({"enum": [True]}, {"enum": [1]}, "values of the enumeration are gone"),
        ({"const": 1}, {"const": 1}, None),
        ({"const": 1}, {"const": True}, "another constant"),
        # objects
        (more(OPEN, b={"type": "string"}), OPEN, "/properties/b: it is described now"),
        (more(OPEN, b={}), OPEN, None),
        (OPEN, more(OPEN, b={"type": "string"}), None),
        (more(CLOSED, b={"type": "string"}), CLOSED, None),
        ({**more(CLOSED, b={"type": "string"}), "required": ["b"]}, CLOSED, "new and required"),
        (
            {**more(CLOSED, b={"type": "string", "default": "x"}), "required": ["b"]},
            CLOSED,
            None,
        ),
        (CLOSED, more(CLOSED, b={"type": "string"}), "/properties/b: it is gone"),
        (CLOSED, more(CLOSED, b=False), None),
        (more(PARTLY, b={"type": "string"}), PARTLY, None),
        (more(PARTLY, b={"type": "number"}), PARTLY, "/properties/b: it is number now"),
        (PARTLY, more(PARTLY, b={"type": "string"}), None),
        (PARTLY, more(PARTLY, b={"type": "number"}), "/properties/b: it is string now"),
        (CLOSED, OPEN, "/additionalProperties: nothing else"),
        (OPEN, CLOSED, None),
        (PARTLY, OPEN, "/additionalProperties: there is a schema now"),
        (OPEN, PARTLY, None),
        (PARTLY, CLOSED, None),
        (
            {**OPEN, "patternProperties": {"^b": {"type": "string"}}},
            more(OPEN, b={"type": "number"}),
            "/properties/b",
        ),
        ({**OPEN, "required": ["a"]}, OPEN, "/properties/a: it is required now"),
        (OPEN, {**OPEN, "required": ["a"]}, None),
        (
            {**OPEN, "unevaluatedProperties": False},
            OPEN,
            "/unevaluatedProperties: nothing else may be there",
        ),
        ({**OPEN, "dependencies": {"a": ["b"]}}, OPEN, "/dependencies/a: it needs more"),
        (OPEN, {**OPEN, "dependencies": {"a": ["b"]}}, None),
        (
            {**OPEN, "dependencies": {"a": ["b"]}},
            {**OPEN, "dependencies": {"a": ["b", "c"]}},
            None,
        ),
        ({**OPEN, "dependentSchemas": {"a": OPEN}}, OPEN, "/dependencies/a: there is a schema"),
        # arrays
        ({"type": "array", "items": {"type": "number"}}, {"type": "array"}, "/items: there is"),
        ({"type": "array"}, {"type": "array", "items": {"type": "number"}}, None),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "number"}},
            "/items: integer now",
        ),
        (
            {"type": "array", "items": [{}, {"type": "string"}], "additionalItems": False},
            {"type": "array", "items": [{}], "additionalItems": False},
            None,
        ),
        (
            {"type": "array", "items": [{}], "additionalItems": False},
            {"type": "array", "items": [{}, {"type": "string"}], "additionalItems": False},
            "/items/1: it is gone",
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "number"}]},
            "/items/0: it is string now",
        ),
        # combinations
        (several("oneOf", "string", "number"), several("oneOf", "string"), None),
        (several("oneOf", "string"), several("oneOf", "string", "number"), "fewer parts"),
        (several("allOf", OPEN, CLOSED), several("allOf", OPEN), "more parts at once"),
        (several("allOf", OPEN), several("allOf", OPEN, CLOSED), None),
        (several("anyOf", "string", "number"), several("oneOf", "number", "string"), None),
        (several("oneOf", "string", "number"), several("anyOf", "number", "string"), "was any of"),
        (several("oneOf", "string", "null"), several("oneOf", "number", "null"), "not compatible"),
        (several("oneOf", "string", "number"), {"type": "integer"}, None),
        ({"type": "number"}, several("allOf", {"type": "integer"}, {"minimum": 3}), None),
        ({"not": {"type": "string", "maxLength": 4}}, {"not": {"type": "string"}}, None),
        ({"not": {"type": "string"}}, {"not": {"type": "string", "maxLength": 4}}, "refuses more"),
        # a schema that contains itself
        (TREE, TREE, None),
        (
            {**TREE, "properties": {"next": {"$ref": "#"}, "x": {"type": "string"}}},
            TREE,
            "/properties/x: it is string now",
        ),
        (
            {"$defs": {"a": {"type": "number"}}, "$ref": "#/$defs/a"},
            {"$defs": {"b": {"type": "integer"}}, "$ref": "#/$defs/b"},
            None,
        ),
    ],
)  # fmt: skip
def test_what_allows_what(new: Any, old: Any, reason: str | None):
    found = reasons(new, old)
    if reason is None:
        assert found == []
    else:
        assert any(reason in one for one in found), found


def test_parts_are_paired_one_to_one():
    """Both old parts fit the wide new one, and only one may have it."""
    wide, narrow = {"type": "string"}, {"type": "string", "maxLength": 5}
    middle = {"type": "string", "maxLength": 7}
    assert reasons(several("oneOf", wide, narrow), several("oneOf", narrow, wide)) == []
    assert reasons(several("oneOf", wide, narrow), several("oneOf", middle, wide))
    assert reasons(several("oneOf", wide, middle), several("oneOf", narrow, middle)) == []


def test_references_to_other_schemas():
    text = '{"type": "object", "properties": {"a": {"$ref": "money.json"}}}'
    number, word = '{"type": "number"}', '{"type": "string"}'
    schemas = [parse(text, {"money.json": one})[0] for one in (number, word)]
    assert unreadable(schemas[0], schemas[0]) == []
    assert "/properties/a: it is number now" in unreadable(*schemas)[0]


@pytest.mark.parametrize(
    "text",
    [
        "{", "5", '"x"', "[]", "null", '{"type": "nothing"}', '{"type": 5}', "[" * 50_000,
        '{"properties": []}', '{"$ref": "#/nowhere"}', '{"$ref": "other.json"}',
        '{"$ref": "http://127.0.0.1:1/x"}', '{"minimum": "5"}', '{"items": 5}', '{"enum": 5}',
        '{"pattern": 7}', '{"a": 1e', '{"$schema": 7, "type": 5}', '{"required": "a"}',
        '{"minimum": 1e400}',
        '{"items": ' * 150 + "{}" + "}" * 150, '{"$id": 5}', '{"allOf": []}',
    ],
)  # fmt: skip
def test_what_is_no_schema(text: str):
    with pytest.raises(RegistryError) as caught:
        parse(text, {})
    assert caught.value.code == 42201


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref": "#"}',
        '{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}',
    ],
)
def test_references_without_an_end_are_an_answer(text: str):
    schema = Schema("JSON", "", (), parse(text, {})[0])
    (told,) = schemas_unreadable(schema, schema)
    assert "cannot be compared" in told


def test_wide_combinations_are_bounded():
    def wide(kind: str) -> Any:
        return several("oneOf", *({"type": kind, "maxLength": n} for n in range(400)))

    schema = Schema("JSON", "", (), parse(json.dumps(wide("string")), {})[0])
    assert "cannot be compared" in schemas_unreadable(schema, schema)[0]


def test_properties_that_are_held_against_many_patterns_are_bounded():
    def wide(letter: str) -> Any:
        return {
            "type": "object",
            "properties": {f"{letter}{n}": {} for n in range(330)},
            "patternProperties": {f"^_{letter}{n}$": {} for n in range(330)},
            "additionalProperties": False,
        }

    new, old = (Schema("JSON", "", (), parse(json.dumps(wide(one)), {})[0]) for one in "ab")
    assert "cannot be compared" in schemas_unreadable(new, old)[0]


def test_long_enumerations_are_compared():
    values = list(range(20_000))
    assert reasons({"enum": [*values, "x"]}, {"enum": values}) == []
    assert reasons({"enum": values[1:]}, {"enum": values}) != []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [(1, 1.0, True), (1, True, False), ([0], [False], False), ({"a": 2.0}, {"a": 2}, True)],
)
def test_values_are_the_same_by_json(one: Any, other: Any, is_same: bool):
    assert (reasons({"const": one}, {"const": other}) == []) is is_same
    assert (reasons({"enum": [one]}, {"enum": [other]}) == []) is is_same
    choice = {"oneOf": [{"const": one}, {"const": other}]}
    assert (reasons({"oneOf": [{"const": one}]}, choice) == []) is is_same
