"""One suite for both: this data source and Spark's own connector, on the same broker, ours or
Apache Kafka's.

Each case runs under both formats against the same topic and must give the same rows, the same
offsets in checkpoints, the same refusal. What may differ is in the table of docs/SPARK.md.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import fencepost.spark
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.stream import HAS_ADMISSION_CONTROL

from ..waiting import eventually
from . import apache
from .conftest import SPARK_KAFKA, jars_or_skip, one_node

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

FORMATS = ("kafka", "fencepost")
BASE_MS = int(time.time() * 1000) - 1_000_000
COLUMNS = (
    "CAST(key AS STRING) k",
    "CAST(value AS STRING) v",
    *("topic", "partition", "offset", "timestamp", "timestampType"),
)


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker of ours, and Apache Kafka's."""
    jars_or_skip(SPARK_KAFKA)
    if request.param == "apache":
        jars_or_skip(apache.KAFKA)
    with one_node(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.fixture(scope="module")
def numbers(servers: str) -> str:
    """Three partitions, the last one empty; 60 records with keys, headers, times, some nulls."""
    name = new_topic(servers, 3)
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(60):
            producer.send(
                name,
                None if number % 7 == 3 else b"%d" % number,
                None if number % 5 == 2 else b"k%d" % number,
                partition=number % 2,
                headers=[("h", b"%d" % number), ("n", None)] if number % 3 == 0 else (),
                timestamp_ms=BASE_MS + number,
            )
    return name


def new_topic(servers: str, partitions: int) -> str:
    name = f"both-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(name, partitions)
        Admin(cluster).wait_for_topic(name)
    return name


def reading(spark: Any, kind: str, servers: str, **options: str) -> Any:
    return spark.read.format(kind).option("kafka.bootstrap.servers", servers).options(**options)


def outcome(action: Callable[[], Any]) -> Any:
    """What it gives, or that it fails."""
    try:
        return action()
    except Exception:  # noqa: BLE001
        return "fails"


# -- reads -------------------------------------------------------------------------------------

READS: dict[str, dict[str, str]] = {
    "defaults": {},
    "earliest": {"startingOffsets": "earliest", "endingOffsets": "latest"},
    "offsets": {
        "startingOffsets": '{"T":{"0":5,"1":-2,"2":-2}}',
        "endingOffsets": '{"T":{"0":9,"1":-1,"2":-1}}',
    },
    "timestamps": {"startingTimestamp": str(BASE_MS + 20), "endingTimestamp": str(BASE_MS + 31),
                   "startingOffsetsByTimestampStrategy": "latest"},
    "timestamps by partition": {
        "startingOffsetsByTimestamp": json.dumps({"T": {"0": BASE_MS, "1": BASE_MS, "2": 1}}),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": json.dumps({"T": {"0": BASE_MS + 9, "1": BASE_MS, "2": 1}}),
    },
    "timestamp beats offsets": {"startingOffsets": '{"T":{"0":29,"1":29,"2":0}}',
                                "startingTimestamp": str(BASE_MS + 50),
                                "startingOffsetsByTimestampStrategy": "latest"},
    "headers": {"includeHeaders": "true"},
    "minPartitions": {"minPartitions": "7"},
    # Of ends that are not known before the tasks run Spark's connector splits none.
    "maxRecordsPerPartition": {
        "maxRecordsPerPartition": "8",
        "startingOffsets": '{"T":{"0":0,"1":0,"2":0}}',
        "endingOffsets": '{"T":{"0":30,"1":30,"2":0}}',
    },
    "both splits": {"minPartitions": "9", "maxRecordsPerPartition": "20"},
    "properties of Java": {"kafka.session.timeout.ms": "20000", "kafka.max.poll.records": "7",
                           "kafka.client.dns.lookup": "use_all_dns_ips", "groupIdPrefix": "g",
                           "kafka.reconnect.backoff.ms": "20", "fetchOffset.numRetries": "2",
                           "kafka.metric.reporters": "", "kafka.group.id": "mine",
                           "kafka.isolation.level": "read_committed",
                           "kafkaConsumer.pollTimeoutMs": "60000"},
    "maxOffsetsPerTrigger is passed over": {"maxOffsetsPerTrigger": "5"},
}  # fmt: skip
"""Options by what they show; T is the topic."""


def for_topic(options: dict[str, str], topic: str) -> dict[str, str]:
    return {name: value.replace('"T"', f'"{topic}"') for name, value in options.items()}


@pytest.mark.parametrize("case", READS)
def test_reads_give_the_same_rows(spark: Any, servers: str, numbers: str, case: str):
    found = []
    options = for_topic(READS[case], numbers)
    # Spark's connector has a task for an empty partition, unless it splits others.
    splits = {"minPartitions", "maxRecordsPerPartition"} & set(options)
    for kind in FORMATS:
        rows = reading(spark, kind, servers, subscribe=numbers, **options).load()
        chosen = rows.selectExpr(*COLUMNS, *(["headers"] if "headers" in case else []))
        ordered = sorted(chosen.collect(), key=lambda row: (row.partition, row.offset))
        tasks = rows.rdd.getNumPartitions() if splits else 0
        found.append((rows.schema.simpleString(), tasks, ordered))
    assert found[1] == found[0]
    assert found[0][-1]


@pytest.mark.parametrize(
    "chosen",
    [{"assign": '{"T":[1]}'}, {"subscribePattern": "T"}, {"subscribe": " T , T"},
     {"subscribePattern": r"(?i)\QT\E|[x&&[y]]"}],
    ids=["assign", "pattern", "spaces", "an intersection"],
)  # fmt: skip
def test_subscriptions(spark: Any, servers: str, numbers: str, chosen: dict[str, str]):
    named = {name: value.replace("T", numbers) for name, value in chosen.items()}
    counts = [outcome(reading(spark, kind, servers, **named).load().count) for kind in FORMATS]
    if "&&" in str(chosen):
        assert counts == [60, "fails"]  # as the table in docs/SPARK.md says
    else:
        assert counts[0] == counts[1] != "fails"


WRONG: dict[str, dict[str, str]] = {
    "no subscription": {"subscribe": ""},
    "two": {"assign": '{"T":[0]}'},
    "a batch from latest": {"startingOffsets": "latest"},
    "a batch to earliest": {"endingOffsets": "earliest"},
    "ends at -2": {"endingOffsets": '{"T":{"0":-2,"1":-1,"2":-1}}'},
    "too few partitions": {"startingOffsets": '{"T":{"0":1}}'},
    "too many partitions": {"startingOffsets": '{"T":{"0":1,"1":1,"2":0,"3":0}}'},
    "too few times": {"startingOffsetsByTimestamp": '{"T":{"0":1}}'},
    "no record so young": {"startingTimestamp": str(BASE_MS + 99_000_000)},
    "start behind the end": {
        "startingOffsets": '{"T":{"0":9,"1":0,"2":0}}', "endingOffsets": '{"T":{"0":5,"1":5,"2":0}}'
    },
    "no JSON": {"startingOffsets": "{"},
    "an unknown strategy": {"startingOffsetsByTimestampStrategy": "x"},
    "min partitions 0": {"minPartitions": "0"},
    "max records 0": {"maxRecordsPerPartition": "0"},
    "kafka.auto.offset.reset": {"kafka.auto.offset.reset": "latest"},
    "kafka.key.deserializer": {"kafka.key.deserializer": "x"},
    "kafka.value.deserializer": {"kafka.value.deserializer": "x"},
    "kafka.enable.auto.commit": {"kafka.enable.auto.commit": "true"},
    "kafka.interceptor.classes": {"kafka.interceptor.classes": "x"},
    "a wrong property": {"kafka.fetch.max.bytes": "-5"},
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_both_refuse(spark: Any, servers: str, numbers: str, case: str):
    options = {"subscribe": numbers, **for_topic(WRONG[case], numbers)}
    told = {
        kind: outcome(lambda kind=kind: reading(spark, kind, servers, **options).load().collect())
        for kind in FORMATS
    }
    assert told == {"kafka": "fails", "fencepost": "fails"}


def test_transactions_give_no_gap_and_no_alarm(spark: Any, servers: str, tmp_path: Path):
    """Markers and aborted records are no loss, to a batch and to a stream, at either level."""
    topic = new_topic(servers, 1)
    config = ClientConfig.from_props(
        {"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex}
    )
    with Cluster(config=config) as cluster, Producer(cluster) as producer:
        producer.init_transactions()
        for round_ in range(6):
            producer.begin_transaction()
            for number in range(5):
                producer.send(topic, b"%d-%d" % (round_, number), partition=0)
            producer.flush()
            if round_ % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    for level, count in (("read_committed", 15), ("read_uncommitted", 30)):
        options = {"kafka.isolation.level": level, "startingOffsets": "earliest"}
        rows = []
        for kind in FORMATS:
            frame = reading(spark, kind, servers, subscribe=topic, **options).load()
            rows.append(sorted(row.offset for row in frame.select("offset").collect()))
            query = Stream(spark, servers, topic, tmp_path / f"{level}-{kind}")
            query.run(kind, maxOffsetsPerTrigger="7", **options)
            rows.append(query.offsets)
        assert rows == [rows[0]] * 4
        assert len(rows[0]) == count


def test_kafkas_own_topics_are_read_by_name_here_alone(spark: Any, servers: str):
    """As the table in docs/SPARK.md says: Spark's connector leaves them out when they are named."""
    topic = new_topic(servers, 1)
    config = ClientConfig.from_props(
        {"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex}
    )
    with Cluster(config=config) as cluster, Producer(cluster) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"x", partition=0)
    own = "__transaction_state"
    counts = [reading(spark, kind, servers, subscribe=own).load().count() for kind in FORMATS]
    assert counts[0] == 0 < counts[1]
    patterns = [
        outcome(reading(spark, kind, servers, subscribePattern=f"^{own}$").load().count)
        for kind in FORMATS
    ]
    assert patterns == [0, 0]


# -- streams and their checkpoints -------------------------------------------------------------


class Stream:
    """A query that keeps offsets of a topic, with one checkpoint for both formats."""

    def __init__(self, spark: Any, servers: str, topic: str, folder: Path) -> None:
        self.spark, self.servers, self.topic, self.folder = spark, servers, topic, folder

    def run(self, kind: str, **options: str) -> list[int]:
        """Rows of each batch of a run to the end of what there is."""
        query = self.start(kind, {"availableNow": True}, **options)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def start(self, kind: str, trigger: dict[str, Any], **options: str) -> Any:
        source = self.spark.readStream.format(kind).options(**options)
        source = source.option("kafka.bootstrap.servers", self.servers)
        return (
            source.option("subscribe", self.topic)
            .load()
            .select("partition", "offset")
            .writeStream.format("parquet")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    @property
    def offsets(self) -> list[int]:
        return sorted(row.offset for row in self._rows())

    @property
    def places(self) -> list[tuple[int, int]]:
        return sorted((row.partition, row.offset) for row in self._rows())

    def _rows(self) -> list[Any]:
        return self.spark.read.parquet(str(self.folder / "out")).collect()

    @property
    def stored(self) -> dict[str, Any]:
        """The last offset in the checkpoint."""
        files = (self.folder / "checkpoint" / "offsets").glob("[0-9]*")
        last = max(files, key=lambda file: int(file.name))
        return json.loads(last.read_text().splitlines()[-1])


def append(servers: str, topic: str, count: int) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, b"x", partition=number % 2)


# PySpark 4.1 cannot limit the one batch that a Python source has there with availableNow.
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "14"}], ids=["all", "limited"])
def test_batches_of_a_stream_are_the_same(
    spark: Any, servers: str, tmp_path: Path, limit: dict[str, str]
):
    topic = new_topic(servers, 3)
    append(servers, topic, 50)
    counts, stored = [], []
    for kind in FORMATS:
        query = Stream(spark, servers, topic, tmp_path / kind)
        counts.append(query.run(kind, startingOffsets="earliest", **limit))
        stored.append(query.stored[topic])
        assert query.places == [(p, offset) for p in (0, 1) for offset in range(25)]
    assert stored[1] == stored[0]
    assert counts[1] == (counts[0] if HAS_ADMISSION_CONTROL or not limit else [50])


def batches_of(query: Any) -> list[int]:
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


def seen_end(query: Any, topic: str) -> int:
    """Records that the source was last seen to have."""
    last = query.lastProgress
    # Not the attribute: in PySpark 4.1 that is the text of a dict.
    latest = json.loads(last.json)["sources"][0].get("latestOffset") if last else None
    return sum((latest or {}).get(topic, {}).values())


@pytest.fixture
def idle_progress(spark: Any) -> Iterator[None]:
    """Queries report where the log ends soon after they saw it, also when they read nothing."""
    name = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(name, "100")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("idle_progress")
@pytest.mark.parametrize("kind", FORMATS)
def test_small_batches_wait_for_more(spark: Any, servers: str, tmp_path: Path, kind: str):
    topic = new_topic(servers, 2)
    append(servers, topic, 4)
    stream = Stream(spark, servers, topic, tmp_path)
    chosen = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    query = stream.start(kind, {"processingTime": "0 seconds"}, **chosen)
    try:
        eventually(lambda: batches_of(query) == [4], "the first batch does not wait")
        append(servers, topic, 6)
        if kind == "kafka" or HAS_ADMISSION_CONTROL:  # else Spark does not tell: PySpark 4.1
            eventually(lambda: seen_end(query, topic) == 10, "the query sees what is too little")
        assert batches_of(query) == [4]
        append(servers, topic, 6)
        # These 6 may arrive in parts, and 4 of them are enough.
        found = eventually(lambda: (seen := batches_of(query))[1:] and seen, "there is enough")
        assert found[0] == 4
        assert found[1] >= 10
    finally:
        query.stop()


@pytest.mark.parametrize("kind", FORMATS)
def test_small_batches_wait_no_longer_than_they_may(
    spark: Any, servers: str, tmp_path: Path, kind: str
):
    topic = new_topic(servers, 2)
    append(servers, topic, 4)
    stream = Stream(spark, servers, topic, tmp_path)
    chosen = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "1000"}
    chosen["maxTriggerDelay"] = "1s"
    query = stream.start(kind, {"processingTime": "0 seconds"}, **chosen)
    try:
        eventually(lambda: batches_of(query) == [4])
        append(servers, topic, 6)
        eventually(lambda: sum(batches_of(query)) == 10, "the delay has passed")
    finally:
        query.stop()


def test_records_that_were_deleted_unread(spark: Any, servers: str, tmp_path: Path):
    """Both fail, and go on at the beginning of the log where they are told to."""
    topic = new_topic(servers, 2)
    append(servers, topic, 20)
    streams = {kind: Stream(spark, servers, topic, tmp_path / kind) for kind in FORMATS}
    for kind, stream in streams.items():
        assert sum(stream.run(kind, startingOffsets="earliest")) == 20
    append(servers, topic, 20)
    with Cluster(servers) as cluster:
        Admin(cluster).delete_records({TopicPartition(topic, 0): 15})
    told = {kind: outcome(lambda k=kind, s=stream: s.run(k)) for kind, stream in streams.items()}
    assert told == {"kafka": "fails", "fencepost": "fails"}
    if version("pyspark").startswith("4.1."):
        del streams["kafka"]  # there it fails then, too: "scala.Option.get()" is null
    for kind, stream in streams.items():
        assert sum(stream.run(kind, failOnDataLoss="false")) == 15
        assert [offset for partition, offset in stream.places if partition == 0] == [
            *range(10),
            *range(15, 20),
        ]
        assert stream.stored[topic] == {"0": 20, "1": 20}


def test_a_checkpoint_moves_over_and_back_at_its_exact_offsets(
    spark: Any, servers: str, tmp_path: Path
):
    topic = new_topic(servers, 2)
    query = Stream(spark, servers, topic, tmp_path)
    moves = [
        ("kafka", {}),
        ("fencepost", {}),
        ("fencepost", {}),
        ("fencepost", {"plainOffsets": "true"}),
        ("kafka", {}),
        ("fencepost", {"plainOffsets": "true"}),
        ("kafka", {}),
    ]
    for number, (kind, options) in enumerate(moves):
        append(servers, topic, 10 + number)
        assert sum(query.run(kind, startingOffsets="earliest", **options)) == 10 + number
    written = sum(10 + number for number in range(len(moves)))
    assert query.stored == {topic: {"0": (written + 3) // 2, "1": (written - 3) // 2}}
    places = query.places
    assert len(places) == len(set(places)) == written


@pytest.fixture
def unchanged() -> Iterator[Callable[[bool], None]]:
    """Says whose `format("kafka")` is: ours, or Spark's connector again."""
    yield lambda ours: fencepost.spark.install() if ours else fencepost.spark.uninstall()
    fencepost.spark.uninstall()


def counting(spark: Any, servers: str, topic: str, folder: Path, **options: str) -> Any:
    """A program for `format("kafka")`: how often each value was there, told when it changes."""
    source = spark.readStream.format("kafka").options(**options)
    source = source.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    counts = source.load().groupBy("value").count()
    return (
        counts.selectExpr("value AS key", "CAST(count AS STRING) value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", f"{topic}-counts")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )


def test_an_unchanged_program_moves_over_and_back(
    spark: Any, servers: str, tmp_path: Path, unchanged: Callable[[bool], None]
):
    """The same program with the same options, with `install()` and without, in turn: it goes on at
    the exact offsets and with its state, and tells every count once."""
    topic = new_topic(servers, 2)
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(f"{topic}-counts", 1)
        Admin(cluster).wait_for_topic(f"{topic}-counts")
    query = Stream(spark, servers, topic, tmp_path / "places")
    options = {"startingOffsets": "earliest", "plainOffsets": "true"}  # Spark's passes over that
    totals = []
    for number, ours in enumerate((False, True, True, False, True, False)):
        unchanged(ours)
        append(servers, topic, 10 + number)
        totals.append(sum(totals[-1:]) + 10 + number)
        assert sum(query.run("kafka", **options)) == 10 + number
        assert sum(query.stored[topic].values()) == totals[-1]
        assert list(query.stored) == [topic]
        counted = counting(spark, servers, topic, tmp_path / "counts", **options)
        counted.awaitTermination()
        assert source_of(counted).startswith("KafkaV2") is not ours
    places = query.places
    assert len(places) == len(set(places)) == totals[-1]
    told = reading(spark, "kafka", servers, subscribe=f"{topic}-counts").load()
    told = told.selectExpr("string(key) key", "int(string(value)) count", "offset")
    rows = sorted(told.collect(), key=lambda row: row.offset)
    assert [(row.key, row["count"]) for row in rows] == [("x", total) for total in totals]


def source_of(query: Any) -> str:
    return str(query.lastProgress["sources"][0]["description"])


# -- writes ------------------------------------------------------------------------------------

KEYED = "CAST(id AS STRING) key"
WRITES: dict[str, tuple[str, ...]] = {
    "value alone": ("value",),
    "key and value": (KEYED, "value"),
    "binary": ("CAST(CAST(id AS STRING) AS BINARY) key", "CAST(value AS BINARY) value"),
    "a partition": ("value", "CAST(id % 2 AS INT) partition"),
    "headers": (
        "value",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) headers",
    ),
    "null values and keys": ("CAST(NULL AS STRING) key", "CAST(NULL AS STRING) value"),
    "other columns": ("value", "id", "id + 1 AS another"),
}
"""Columns; rows with a key or a partition must be in the same partition."""


@pytest.mark.parametrize("case", WRITES)
def test_what_is_written_is_the_same(spark: Any, servers: str, case: str):
    found = []
    for kind in FORMATS:
        topic = new_topic(servers, 2)
        rows = spark.range(20).selectExpr("id", "CAST(id AS STRING) value")
        rows.selectExpr(*WRITES[case]).write.format(kind).option(
            "kafka.bootstrap.servers", servers
        ).option("topic", topic).mode("append").save()
        back = reading(spark, "kafka", servers, subscribe=topic, includeHeaders="true").load()
        names = ["key", "value", "headers"]
        names += ["partition"] if case in ("key and value", "binary", "a partition") else []
        found.append(sorted(map(repr, back.select(*names).collect())))
    assert found[1] == found[0]
    assert len(found[0]) == 20


WRONG_WRITES: dict[str, tuple[str, dict[str, str]]] = {
    "no value": ("CAST(id AS STRING) key", {}),
    "no topic": ("CAST(id AS STRING) value", {"topic": ""}),
    "a number": ("id AS value", {}),
    "a text for a partition": ("'x' AS value, '1' AS partition", {}),
    "a partition that is not there": ("'x' AS value, 99 AS partition", {}),
    "a null topic": ("'x' AS value, CAST(NULL AS STRING) AS topic", {"topic": ""}),
    "kafka.key.serializer": ("'x' AS value", {"kafka.key.serializer": "x"}),
    "kafka.value.serializer": ("'x' AS value", {"kafka.value.serializer": "x"}),
    "acks": ("'x' AS value", {"kafka.acks": "7"}),
}


@pytest.mark.parametrize("case", WRONG_WRITES)
def test_both_refuse_to_write(spark: Any, servers: str, case: str):
    columns, options = WRONG_WRITES[case]
    told = {}
    for kind in FORMATS:
        given = {"kafka.bootstrap.servers": servers, "topic": new_topic(servers, 2)}
        given |= {"kafka.max.block.ms": "3000", "kafka.delivery.timeout.ms": "40000", **options}
        given = {name: value for name, value in given.items() if value}
        rows = spark.range(3).selectExpr(*columns.split(", "))
        write = rows.write.format(kind).options(**given).mode("append")
        told[kind] = outcome(write.save)
    assert told == {"kafka": "fails", "fencepost": "fails"}


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.acks": "1"},
        {"kafka.acks": "0"},
        {"kafka.retries": "0"},
        {"kafka.max.in.flight.requests.per.connection": "10"},
        {"kafka.compression.type": "gzip", "kafka.compression.gzip.level": "9"},
        {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "1"},
        {"kafka.compression.type": "lz4", "kafka.linger.ms": "50", "kafka.batch.size": "100"},
        {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
        {"kafka.partitioner.ignore.keys": "true", "kafka.buffer.memory": "33554432"},
        {"kafka.metadata.max.idle.ms": "10000", "kafka.max.block.ms": "20000"},
    ],
    ids=lambda options: ", ".join(options),
)
def test_writes_with_properties_of_the_producer(spark: Any, servers: str, options: dict[str, str]):
    for kind in FORMATS:
        topic = new_topic(servers, 2)
        rows = (
            spark.range(40).selectExpr("'one key' AS key", "CAST(id AS STRING) value").coalesce(1)
        )
        write = rows.write.format(kind).option("kafka.bootstrap.servers", servers)
        write.option("topic", topic).options(**options).mode("append").save()
        back = reading(spark, "kafka", servers, subscribe=topic).load()
        counts = {
            row.partition: row["count"] for row in back.groupBy("partition").count().collect()
        }
        assert sum(counts.values()) == 40
        # Of Kafka's own only that keys do not matter: it skips turns where batches begin
        # (KAFKA-9965).
        if "kafka.partitioner.class" in options and kind == "fencepost":
            assert counts == {0: 20, 1: 20}
