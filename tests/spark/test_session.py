"""The data source in a real Spark session, against a served broker and where logs must be cut on
purpose, against fake ones (their ports are as good as any to Spark's workers)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.errors import condition_of
from fencepost.spark.stream import HAS_ADMISSION_CONTROL

from ..client.fake_cluster import FakeCluster
from ..client.records import batch

# Recent, because brokers delete what is older than retention.ms.
BASE_MS = int(time.time() * 1000) - 1_000_000

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    """A topic of three partitions."""
    make_topic(cluster, topic)
    return topic


def make_topic(cluster: Cluster, name: str, partitions: int = 3) -> None:
    admin = Admin(cluster)
    admin.create_topic(name, partitions)
    admin.wait_for_topic(name)


def produce(cluster: Cluster, topic: str, first: int, last: int, *, headers: Any = ()) -> None:
    """Records whose values are numbers, in turn over the partitions."""
    count = len(cluster.topic(topic).partitions)
    with Producer(cluster) as producer:
        for number in range(first, last):
            producer.send(
                topic,
                b"%d" % number,
                b"k%d" % number,
                partition=number % count,
                headers=headers,
                timestamp_ms=BASE_MS + number,
            )


def reading(source: Any, servers: str, topic: str, **options: Any) -> Any:
    chosen = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return source.format("fencepost").options(**chosen)


class Copy:
    """A query that copies a topic's numbers to Parquet, run after run with one checkpoint."""

    def __init__(self, spark: Any, servers: str, topic: str, folder: Path) -> None:
        self.spark, self.servers, self.topic = spark, servers, topic
        self.out, self.checkpoint = str(folder / "out"), str(folder / "checkpoint")
        self.progress: list[Any] = []

    def run(self, **options: Any) -> list[int]:
        """Everything there is now; the rows of each batch."""
        rows = reading(self.spark.readStream, self.servers, self.topic, **options).load()
        query = (
            rows.selectExpr("cast(cast(value as string) as int) number", "partition", "offset")
            .writeStream.format("parquet")
            .option("path", self.out)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        self.progress = query.recentProgress
        return [entry.numInputRows for entry in self.progress]

    @property
    def numbers(self) -> list[int]:
        return sorted(row.number for row in self.spark.read.parquet(self.out).collect())

    @property
    def committed(self) -> dict[str, Any]:
        """The last offset in the checkpoint."""
        folder = Path(self.checkpoint) / "offsets"
        last = max((path for path in folder.iterdir() if path.name.isdigit()), key=_number)
        return json.loads(last.read_text().splitlines()[-1])


def _number(path: Path) -> int:
    return int(path.name)


def test_a_batch_read_has_sparks_columns(spark: Any, cluster: Cluster, served: str, made: str):
    produce(cluster, made, 0, 300, headers=[("h", b"1")])
    rows = reading(spark.read, served, made).load()
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    assert all(field.nullable for field in rows.schema)
    assert rows.count() == 300
    first = rows.where("partition = 1 and offset = 0").collect()[0]
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k1", b"1", made)
    assert first.timestampType == 0
    with_headers = reading(spark.read, served, made, includeHeaders="true").load()
    found = with_headers.select("headers").first().headers
    assert [(entry.key, bytes(entry.value)) for entry in found] == [("h", b"1")]


def test_bounds_splits_and_schemas(spark: Any, cluster: Cluster, served: str, made: str):
    produce(cluster, made, 0, 300)
    bounds = {
        "startingOffsets": json.dumps({made: {"0": 10, "1": -2, "2": 99}}),
        "endingOffsets": json.dumps({made: {"0": 20, "1": 5, "2": -1}}),
    }
    rows = reading(spark.read, served, made, **bounds).load()
    counts = {row.partition: row["count"] for row in rows.groupBy("partition").count().collect()}
    assert counts == {0: 10, 1: 5, 2: 1}
    small = reading(spark.read, served, made, minPartitions="9").schema("value string").load()
    assert small.columns == ["value"]
    assert small.rdd.getNumPartitions() == 9
    assert {int(row.value) for row in small.collect()} == set(range(300))
    late = reading(spark.read, served, made, startingTimestamp=str(BASE_MS + 297)).load()
    assert late.count() == 3


def test_sql_and_filters(spark: Any, cluster: Cluster, served: str, made: str):
    produce(cluster, made, 0, 300)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW numbers USING fencepost OPTIONS "
        f"(kafka.bootstrap.servers '{served}', subscribe '{made}')"
    )
    wanted = "SELECT count(*) FROM numbers WHERE partition = 2 AND offset BETWEEN 10 AND 19"
    assert spark.sql(wanted).first()[0] == 10
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert spark.sql(wanted).first()[0] == 10
        since = f"SELECT count(*) FROM numbers WHERE timestamp >= timestamp_millis({BASE_MS + 290})"
        assert spark.sql(since).first()[0] == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_errors_reach_the_user_in_plain_words(spark: Any, served: str, made: str):
    for options, words in (
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"kafka.no.such.property": "x"}, "option kafka.no.such.property"),
        ({"subscribe": "surely-not-there"}, "surely-not-there: no such topic"),
        ({"kafka.bootstrap.servers": "nowhere"}, "'nowhere' is not HOST:PORT"),
    ):
        with pytest.raises(Exception, match=words):
            reading(spark.read, served, made, **options).load().count()


def test_a_stream_keeps_to_its_limit_and_goes_on_after_a_restart(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    produce(cluster, made, 0, 400)
    copy = Copy(spark, served, made, tmp_path)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "150"}
    counts = copy.run(**options)
    assert sum(counts) == 400
    if HAS_ADMISSION_CONTROL:  # PySpark 4.2 and newer
        assert all(count <= 153 for count in counts)
        assert len(counts) >= 3
    assert copy.run(**options) in ([], [0])
    produce(cluster, made, 400, 450)
    assert sum(copy.run(**options)) == 50
    assert copy.numbers == list(range(450))
    assert copy.committed[made] == {"0": 150, "1": 150, "2": 150}
    assert copy.committed["#fencepost"][made]["id"] == str(cluster.topic(made).topic_id)


def test_a_stream_that_starts_at_the_end_misses_nothing_from_then_on(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    produce(cluster, made, 0, 30)
    copy = Copy(spark, served, made, tmp_path)
    assert sum(copy.run()) == 0
    produce(cluster, made, 30, 60)
    assert sum(copy.run()) == 30
    assert copy.numbers == list(range(30, 60))


def test_a_running_stream_sees_new_records_and_stops(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    rows = reading(spark.readStream, served, made, startingOffsets="earliest").load()
    query = (
        rows.writeStream.format("memory")
        .queryName("running")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for first in (0, 20):
            produce(cluster, made, first, first + 20)
            query.processAllAvailable()
            assert spark.table("running").count() == first + 20
        assert query.lastProgress["sources"][0]["latestOffset"] is not None
    finally:
        query.stop()
    assert query.exception() is None


@pytest.mark.parametrize(
    ("trigger", "says"),
    [
        ({"realTime": "5 seconds"}, "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"),
        ({"continuous": "1 second"}, "does not support continuous processing"),
    ],
)
def test_modes_that_sources_in_python_cannot_have_are_refused_at_once(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path, trigger: Any, says: str
):
    """By Spark, whose interface for sources in Python has no part of either (docs/SPARK.md)."""
    if "realTime" in trigger and "realTime" not in signature(DataStreamWriter.trigger).parameters:
        pytest.skip("this PySpark has no real-time mode")
    produce(cluster, made, 0, 3)
    rows = reading(spark.readStream, served, made, startingOffsets="earliest").load()
    writer = rows.writeStream.format("console").option("checkpointLocation", str(tmp_path))
    writer = writer.outputMode("update").trigger(**trigger)
    with pytest.raises(Exception) as raised:
        writer.start().awaitTermination()
    assert says in str(raised.value)


def test_a_topic_made_anew_is_reported_not_read_as_if_nothing_had_happened(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    produce(cluster, made, 0, 30)
    copy = Copy(spark, served, made, tmp_path)
    copy.run(startingOffsets="earliest")
    old = str(cluster.topic(made).topic_id)
    Admin(cluster).delete_topic(made)
    make_topic(cluster, made)
    produce(cluster, made, 1000, 1090)  # more than before: offsets alone would look fine
    with pytest.raises(Exception, match=f"{made}-0: recreated, offsets 10 to the end.*{old}"):
        copy.run(startingOffsets="earliest")
    assert sum(copy.run(failOnDataLoss="false")) == 90
    assert copy.numbers == [*range(30), *range(1000, 1090)]


def test_a_log_that_was_cut_on_disk_is_reported(spark: Any, topic: str, tmp_path: Path):
    from fencepost.testing import Cluster as Served

    with Served() as served, Cluster(served.bootstrap_servers) as cluster:
        make_topic(cluster, topic, 1)
        for first in range(0, 30, 5):  # several batches
            produce(cluster, topic, first, first + 5)
        copy = Copy(spark, served.bootstrap_servers, topic, tmp_path)
        assert sum(copy.run(startingOffsets="earliest")) == 30
        served.kill()
        log = served.data_dir / f"{topic}-0" / f"{0:020}.log"
        os.truncate(log, log.stat().st_size * 6 // 10)
        served.restart()
        produce(cluster, topic, 500, 550)  # and grown beyond where the query stood
        with pytest.raises(Exception, match=f"{topic}-0: rewritten, offsets 15 to 30"):
            copy.run(startingOffsets="earliest")
        assert sum(copy.run(failOnDataLoss="false")) == 50
        assert copy.numbers == [*range(30), *range(500, 550)]


def test_an_unclean_election_is_reported(spark: Any, tmp_path: Path):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t", 2)
        for number in range(10):
            fake.partition("t", number % 2).append(batch(b"%d" % number))
        copy = Copy(spark, fake.bootstrap_servers, "t", tmp_path)
        assert sum(copy.run(startingOffsets="earliest")) == 10
        fake.partition("t", 0).elect(2)  # clean
        assert copy.run(startingOffsets="earliest") in ([], [0])
        fake.partition("t", 1).elect(1, cut_to=3)
        for number in range(100, 120):
            fake.partition("t", 1).append(batch(b"%d" % number))
        with pytest.raises(Exception, match=r"t-1: rewritten, offsets 3 to 5.*leader epoch 0"):
            copy.run(startingOffsets="earliest")


def test_a_checkpoint_of_sparks_connector_is_taken_over(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    produce(cluster, made, 0, 300)
    copy = Copy(spark, served, made, tmp_path)
    folder = Path(copy.checkpoint)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    stored = {made: {"0": 40, "1": 100, "2": 99}}
    empty = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    text = "\n".join(["v1", json.dumps(empty), json.dumps(stored, separators=(",", ":"))])
    (folder / "offsets" / "0").write_text(text)
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
    assert sum(copy.run()) == 61
    assert copy.committed[made] == {"0": 100, "1": 100, "2": 100}


def test_what_a_sink_writes_is_read_back(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    rows = spark.range(6_000).selectExpr(
        "cast(id as string) key",
        "cast(id as string) value",
        "array(named_struct('key', 'n', 'value', cast('x' as binary))) headers",
    )
    written = rows.write.format("fencepost").option("kafka.bootstrap.servers", served)
    written.option("topic", made).mode("append").save()
    back = reading(spark.read, served, made, includeHeaders="true").load()
    assert back.count() == 6_000
    assert back.selectExpr("cast(key as string) k").distinct().count() == 6_000
    assert back.select("partition").distinct().count() == 3
    assert back.first().headers[0].key == "n"
    # A stream from the one topic into another.
    target = f"{made}-copy"
    make_topic(cluster, target, 2)
    query = (
        reading(spark.readStream, served, made, startingOffsets="earliest")
        .load()
        .selectExpr("key", "value", f"'{target}' topic")
        .writeStream.format("fencepost")
        .option("kafka.bootstrap.servers", served)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert reading(spark.read, served, target).load().count() == 6_000


def test_writes_with_wrong_options_are_refused(spark: Any, served: str, made: str):
    rows = spark.range(5).selectExpr("cast(id as string) value")
    writer = rows.write.format("fencepost").option("kafka.bootstrap.servers", served)
    with pytest.raises(Exception, match="topics cannot be overwritten"):
        writer.option("topic", made).mode("overwrite").save()
    with pytest.raises(Exception, match="option 'topic' or a column 'topic' is required"):
        rows.write.format("fencepost").option("kafka.bootstrap.servers", served).mode(
            "append"
        ).save()
    with pytest.raises(Exception, match="'value' must be string or binary, not bigint"):
        spark.range(5).withColumnRenamed("id", "value").write.format("fencepost").option(
            "kafka.bootstrap.servers", served
        ).option("topic", made).mode("append").save()


def test_a_checkpoint_of_another_source_loses_nothing_and_says_what_it_is(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path
):
    produce(cluster, made, 0, 30)
    copy = Copy(spark, served, made, tmp_path)
    copy.run(startingOffsets="earliest")
    produce(cluster, made, 30, 40)
    last = Path(copy.checkpoint) / "offsets" / "0"
    whole = last.read_bytes()
    last.with_name(f".{last.name}.crc").unlink()  # Spark's, of what it wrote itself
    last.write_bytes(b"\n".join([*whole.split(b"\n")[:2], b'{"logOffset":3}']))
    with pytest.raises(Exception, match="logOffset") as raised:
        copy.run(failOnDataLoss="false")
    found = condition_of(raised.value)
    assert found is not None and found.name == "FENCEPOST_INVALID_OFFSET"
    assert found.parameters["offset"] == '{"logOffset": 3}'
    last.write_bytes(whole)
    copy.run()
    assert copy.numbers == list(range(40))
