"""What records say: Debezium's envelopes in all their forms, flattened ones, and what is none."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.spark.tables.decoding import ASIDE, Decoding, bucket_of, decode_records
from fencepost.spark.tables.events import (
    DELETE,
    ERROR,
    IGNORED,
    TOMBSTONE,
    TRUNCATE,
    UNAVAILABLE,
    UPSERT,
    Document,
    EventError,
    read_events,
)
from fencepost.spark.tables.meanings import DECIMAL

from .worlds import COLUMNS, Record, batch_of, decoding_of, envelope, key_of, row_of

TYPED = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("big", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("numbers", pa.list_(pa.int32())),
    ]
)


def events_of(decode: str, key: Any, value: Any, columns: pa.Schema = COLUMNS) -> list[Any]:
    return read_events(Document(key), Document(value), decoding_of(decode, columns).reading())


def change(op: str, **given: Any) -> dict[str, Any]:
    return {"op": op, "before": None, "after": None, "source": {"lsn": 5}, **given}


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": []}, "payload": payload}


@pytest.mark.parametrize("wrap", [lambda one: one, wrapped])
def test_each_operation(wrap: Any):
    key = wrap({"id": 1})
    for op in "cru":
        (event,) = events_of("debezium", key, wrap(change(op, after=row_of(1, "a", "A"))))
        assert (event.kind, event.op, event.key) == (UPSERT, op, b"[1]")
        assert event.row == {"id": 1, "name": "a", "big": "A"}
        assert event.position is not None
    (event,) = events_of("debezium", key, wrap(change("d", before=row_of(1, "a", "A"))))
    assert (event.kind, event.row) == (DELETE, {"id": 1})
    (event,) = events_of("debezium", key, wrap(change("t")))
    assert event.kind == TRUNCATE
    assert event.position is not None
    (event,) = events_of("debezium", None, wrap(change("m", message={"content": ""})))
    assert event.kind == IGNORED
    (event,) = events_of("debezium", key, wrap(None))
    assert (event.kind, event.key) == (TOMBSTONE, b"[1]")


@pytest.mark.parametrize("snapshot", ["true", "first", "last", "incremental", "false", None, True])
def test_rows_of_snapshots_are_rows(snapshot: Any):
    source = {"connector": "postgresql", "lsn": 5, "snapshot": snapshot}
    value = change("r", after=row_of(1, "a", "A"), source=source)
    (event,) = events_of("debezium", {"id": 1}, value)
    assert event.kind == UPSERT


@pytest.mark.parametrize(
    "value",
    [
        {"ts_ms": 1},
        {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None},
        {"status": "END", "id": "571:53195829", "event_count": 2, "ts_ms": 1},
        {"source": {}, "databaseName": "d", "ddl": "ALTER TABLE t", "tableChanges": []},
    ],
)
def test_heartbeats_transactions_and_schema_changes_are_ignored(value: Any):
    assert [one.kind for one in events_of("debezium", {"id": 1}, wrapped(value))] == [IGNORED]


def test_a_change_with_a_transaction_block_is_a_change():
    block = {"id": "571:1", "total_order": 1, "data_collection_order": 1}
    value = change("c", after=row_of(1, "a", "A"), transaction=block)
    assert [one.kind for one in events_of("debezium", {"id": 1}, value)] == [UPSERT]


def test_an_update_of_the_key_deletes_the_old_one():
    value = change("u", before=row_of(1, "a", "A"), after=row_of(2, "a", "A"))
    old, new = events_of("debezium", {"id": 2}, value)
    assert (old.kind, old.key, new.kind, new.key) == (DELETE, b"[1]", UPSERT, b"[2]")
    value = change("u", before={"id": None, "name": "a"}, after=row_of(2, "a", "A"))
    assert len(events_of("debezium", {"id": 2}, value)) == 1


def test_the_key_is_from_the_record_and_else_from_the_row():
    (event,) = events_of("debezium", None, change("c", after=row_of(7, "a", "A")))
    assert event.key == b"[7]"
    (event,) = events_of("debezium", None, change("d", before=row_of(7, "a", "A")))
    assert event.key == b"[7]"
    (event,) = events_of("debezium", 7, change("c", after={"name": "a"}))
    assert (event.key, event.row["id"]) == (b"[7]", 7)
    (event,) = events_of("debezium", {"id": "7"}, change("d"))
    assert event.key == b"[7]"


def test_the_records_key_says_which_row_it_is_whatever_the_value_says():
    (event,) = events_of("json", {"id": 7}, row_of(8, "a", "A"))
    assert (event.key, event.row["id"]) == (b"[7]", 8)


def test_a_key_is_never_the_placeholder():
    columns = pa.schema([("id", pa.string())])
    value = change("c", after={"id": UNAVAILABLE})
    (event,) = events_of("debezium", None, value, columns)
    assert (event.unavailable, event.row) == ((), {"id": UNAVAILABLE})


def test_mongodb_tells_the_row_as_text():
    columns = pa.schema([("id", pa.string()), ("name", pa.string())])
    source = {"connector": "mongodb", "ts_ms": 1000, "ord": 3}
    value = change("c", after=json.dumps({"_id": 1, "name": "a"}), source=source)
    (event,) = events_of("debezium", {"id": '{"$oid": "596e"}'}, value, columns)
    assert event.row == {"id": '{"$oid": "596e"}', "name": "a"}
    with pytest.raises(EventError, match="after is no JSON"):
        events_of("debezium", {"id": "1"}, change("c", after="{", source=source), columns)


def test_the_placeholder_is_known_in_all_its_forms():
    data = UNAVAILABLE.encode()
    digest = hashlib.md5(data, usedforsecurity=False).digest()
    forms: list[tuple[str, Any]] = [
        ("name", UNAVAILABLE),
        ("name", {UNAVAILABLE: UNAVAILABLE}),
        ("name", json.dumps({UNAVAILABLE: UNAVAILABLE})),
        ("name", str(uuid.UUID(bytes=digest, version=3))),
        ("big", base64.b64encode(data).decode()),
        ("tags", [UNAVAILABLE]),
        ("numbers", list(data)),
    ]
    for column, form in forms:
        value = change("u", after={"id": 1, column: form})
        (event,) = events_of("debezium", {"id": 1}, value, TYPED)
        assert event.unavailable == (column,), form
        assert event.row[column] is None
    value = change("u", after={"id": 1, "name": f"not {UNAVAILABLE}"})
    assert events_of("debezium", {"id": 1}, value, TYPED)[0].unavailable == ()


def test_another_placeholder():
    decoding = Decoding("debezium", ("id",), COLUMNS, 1, placeholder="?")
    value = change("u", after=row_of(1, "?", UNAVAILABLE))
    (event,) = read_events(Document({"id": 1}), Document(value), decoding.reading())
    assert event.unavailable == ("name",)


@pytest.mark.parametrize(
    ("value", "kind", "op"),
    [
        ({"__deleted": "false", "__op": "u"}, UPSERT, "u"),
        ({"__deleted": False}, UPSERT, ""),
        ({"__deleted": "true"}, DELETE, "d"),
        ({"__deleted": True, "__op": "d"}, DELETE, "d"),
        ({"__op": "d"}, DELETE, "d"),
        ({"__op": "t"}, TRUNCATE, "t"),
        ({"__op": "m"}, IGNORED, "m"),
        ({}, UPSERT, ""),
    ],
)
def test_flattened_changes(value: Any, kind: str, op: str):
    (event,) = events_of("flat", {"id": 1}, {**row_of(1, "a", "A"), **value})
    assert (event.kind, event.op) == (kind, op)


def test_flattened_changes_have_positions():
    base = row_of(1, "a", "A")
    for fields in (
        {"__lsn": 5, "__connector": "postgresql", "__name": "s"},
        {"__source_lsn": 5, "__source_connector": "postgresql", "__source_name": "s"},
    ):
        (event,) = events_of("flat", {"id": 1}, {**base, **fields})
        (whole,) = events_of(
            "debezium",
            {"id": 1},
            change("c", after=base, source={"connector": "postgresql", "name": "s", "lsn": 5}),
        )
        assert event.position == whole.position
    assert events_of("flat", {"id": 1}, None)[0].kind == TOMBSTONE


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ({"id": 1}, [], "the value is no object"),
        ({"id": 1}, change("x"), "op is 'x'"),
        ({"id": 1}, {"after": {}}, "op is None"),
        ({"id": 1}, change("c"), "op is c, and after is null"),
        ({"id": 1}, change("c", after=[1]), "after is no object"),
        ({"id": 1}, change("c", after={"id": 1}, source=3), "source is no object"),
        ({"id": 1}, change("c", after={"id": 1}, source={"lsn": "x"}), "source.lsn is no whole"),
        ({"id": 1}, change("c", after={"id": "one"}), "column id: 'one' is no int64"),
        ({"id": 1.5}, change("d"), "column id: 1.5 is no int64"),
        ({"no": 1}, change("d"), "neither key nor value has the key column id"),
        ({"id": None}, change("d"), r"the key \(id\) is null"),
        (None, None, "neither key nor value has the key column id"),
        ({"id": 1}, {"op": {"a": 1}}, "op is {'a': 1}"),
    ],
)
def test_what_cannot_be_understood_says_why(key: Any, value: Any, reason: str):
    with pytest.raises(EventError, match=reason):
        events_of("debezium", key, value)


def test_records_become_events_in_buckets():
    decoding = decoding_of("debezium", buckets=3)
    records = [
        Record(0, 0, key_of(1), envelope("c", 1, after=row_of(1, "a", "A"))),
        Record(0, 1, None, envelope("t", 2)),
        Record(0, 2, key_of(2), b"{"),
        Record(0, 3, b"\xff", envelope("c", 3, after=row_of(3, "c", "C"))),
        Record(0, 4, None, envelope("m", 4)),
        Record(0, 5, key_of(1), b'{"a":' * 100_000),
    ]
    events = decode_records(batch_of(records), decoding).to_pylist()
    found = [(one["kind"], one["bucket"], one["offset"]) for one in events]
    assert found == [
        (UPSERT, bucket_of(b"[1]", 3), 0),
        *((TRUNCATE, bucket, 1) for bucket in range(3)),
        (ERROR, ASIDE, 2),
        (ERROR, ASIDE, 3),
        (IGNORED, ASIDE, 4),
        (ERROR, ASIDE, 5),
    ]
    assert events[4]["raw_value"] == b"{"
    assert events[4]["error"].startswith("value: no JSON")
    assert events[5]["error"].startswith("key: no JSON")
    assert events[0]["raw_value"] is None


def test_a_key_is_in_the_same_bucket_in_every_process():
    """Of the check value that CRC-32 is known by."""
    check = 0xCBF43926
    for buckets in (1, 3, 16, 10_000):
        assert bucket_of(b"123456789", buckets) == check % buckets


def test_raw_records_without_a_key_are_errors():
    columns = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    events = decode_records(
        batch_of([Record(0, 0, None, b"v"), Record(0, 1, b"", None), Record(0, 2, b"k", b"")]),
        decoding_of("bytes", columns),
    ).to_pylist()
    assert [one["kind"] for one in events] == [ERROR, DELETE, UPSERT]
    assert [one["row"] for one in events][1:] == [
        {"key": b"", "value": None},
        {"key": b"k", "value": b""},
    ]


HALF = "\\ud800"
"""Half of a surrogate pair: JSON can say it, and no text has it."""


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        ("json", f'{{"id":1,"name":"{HALF}"}}'),
        ("json", f'{{"id":1,"name":{{"a":"{HALF}"}}}}'),
        ("json", f'{{"id":1,"name":{{"{HALF}":1}}}}'),
        ("json", f'{{"id":1,"{HALF}":1,"more":{{"{HALF}":"x"}}}}'),
        ("flat", f'{{"id":1,"__op":"{HALF}","__connector":"{HALF}","__lsn":1}}'),
        ("debezium", f'{{"op":"{HALF}","after":{{"id":1}}}}'),
        ("debezium", f'{{"op":"c","after":{{"id":1}},"source":{{"name":"{HALF}","lsn":1}}}}'),
        ("debezium", f'{{"op":"c","after":{{"id":"{HALF}"}}}}'),
        ("debezium", '{"op":"c","after":{"id":' + "9" * 5000 + "}}"),
    ],
)
def test_what_is_no_text_is_an_error_of_the_record(decode: str, value: str):
    columns = pa.schema([*COLUMNS, pa.field("more", pa.map_(pa.string(), pa.string()))])
    records = [Record(0, 0, key_of(1), value.encode())]
    (event,) = decode_records(batch_of(records), decoding_of(decode, columns)).to_pylist()
    assert event["kind"] == ERROR
    assert event["error"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "op",
                    "before",
                    "after",
                    "source",
                    "id",
                    "name",
                    "payload",
                    "schema",
                    "lsn",
                    "__op",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["debezium", "flat", "json"]),
    JSON_VALUES | st.binary(max_size=20),
    JSON_VALUES | st.binary(max_size=20),
)
def test_nothing_in_a_topic_ends_a_task(decode: str, key: Any, value: Any):
    """Whatever is there becomes events or an error of its own."""
    data = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in (key, value)]
    events = decode_records(batch_of([Record(0, 0, data[0], data[1])]), decoding_of(decode))
    assert events.num_rows >= 1
    for event in events.to_pylist():
        assert (event["kind"] == ERROR) is (event["error"] is not None)


# -- what schemas say of columns -------------------------------------------------------------------

PRICED = pa.schema(
    [
        ("id", pa.decimal128(20, 0)),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
PRICED_FIELDS = [
    {"field": "id", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}},
    {"field": "price", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}},
    {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
]
PRICED_ROW = {"id": "AQ==", "price": "F3A=", "at": 1_000_001, "day": 1}
READ_ROW = {
    "id": Decimal(1),
    "price": Decimal("60.00"),
    "at": datetime.datetime(1970, 1, 1, 0, 0, 1, 1),
    "day": datetime.date(1970, 1, 2),
}


def struct_of(fields: list[Any], name: str) -> dict[str, Any]:
    return {"type": "struct", "field": name, "fields": fields}


def priced(payload: Any) -> dict[str, Any]:
    """An envelope as JsonConverter writes it with schemas."""
    rows = [struct_of(PRICED_FIELDS, name) for name in ("before", "after")]
    return {"schema": struct_of(rows, "envelope"), "payload": payload}


def priced_key(value: str) -> dict[str, Any]:
    return {"schema": struct_of(PRICED_FIELDS[:1], "key"), "payload": {"id": value}}


def test_schemas_of_events_say_what_decimals_and_times_are():
    (event,) = events_of(
        "debezium", priced_key("AQ=="), priced(change("c", after=PRICED_ROW)), PRICED
    )
    assert (event.key, event.row) == (b'["1"]', READ_ROW)
    (event,) = events_of("debezium", None, priced(change("c", after=PRICED_ROW)), PRICED)
    assert (event.key, event.row) == (b'["1"]', READ_ROW)
    for key in (None, priced_key("AQ==")):
        value = priced(change("d", before=PRICED_ROW))
        (event,) = events_of("debezium", key, value, PRICED)
        assert (event.kind, event.key) == (DELETE, b'["1"]')
    (event,) = events_of("debezium", priced_key("AQ=="), None, PRICED)
    assert (event.kind, event.key) == (TOMBSTONE, b'["1"]')
    moved = {**PRICED_ROW, "id": "Ag=="}
    value = priced(change("u", before=PRICED_ROW, after=moved))
    old, new = events_of("debezium", priced_key("Ag=="), value, PRICED)
    assert (old.kind, old.key, new.key) == (DELETE, b'["1"]', b'["2"]')
    flat = {"schema": struct_of(PRICED_FIELDS, "row"), "payload": PRICED_ROW}
    for decode in ("flat", "json"):
        (event,) = events_of(decode, None, flat, PRICED)
        assert event.row == READ_ROW


def test_a_key_that_is_one_value_has_a_schema_too():
    key = {"schema": PRICED_FIELDS[0], "payload": "AQ=="}
    (event,) = events_of("debezium", key, priced(change("d")), PRICED)
    assert event.key == b'["1"]'


def test_a_precise_value_that_is_not_available():
    row = {**PRICED_ROW, "price": base64.b64encode(UNAVAILABLE.encode()).decode()}
    (event,) = events_of("debezium", None, priced(change("u", after=row)), PRICED)
    assert (event.unavailable, event.row["price"]) == (("price",), None)


def test_events_without_schemas_are_what_the_user_says():
    types = (("id", "Decimal"), ("price", "Decimal"), ("at", "MicroTimestamp"))
    decoding = Decoding("debezium", ("id",), PRICED, 1, semantic_types=types)
    value = Document(change("c", after=PRICED_ROW))
    (event,) = read_events(Document({"id": "AQ=="}), value, decoding.reading())
    assert (event.key, event.row) == (b'["1"]', READ_ROW)
    # What a schema says counts more.
    other = {**PRICED_FIELDS[1], "parameters": {"scale": "1"}}
    fields = [struct_of([PRICED_FIELDS[0], other, *PRICED_FIELDS[2:]], "after")]
    wrapped_value = {"schema": {"fields": fields}, "payload": change("c", after=PRICED_ROW)}
    (event,) = read_events(Document(None), Document(wrapped_value), decoding.reading())
    assert event.row["price"] == 600
    value = Document(change("c", after={**PRICED_ROW, "id": "1", "price": "1"}))
    with pytest.raises(EventError, match="column at: 1000001 is no timestamp in ISO 8601"):
        read_events(Document({"id": "1"}), value, decoding_of("debezium", PRICED).reading())


@pytest.mark.parametrize("decode", ["json", "debezium"])
def test_decimals_keep_digits_that_floats_have_not(decode: str):
    columns = pa.schema([("id", pa.int64()), ("price", pa.decimal128(38, 10))])
    row = '{"id": 1, "price": 1234567890123456789.0123456789}'
    texts = [row]
    if decode == "debezium":  # MongoDB's is JSON within JSON
        texts = [f'{{"op": "c", "after": {one}}}' for one in (row, json.dumps(row))]
    for text in texts:
        batch = batch_of([Record(0, 0, None, text.encode())])
        (event,) = decode_records(batch, decoding_of(decode, columns)).to_pylist()
        assert event["row"]["price"] == Decimal("1234567890123456789.0123456789"), event["error"]
