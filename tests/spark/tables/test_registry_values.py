"""Tables of topics whose keys and values are by schemas of a registry."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.spark.tables.batches import MergeOptions
from fencepost.spark.tables.decoding import decode_records
from fencepost.spark.tables.errors import TableError
from fencepost.testing.registry import SchemaRegistry

from ..test_formats import avro, frame, put
from .worlds import Record, StoredTable, batch_of, envelope

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(9, 2)),
        ("made", pa.timestamp("us")),
        ("sent", pa.timestamp("us", tz="UTC")),
        ("total", pa.decimal128(20, 3)),
    ]
)
PRICE = {
    "type": "bytes",
    "logicalType": "decimal",
    "precision": 9,
    "scale": 2,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}
MADE = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
SENT = {
    "type": "long",
    "logicalType": "timestamp-millis",
    "connect.name": "org.apache.kafka.connect.data.Timestamp",
}
TOTAL = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
AT = datetime.datetime(2026, 11, 29, 12, 0, 0, 123456)


def envelope_schema(*fields: Any) -> dict[str, Any]:
    """As Connect registers it: `after` names the record that `before` defines."""
    row = {
        "type": "record",
        "name": "Value",
        "namespace": "shop.orders",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": ["null", PRICE], "default": None},
            {"name": "made", "type": ["null", MADE], "default": None},
            {"name": "sent", "type": ["null", SENT], "default": None},
            *fields,
        ],
    }
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": "connector", "type": "string"}, {"name": "lsn", "type": "long"}],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.orders",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }


OLD = envelope_schema()
NEW = envelope_schema({"name": "total", "type": ["null", TOTAL], "default": None})


def row_of(number: int, **given: Any) -> dict[str, Any]:
    micros = int(AT.replace(tzinfo=datetime.UTC).timestamp()) * 1_000_000 + 123456
    sent = AT.replace(tzinfo=datetime.UTC)
    row = {"id": number, "price": Decimal("12.50"), "made": micros, "sent": sent}
    return {**row, **given}


def change(op: str, lsn: int, **given: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": lsn}
    return {"before": None, "after": None, "source": source, "op": op, **given}


def key_of(number: int) -> bytes:
    return frame(1, avro(KEY, {"id": number}))


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        for number, schema in ((1, KEY), (2, OLD), (3, NEW)):
            put(made, number, json.dumps(schema))
        yield made


def table_of(server: SchemaRegistry, place: Path, on_error: str = "fail") -> StoredTable:
    options = MergeOptions(on_error=on_error)
    table = StoredTable(place, columns=COLUMNS, options=options)
    config = (("max.retries", 0), ("url", server.url))
    table.decoding = replace(table.decoding, registry=config, key_registry=config)
    return table


def test_changes_by_avro_become_rows_with_their_types(server: SchemaRegistry, tmp_path: Path):
    table = table_of(server, tmp_path)
    total = {"scale": 3, "value": (-5001).to_bytes(2, "big", signed=True)}
    table.take(
        0,
        [
            Record(0, 0, key_of(1), frame(2, avro(OLD, change("c", 1, after=row_of(1))))),
            Record(0, 1, key_of(2), frame(2, avro(OLD, change("c", 2, after=row_of(2))))),
            Record(
                *(0, 2, key_of(1)),
                frame(3, avro(NEW, change("u", 3, after=row_of(1, price=None, total=total)))),
            ),
            Record(0, 3, key_of(2), frame(3, avro(NEW, change("d", 4, before=row_of(2))))),
            Record(0, 4, key_of(2), None),
        ],
    )
    (row,) = table.rows()
    assert {name: row[name] for name in COLUMNS.names} == {
        "id": 1,
        "price": None,
        "made": AT,
        "sent": AT.replace(tzinfo=datetime.UTC, microsecond=123000),
        "total": Decimal("-5.001"),
    }
    assert server.asked == {f"/schemas/ids/{number}": 1 for number in (1, 2, 3)}


def test_what_has_no_schema_is_put_aside(server: SchemaRegistry, tmp_path: Path):
    table = table_of(server, tmp_path, "keep")
    good = frame(2, avro(OLD, change("c", 1, after=row_of(1))))
    records = [
        Record(0, 0, key_of(1), good),
        Record(0, 1, key_of(2), envelope("c", 2, after={"id": 2})),
        Record(0, 2, key_of(3), frame(99, b"")),
        Record(0, 3, b'{"id": 4}', good),
        Record(0, 4, key_of(5), good[:-1]),
    ]
    version = table.take(0, records)
    assert version is not None
    assert version.counts["errors"] == 4
    assert [row["id"] for row in table.rows()] == [1]
    errors = [one["error"] for one in decode_records(batch_of(records), table.decoding).to_pylist()]
    assert [str(one).partition(":")[0] for one in errors] == [
        "None",
        *["value"] * 2,
        "key",
        "value",
    ]
    with pytest.raises(TableError, match="offset 1: value: "):
        table_of(server, tmp_path / "strict").take(0, records)


def test_a_registry_that_does_not_answer_fails_the_batch(server: SchemaRegistry, tmp_path: Path):
    """Spark tries the task again then; records are not put aside for it."""
    table = table_of(server, tmp_path, "keep")
    server.close()
    with pytest.raises(Exception, match=r"(?i)connect"):
        table.take(0, [Record(0, 0, key_of(1), frame(2, b""))])
    assert table.versions.require_newest().number == 1
