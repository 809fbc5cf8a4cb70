"""Decoded columns and dead letters in a real session, from topic to topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.testing.registry import SchemaRegistry

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
    ],
}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as made:
        made.put_unchecked(3, json.dumps(SCHEMA), subject="s3")
        yield made


def order(number: int) -> bytes:
    """id, price 1.50, at 1970-01-01 00:00:01, raw FF."""
    return b"\0\0\0\0\3" + bytes([2 * number]) + b"\4\0\x96" + b"\xd0\x0f" + b"\2\xff"


@pytest.fixture
def filled(served: str, topic: str) -> str:
    """Ten orders, a text, a tombstone and an order cut short."""
    with Cluster(served) as cluster:
        for name in (topic, f"{topic}-dead"):
            Admin(cluster).create_topic(name, 1)
            Admin(cluster).wait_for_topic(name)
        with Producer(cluster) as producer:
            for number in range(10):
                producer.send(topic, order(number), b"k")
            producer.send(topic, b"hello", b"text", headers=[("from", b"test")])
            producer.send(topic, None, b"gone")
            producer.send(topic, order(1)[:-1], b"cut")
    return topic


def reading(source: Any, served: str, topic: str) -> Any:
    return (
        source.format("fencepost")
        .option("kafka.bootstrap.servers", served)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
    )


def test_decoded_columns(spark: Any, served: str, filled: str, server: SchemaRegistry):
    from fencepost.spark.formats import decode

    rows = reading(spark.read, served, filled).load()
    ddl = "id long, price decimal(9,2), at timestamp, raw binary"
    found = rows.select("offset", decode("value", server.url, ddl).alias("d")).orderBy("offset")
    assert found.schema["d"].dataType.simpleString() == (
        "struct<value:struct<id:bigint,price:decimal(9,2),at:timestamp,raw:binary>,json:string,"
        "schema_id:int,error:string>"
    )
    collected = [row.d for row in found.collect()]
    assert [one.value.id for one in collected[:10]] == list(range(10))
    first = collected[0].value
    assert (str(first.price), first.at.timestamp(), bytes(first.raw)) == ("1.50", 1.0, b"\xff")
    assert {(one.schema_id, one.error) for one in collected[:10]} == {(3, None)}
    text, gone, cut = collected[10:]
    assert (text.value, text.error) == (
        None,
        "begins with byte 0x68, not with 0x00 and a schema id",
    )
    assert tuple(gone) == (None, None, None, None)
    assert (cut.value, cut.schema_id) == (None, 3)
    assert "does not fit its Avro schema" in cut.error
    unfit = rows.limit(1).select(decode("value", server.url, "raw int").alias("d")).first().d
    assert unfit.value is None
    assert unfit.error == "does not fit the schema that was asked for"


def test_encoded_columns_are_read_back(spark: Any, server: SchemaRegistry):
    """Types of Spark as they come to the encoder; what does not fit fails the task."""
    from fencepost.spark.formats import decode, encode

    counts = [{"name": "sizes", "type": {"type": "map", "values": "long"}, "default": {}}]
    text = json.dumps({**SCHEMA, "fields": SCHEMA["fields"] + counts})
    server.put_unchecked(4, text, subject="s4")
    made = spark.sql(
        "SELECT IF(id = 2, NULL, named_struct('id', id, 'price', CAST('1.50' AS decimal(9,2)),"
        " 'at', timestamp_seconds(id), 'raw', X'ff', 'sizes', map('a', id))) order FROM range(3)"
    )
    ddl = "id long, price decimal(9,2), at timestamp, raw binary, sizes map<string,long>"
    encoded = made.select("order", encode("order", server.url, "s4").alias("value"))
    rows = encoded.select("order", "value", decode("value", server.url, ddl).alias("d")).collect()
    assert [row.d.value for row in rows] == [row.order for row in rows]
    assert sum(row.value is None for row in rows) == 1
    with pytest.raises(Exception, match="does not fit its Avro schema"):
        made.select(encode("order", server.url, "s3")).collect()


def test_a_stream_with_dead_letters(
    spark: Any, served: str, filled: str, server: SchemaRegistry, tmp_path: Any
):
    from fencepost.spark.formats import dead_letters, decode

    rows = reading(spark.readStream, served, filled).load()
    decoded = rows.withColumn("decoded", decode("value", {"url": server.url}, "id long"))
    ids: list[int] = []

    def write(batch: Any, _: int) -> None:
        good = batch.where("decoded.value is not null")
        ids.extend(row.id for row in good.select("decoded.value.id").collect())
        (
            dead_letters(batch)
            .write.format("fencepost")
            .option("kafka.bootstrap.servers", served)
            .option("topic", f"{filled}-dead")
            .mode("append")
            .save()
        )

    query = (
        decoded.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(ids) == list(range(10))
    letters = reading(spark.read, served, f"{filled}-dead").load().orderBy("offset").collect()
    assert [(bytes(one.key), bytes(one.value)) for one in letters] == [
        (b"text", b"hello"),
        (b"cut", order(1)[:-1]),
    ]
    headers = [(one.key, bytes(one.value).decode()) for one in letters[0].headers]
    assert headers[0] == ("from", "test")
    assert headers[1:] == [
        ("__connect.errors.topic", filled),
        ("__connect.errors.partition", "0"),
        ("__connect.errors.offset", "10"),
        (
            "__connect.errors.exception.message",
            "begins with byte 0x68, not with 0x00 and a schema id",
        ),
    ]


def test_a_registry_in_trouble_fails_the_query(
    spark: Any, served: str, filled: str, server: SchemaRegistry
):
    from fencepost.spark.formats import decode

    server.fail(503)
    rows = reading(spark.read, served, filled).load()
    config = {"url": server.url, "max.retries": 0}
    with pytest.raises(Exception, match="503"):
        rows.select(decode("value", config).alias("d")).collect()


def test_properties_that_cannot_travel(spark: Any):
    from fencepost.spark.formats import decode

    with pytest.raises(ValueError, match="must be a text or a number"):
        decode("value", {"url": "http://x", "callback": print})
