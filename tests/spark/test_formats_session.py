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


# -- subjects --------------------------------------------------------------------------------------

OLD = {"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "int"}]}
MORE = [
    {"name": "price", "type": ["null", SCHEMA["fields"][1]["type"]], "default": None},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    {
        "name": "lines",
        "type": {
            "type": "array",
            "items": {
                "type": "record",
                "name": "Line",
                "fields": [
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                    {"name": "raw", "type": "bytes"},
                    {"name": "sizes", "type": {"type": "map", "values": "double"}},
                ],
            },
        },
        "default": [],
    },
]
NEW = {**OLD, "fields": [{"name": "id", "type": "long"}, *MORE]}


def test_values_of_several_versions_have_the_newest_ones_type(spark: Any, server: SchemaRegistry):
    from fencepost.spark.formats import decode, encode, schema_of

    server.register("sales-value", json.dumps(OLD))
    made = spark.sql("SELECT named_struct('id', CAST(id AS int)) AS sale FROM range(2)")
    old = made.select(encode("sale", server.url, "sales-value").alias("value")).collect()
    new = spark.sql(
        "SELECT named_struct('id', 7L, 'price', CAST('1.50' AS decimal(9,2)), 'day',"
        " DATE '2026-01-02', 'lines', array(named_struct("
        "'at', TIMESTAMP '2026-01-02 03:04:05.000006Z', 'raw', X'00ff',"
        " 'sizes', map('a', 1.5D)))) AS sale"
    )
    encoded = new.select(encode("sale", server.url, "sales-value", json.dumps(NEW)).alias("value"))
    values = [*old, *encoded.collect(), (b"no frame",), (None,)]
    kind = (
        "struct<id:bigint,price:decimal(9,2),day:date,"
        "lines:array<struct<at:timestamp,raw:binary,sizes:map<string,double>>>>"
    )
    assert schema_of(server.url, "sales-value").simpleString() == kind
    assert schema_of(server.url, "sales-value", 1).simpleString() == "struct<id:int>"
    rows = spark.createDataFrame([tuple(one) for one in values], "value binary")
    decoded = rows.select(decode("value", server.url, subject="sales-value").alias("d"))
    assert decoded.schema["d"].dataType["value"].dataType.simpleString() == kind
    found = [row.d for row in decoded.collect()]
    assert [one.value and one.value.id for one in found] == [0, 1, 7, None, None]
    assert found[0].value[1:] == (None, None, [])
    assert found[2].value == new.first().sale
    assert [one.schema_id for one in found] == [4, 4, 5, None, None]  # 3 was there before
    assert [bool(one.error) for one in found] == [False, False, False, True, False]
    # A schema of one's own goes on from that shape.
    own = rows.select(decode("value", server.url, "id string", subject="sales-value").alias("d"))
    assert own.first().d.value.id == "0"
    with pytest.raises(ValueError, match="no version latest of subject nowhere"):
        decode("value", server.url, subject="nowhere")
    server.register("plain", '"int"')
    with pytest.raises(ValueError, match="its values are int, not records"):
        decode("value", server.url, subject="plain")


def test_a_refused_schema_fails_the_query_in_the_registrys_words(
    spark: Any, server: SchemaRegistry
):
    from fencepost.spark.formats import encode

    server.register("sales-value", json.dumps(OLD))
    text = json.dumps({**OLD, "fields": [{"name": "id", "type": "string"}]})
    rows = spark.sql("SELECT named_struct('id', '5') AS sale")
    with pytest.raises(Exception, match="/id: string does not read int"):
        rows.select(encode("sale", server.url, "sales-value", text)).collect()
    properties = {"url": server.url, "auto.register.schemas": "false"}
    with pytest.raises(Exception, match="Subject 'other' not found"):
        rows.select(encode("sale", properties, "other", text)).collect()
    with pytest.raises(ValueError, match="must be true or false"):
        encode("sale", {**properties, "normalize.schemas": "maybe"}, "other", text)
    with pytest.raises(ValueError, match="leave the schema out"):
        encode("sale", {"url": server.url, "use.latest.version": True}, "other", text)


def test_a_secured_registry_is_reached_from_tasks(spark: Any, tmp_path: Any):
    pytest.importorskip("cryptography")
    from fencepost.spark.formats import decode, encode
    from fencepost.testing.certificates import CertificateAuthority

    authority = CertificateAuthority()
    trusted = tmp_path / "ca.pem"
    trusted.write_text(authority.certificate_pem)
    issued = authority.issue("registry")
    with SchemaRegistry(credentials="spark:hush", certificate=issued) as secured:
        properties = {
            "url": secured.url,
            "ssl.ca.location": str(trusted),
            "basic.auth.user.info": "spark:hush",
        }
        rows = spark.sql("SELECT named_struct('id', CAST(id AS int)) AS sale FROM range(3)")
        encoded = rows.select(encode("sale", properties, "s", json.dumps(OLD)).alias("value"))
        values = spark.createDataFrame(encoded.collect())
        decoded = values.select(decode("value", properties, subject="s").alias("d"))
        assert sorted(row.d.value.id for row in decoded.collect()) == [0, 1, 2]
        stranger = {**properties, "basic.auth.user.info": "spark:wrong", "max.retries": 0}
        with pytest.raises(Exception, match="401") as failed:
            values.select(decode("value", stranger)).collect()
        assert "wrong" not in str(failed.value)
