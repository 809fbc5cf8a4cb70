"""Values of JSON as types of columns, and what schemas say of them."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.meanings import GIVEN, of_avro, semantic_nodes
from fencepost.spark.tables.values import WrittenFloat, converter, has_decimals

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int8(), -128, -128),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.int32(), 7.0, 7),
        (pa.float64(), 1, 1.0),
        (pa.float64(), "Infinity", math.inf),
        (pa.bool_(), False, False),
        (pa.string(), "", ""),
        (pa.string(), {"a": [1]}, '{"a":[1]}'),
        (pa.string(), 1.5, "1.5"),
        (pa.binary(), "AAE=", b"\0\1"),
        (pa.decimal128(9, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(9, 2), 0.1, Decimal("0.10")),
        (pa.decimal128(4, 2), "-99.99", Decimal("-99.99")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.date32(), "2026-11-29", datetime.date(2026, 11, 29)),
        (pa.date32(), "2026-11-29Z", datetime.date(2026, 11, 29)),
        (pa.date32(), 1, datetime.date(1970, 1, 2)),
        (UTC, "2026-01-01T02:00:00+02:00", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        (UTC, "2026-01-01T00:00:00", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        (pa.timestamp("us"), "2026-01-01T00:00:00", datetime.datetime(2026, 1, 1)),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
        (pa.struct([("a", pa.int32())]), {"a": 1, "b": 2}, {"a": 1}),
    ],
)
def test_a_value_of_json_as_a_column_has_it(kind: pa.DataType, value: Any, expected: Any):
    found = converter(kind)(value)
    assert found == expected
    pa.array([found, None], kind)
    assert converter(kind)(None) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.int64(), 2**63),
        (pa.int64(), "x"),
        (pa.int64(), "9" * 5000),
        (pa.int32(), True),
        (pa.int32(), 1.5),
        (pa.int32(), math.inf),
        (pa.float64(), "1"),
        (pa.float64(), 10**400),
        (pa.bool_(), "true"),
        (pa.string(), "\ud800"),
        (pa.binary(), "*"),
        (pa.binary(), "é"),
        (pa.decimal128(4, 2), "100"),
        (pa.decimal128(4, 2), 100),
        (pa.decimal128(4, 2), -100),
        (pa.decimal128(4, 2), "1.234"),
        (pa.decimal128(4, 2), "NaN"),
        (pa.decimal128(4, 2), "F3A="),
        (pa.decimal128(4, 2), "1e999999"),
        (pa.decimal128(4, 2), True),
        (pa.date32(), "tomorrow"),
        (pa.date32(), 10**12),
        (UTC, 1700000000000),
        (UTC, "12 o'clock"),
        (UTC, "0001-01-01T00:00:00+01:00"),
        (UTC, "9999-12-31T23:59:59-01:00"),
        (pa.timestamp("us"), "2026-01-01T00:00:00Z"),
        (pa.list_(pa.int32()), {}),
        (pa.list_(pa.int32()), ["x"]),
        (pa.map_(pa.string(), pa.int32()), []),
        (pa.struct([("a", pa.int32())]), 1),
    ],
)
def test_what_does_not_fit_is_a_value_error(kind: pa.DataType, value: Any):
    with pytest.raises(ValueError):
        converter(kind)(value)


# -- what schemas say ------------------------------------------------------------------------------

CONNECT = "org.apache.kafka.connect.data"
DEBEZIUM = "io.debezium.time"
NTZ = pa.timestamp("us")
AT = datetime.datetime(2026, 11, 29, 19, 5, 1, 123456)
AT_S = int(AT.replace(tzinfo=datetime.UTC).timestamp())


def node_of(name: str, scale: Any = None) -> dict[str, Any]:
    """As JsonConverter writes it."""
    parameters = {} if scale is None else {"parameters": {"scale": scale}}
    return {"type": "bytes", "optional": True, "name": name, "version": 1, **parameters}


def in_base64(unscaled: int) -> str:
    """As BigInteger.toByteArray has it: the fewest bytes that have room for the sign."""
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()


@pytest.mark.parametrize(
    ("kind", "value", "node", "expected"),
    [
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", "2"), Decimal("60.00")),
        (pa.decimal128(9, 2), "1234", node_of(f"{CONNECT}.Decimal", "2"), Decimal("-26588.24")),
        (pa.decimal128(9, 2), "/w==", node_of(f"{CONNECT}.Decimal"), Decimal("-0.01")),
        (pa.decimal128(9, 2), "Bw==", node_of(f"{CONNECT}.Decimal", "-2"), Decimal("700.00")),
        (pa.decimal128(9, 2), 12.5, node_of(f"{CONNECT}.Decimal", "2"), Decimal("12.50")),
        (pa.decimal128(9, 2), {"scale": 1, "value": "fQ=="}, None, Decimal("12.50")),
        (pa.string(), "F3A=", node_of(f"{CONNECT}.Decimal", "2"), "60.00"),
        (pa.string(), "F3A=", node_of(f"{CONNECT}.Decimal"), "F3A="),
        (pa.string(), "F3A=", None, "F3A="),
        (
            pa.string(),
            {"scale": -1, "value": "fQ=="},
            node_of("io.debezium.data.VariableScaleDecimal"),
            "1250",
        ),
        (pa.float64(), "F3A=", node_of(f"{CONNECT}.Decimal", "2"), 60.0),
        (pa.int64(), "F3A=", node_of(f"{CONNECT}.Decimal", "2"), 60),
        (pa.int64(), {"scale": 0, "value": "F3A="}, None, 6000),
        (UTC, 1000, node_of(f"{CONNECT}.Timestamp"), datetime.datetime(1970, 1, 1, 0, 0, 1)),
        (
            UTC,
            -1,
            node_of(f"{DEBEZIUM}.Timestamp"),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        ),
        (NTZ, AT_S * 10**6 + 123456, node_of(f"{DEBEZIUM}.MicroTimestamp"), AT),
        (NTZ, AT_S * 10**9 + 123456999, node_of(f"{DEBEZIUM}.NanoTimestamp"), AT),
        (
            NTZ,
            -1,
            node_of(f"{DEBEZIUM}.NanoTimestamp"),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        ),
        (UTC, AT.isoformat() + "Z", node_of(f"{DEBEZIUM}.ZonedTimestamp"), AT),
        (NTZ, AT.isoformat() + "Z", node_of(f"{DEBEZIUM}.IsoTimestamp"), AT),
        (NTZ, AT.isoformat() + "+00:00", node_of(f"{CONNECT}.Timestamp"), AT),
        (pa.date32(), 1, node_of(f"{CONNECT}.Date"), datetime.date(1970, 1, 2)),
        (pa.date32(), -1, node_of(f"{DEBEZIUM}.Date"), datetime.date(1969, 12, 31)),
        (pa.int64(), 7, node_of(f"{DEBEZIUM}.MicroTimestamp"), 7),
        (pa.string(), 7, node_of(f"{DEBEZIUM}.MicroTime"), "7"),
        (
            pa.list_(pa.decimal128(9, 2)),
            ["F3A=", None],
            {"type": "array", "items": node_of(f"{CONNECT}.Decimal", "2")},
            [Decimal("60.00"), None],
        ),
        (
            pa.map_(pa.string(), pa.decimal128(9, 2)),
            {"a": "F3A="},
            {"type": "map", "values": node_of(f"{CONNECT}.Decimal", "2")},
            [("a", Decimal("60.00"))],
        ),
        (
            pa.struct([("a", NTZ)]),
            {"a": 1},
            {"fields": [{"field": "a", **node_of(f"{DEBEZIUM}.Timestamp")}]},
            {"a": datetime.datetime(1970, 1, 1, 0, 0, 0, 1000)},
        ),
    ],
)
def test_a_value_is_what_its_schema_says(kind: pa.DataType, value: Any, node: Any, expected: Any):
    if kind == UTC:
        expected = expected.replace(tzinfo=datetime.UTC)
    found = converter(kind)(value, node)
    assert found == expected
    assert type(found) is type(expected)
    assert pa.array([found, None], kind).to_pylist()[0] == expected


@pytest.mark.parametrize(
    ("kind", "value", "node"),
    [
        (pa.decimal128(9, 2), "*", node_of(f"{CONNECT}.Decimal", "2")),
        (pa.decimal128(9, 2), "", node_of(f"{CONNECT}.Decimal", "2")),
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", "x")),
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", [])),
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", math.inf)),
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", "10000000000")),
        (pa.decimal128(9, 2), "F3A=", node_of(f"{CONNECT}.Decimal", "-4000")),
        (pa.decimal128(9, 2), "F3E=", node_of(f"{CONNECT}.Decimal", "3")),
        (pa.decimal128(9, 2), "Fz/F" * 10_000, node_of(f"{CONNECT}.Decimal", "2")),
        (pa.decimal128(9, 2), {"scale": None, "value": "F3A="}, None),
        (pa.decimal128(9, 2), {"scale": 2, "value": 7}, None),
        (pa.decimal128(9, 2), {"scale": 2}, None),
        (pa.int64(), "F3E=", node_of(f"{CONNECT}.Decimal", "3")),
        (pa.int8(), "F3A=", node_of(f"{CONNECT}.Decimal", "0")),
        (pa.int64(), "F3A=", node_of(f"{CONNECT}.Decimal", "-4000")),
        (UTC, 9223372036825200000, node_of(f"{DEBEZIUM}.MicroTimestamp")),
        (UTC, 10**400, node_of(f"{DEBEZIUM}.Timestamp")),
        (UTC, True, node_of(f"{DEBEZIUM}.Timestamp")),
        (UTC, 1, node_of(f"{DEBEZIUM}.Time")),
        (UTC, 1, node_of(f"{DEBEZIUM}.Date")),
        (NTZ, AT.isoformat() + "Z", node_of(f"{DEBEZIUM}.ZonedTimestamp")),
        (pa.date32(), 1, node_of(f"{DEBEZIUM}.Timestamp")),
    ],
)
def test_what_is_not_what_its_schema_says(kind: pa.DataType, value: Any, node: Any):
    with pytest.raises(ValueError):
        converter(kind)(value, node)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_precise_decimals_keep_every_digit(unscaled: int, scale: int):
    kind, text = pa.decimal128(38, scale), in_base64(unscaled)
    expected = Decimal(f"{unscaled}E{-scale}")
    for value, node in (
        (text, node_of(f"{CONNECT}.Decimal", str(scale))),
        (text, semantic_nodes({"a": "Decimal"}, ["a"])["a"]),
        ({"scale": scale, "value": text}, None),
    ):
        found = converter(kind)(value, node)
        assert found == expected
        assert pa.array([found], kind)[0].as_py() == expected


@pytest.mark.parametrize(
    "node",
    [
        None,
        1,
        "x",
        [],
        {},
        {"name": 3},
        {"fields": 3},
        {"fields": [1, {"field": {}}]},
        {"items": 1},
    ],
)
def test_a_schema_that_makes_no_sense_says_nothing(node: Any):
    for kind, value in (
        (pa.struct([("a", pa.decimal128(4, 2))]), {"a": "1"}),
        (pa.list_(pa.decimal128(4, 2)), ["1"]),
        (pa.map_(pa.string(), pa.decimal128(4, 2)), {"a": "1"}),
        (pa.decimal128(4, 2), "1"),
        (pa.date32(), 1),
        (pa.string(), "1"),
    ):
        assert converter(kind)(value, node) == converter(kind)(value)


def test_numbers_of_json_keep_the_digits_that_a_float_has_not():
    text = "1234567890123456789.0123456789"
    value = json.loads(text, parse_float=WrittenFloat)
    assert converter(pa.decimal128(38, 10))(value) == Decimal(text)
    assert converter(pa.float64())(value) == float(text)
    assert converter(pa.string())({"a": value}) == json.dumps({"a": float(text)}).replace(" ", "")
    assert has_decimals(pa.list_(pa.struct([("a", pa.decimal128(4, 2))])))
    assert not has_decimals(pa.map_(pa.string(), pa.float64()))


def test_semantic_types_are_given_in_full_or_by_their_last_part():
    full = f"{DEBEZIUM}.MicroTimestamp"
    for name in (full, "MicroTimestamp"):
        assert semantic_nodes({"a": name}, ["a"]) == {"a": {"name": full}}
    assert all(semantic_nodes({"a": name}, ["a"]) for name in GIVEN)
    with pytest.raises(
        TableError, match=r"column a: semantic type 'x\.Timestamp' is none of Decimal"
    ):
        semantic_nodes({"a": "x.Timestamp"}, ["a"])
    with pytest.raises(TableError, match="column b has a semantic type, and is not in the schema"):
        semantic_nodes({"b": "Decimal"}, ["a"])


def test_avro_schemas_say_of_which_unit_numbers_are():
    micro = {"type": "long", "connect.name": f"{DEBEZIUM}.MicroTimestamp"}
    row = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "at", "type": ["null", micro]},
            {"name": "all", "type": {"type": "array", "items": micro}},
            {"name": "by", "type": {"type": "map", "values": micro}},
            {"name": "either", "type": ["null", micro, "string"]},
            {"name": "price", "type": {"type": "bytes", "connect.name": f"{CONNECT}.Decimal"}},
            {"name": "self", "type": ["null", "Row"]},
        ],
    }
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]}]
    node = of_avro({"type": "record", "name": "Envelope", "fields": fields}, {"Row": row})
    kind = pa.struct([("at", UTC), ("all", pa.list_(UTC)), ("by", pa.map_(pa.string(), UTC))])
    envelope = pa.struct([("before", kind), ("after", kind)])
    value = {"at": 1, "all": [1], "by": {"a": 1}}
    found = converter(envelope)({"before": value, "after": value}, node)
    at = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)
    assert found["after"] == found["before"] == {"at": at, "all": [at], "by": [("a", at)]}
    price = pa.struct([("price", pa.decimal128(9, 2)), ("either", UTC)])
    assert converter(price)({"price": "1234"}, of_avro(row, {}))["price"] == 1234
    with pytest.raises(ValueError, match="whose schema says"):
        converter(price)({"either": 1}, of_avro(row, {}))
