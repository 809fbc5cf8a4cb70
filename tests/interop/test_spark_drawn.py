"""Both connectors at drawn values: what a program asks for is read, written or refused alike.

`test_spark_both` compares where people usually are; here options are drawn, most of them at the
edges of what there is: offsets and partitions that are not there, times between records, sizes one
byte around a limit, patterns that are found in part of a name, addresses in every form. Each case
runs under Spark's own connector and under ours, on one broker, Apache Kafka's or ours. Rows must be
equal, and what one refuses the other must refuse. What may differ is in docs/SPARK.md, and said
here where it is passed over.

A case that differs is printed with its seed; FENCEPOST_COMPARE_SEED=S draws the same again, and
FENCEPOST_SPARK_DRAWS says how many cases there are of each kind.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.record_size import size_bound
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer

from ..waiting import eventually
from . import apache
from .conftest import SPARK_KAFKA, jars_or_skip, one_node

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

FORMATS = ("kafka", "fencepost")
SEED = os.environ.get("FENCEPOST_COMPARE_SEED") or str(random.SystemRandom().randrange(1 << 32))
DRAWS = int(os.environ.get("FENCEPOST_SPARK_DRAWS", "25"))
BASE_MS = 1_700_000_000_000
QUICK = {
    # Spark's connector waits for records that will not come.
    "kafkaConsumer.pollTimeoutMs": "4000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
    "kafka.max.block.ms": "20000",
}
BROKER = {
    "log.retention.ms": "-1",
    "message.max.bytes": "2000000",
    "log.cleaner.backoff.ms": "200",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@pytest.fixture(scope="module", params=["apache", "fencepost"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    jars_or_skip(SPARK_KAFKA)
    if request.param == "apache":
        jars_or_skip(apache.KAFKA)
    with one_node(request.param, tmp_path_factory.mktemp(request.param), **BROKER) as address:
        yield address


@dataclass
class Differences:
    """Cases that did not come out alike."""

    found: list[str] = field(default_factory=list)
    succeeded: int = 0

    def compare(self, case: object, told: dict[str, Any]) -> None:
        kafka, ours = told["kafka"], told["fencepost"]
        self.succeeded += not is_refused(kafka)
        if is_refused(kafka) and is_refused(ours):
            return
        if kafka != ours:
            self.found.append(f"{case}\n  kafka:     {shown(kafka)}\n  fencepost: {shown(ours)}")

    def require_none(self) -> None:
        assert not self.found, f"seed {SEED}, {len(self.found)} cases:\n" + "\n".join(self.found)
        assert self.succeeded, "every case was refused: nothing was compared"


def is_refused(told: Any) -> bool:
    return isinstance(told, str)


def shown(told: Any) -> str:
    return told[:600] if is_refused(told) else repr(told)[:600]


def outcome(action: Callable[[], Any]) -> Any:
    """What it gives, or the text of its error."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


def drawing(what: str) -> random.Random:
    print(f"seed {SEED}, {what}")
    return random.Random(f"{SEED}-{what}")


def create(servers: str, partitions: int, name: str = "", **configs: str) -> str:
    name = name or f"drawn-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        admin = Admin(cluster)
        admin.create_topic(
            name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()}
        )
        admin.wait_for_topic(name)
    return name


# -- what there is to be read ------------------------------------------------------------------


@dataclass
class Topics:
    """Topics with everything that a log may have, and where their partitions begin and end."""

    names: dict[str, str]
    begins: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    times: list[int]

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [partition for partition in self.ends if partition.topic == topic]


@pytest.fixture(scope="module")
def topics(servers: str) -> Topics:
    """`mixed`: three partitions of records with nulls, headers and times in no order; the first has
    lost its beginning, the last is empty. `gaps`: transactions, every second of them aborted.
    `compacted`: what is left of 60 records of 5 keys. `one`: a partition with one record."""
    draw = random.Random(f"{SEED}-topics")
    names = {
        kind: create(servers, count) for kind, count in (("mixed", 3), ("gaps", 1), ("one", 1))
    }
    tight = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.001",
             "max.compaction.lag.ms": "300"}  # fmt: skip
    names["compacted"] = create(servers, 1, **{k.replace(".", "_"): v for k, v in tight.items()})
    times = sorted(BASE_MS + draw.randrange(5000) for _ in range(12))
    with Cluster(servers) as cluster:
        with Producer(cluster) as producer:
            for number in range(70):
                producer.send(
                    names["mixed"],
                    draw.choice([None, b"", b"%d" % number, b"x" * draw.randrange(3000)]),
                    draw.choice([None, b"", b"k%d" % number]),
                    partition=number % 2,
                    headers=drawn_headers(draw),
                    timestamp_ms=draw.choice(times),
                )
            producer.send(names["one"], b"only", partition=0, timestamp_ms=BASE_MS)
        Admin(cluster).delete_records({TopicPartition(names["mixed"], 0): draw.randrange(3, 20)})
        compact(cluster, names["compacted"])
    transactions(servers, names["gaps"])
    partitions = [
        TopicPartition(name, number)
        for kind, name in names.items()
        for number in range(3 if kind == "mixed" else 1)
    ]
    with Cluster(servers) as cluster:
        begins = {
            p: at.offset for p, at in list_offsets(cluster, dict.fromkeys(partitions, -2)).items()
        }
        ends = {
            p: at.offset
            for p, at in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).items()
        }
    return Topics(names, begins, ends, times)


def drawn_headers(draw: random.Random) -> list[tuple[str, bytes | None]]:
    names = ["h", "h", "", "ü", "long" * 20]
    return [
        (draw.choice(names), draw.choice([None, b"", b"v", b"\xff\x00"]))
        for _ in range(draw.choice([0, 0, 1, 2, 4]))
    ]


def compact(cluster: Cluster, topic: str) -> None:
    """Write keys over and over, and wait until the cleaner has taken some."""
    with Producer(cluster) as producer:
        for number in range(60):
            producer.send(topic, b"%d" % number, b"k%d" % (number % 5), partition=0)
        producer.flush()
        time.sleep(0.5)  # the segment is rolled by the next record
        producer.send(topic, b"last", b"last", partition=0)
    where = TopicPartition(topic, 0)

    def count() -> int:
        blobs = Fetcher(cluster).read_range(where, 0, 61)
        return sum(1 for blob in blobs for _ in blob.read_records(61))

    eventually(lambda: count() < 61, "the log is compacted")


def transactions(servers: str, topic: str) -> None:
    config = ClientConfig.from_props(
        {"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex}
    )
    with Cluster(config=config) as cluster, Producer(cluster) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for index in range(5):
                producer.send(topic, b"%d-%d" % (number, index), partition=0, timestamp_ms=BASE_MS)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


# -- reads -------------------------------------------------------------------------------------


def drawn_subscription(draw: random.Random, topics: Topics) -> tuple[dict[str, str], list[Any]]:
    """Options, and the partitions that they name as far as they exist."""
    kinds = draw.choice([["mixed"], ["mixed"], ["gaps"], ["compacted"], ["mixed", "one"], ["one"]])
    names = [topics.names[kind] for kind in kinds]
    partitions = [p for name in names for p in topics.partitions(name)]
    if draw.random() < 0.3:
        chosen = [p for p in partitions if draw.random() < 0.7] or partitions[:1]
        assign: dict[str, list[int]] = {}
        for partition in chosen:
            assign.setdefault(partition.topic, []).append(partition.partition)
        if draw.random() < 0.3:
            assign[names[0]] = [*assign.get(names[0], []), draw.choice([7, 99])]
        if draw.random() < 0.05:
            assign["no-such-topic"] = [0]
        return {"assign": json.dumps(assign)}, chosen
    if draw.random() < 0.1:
        names.append("no-such-topic")
    return {"subscribe": draw.choice([",", " , ", ",,"]).join(names)}, partitions


def by_partition(values: dict[TopicPartition, int]) -> str:
    nested: dict[str, dict[str, int]] = {}
    for partition, value in values.items():
        nested.setdefault(partition.topic, {})[str(partition.partition)] = value
    return json.dumps(nested)


def drawn_offsets(draw: random.Random, topics: Topics, chosen: list[Any], *, start: bool) -> str:
    def one(partition: TopicPartition) -> int:
        begin, end = topics.begins[partition], topics.ends[partition]
        usual = [draw.randint(begin, end), begin, end, -2 if start else -1]
        rare = [begin - 1, end + 1, 0, -1, -2, -3, end + 1000, 2**40]
        return draw.choice(usual) if draw.random() < 0.85 else draw.choice(rare)

    values = {partition: one(partition) for partition in chosen}
    if draw.random() < 0.08 and values:
        values.pop(draw.choice(list(values)))
    if draw.random() < 0.08 and chosen:
        values[TopicPartition(chosen[0].topic, 55)] = 0
    return by_partition(values)


def drawn_time(draw: random.Random, topics: Topics) -> int:
    exact = draw.choice(topics.times)
    return draw.choice([exact, exact - 1, exact + 1, BASE_MS, 0, 1, BASE_MS + 9_000, 2**53])


def drawn_bounds(draw: random.Random, topics: Topics, chosen: list[Any]) -> dict[str, str]:
    options: dict[str, str] = {}
    for side in ("starting", "ending"):
        start = side == "starting"
        kind = draw.choice(["none", "name", "offsets", "offsets", "time", "times"])
        if kind == "name":
            options[f"{side}Offsets"] = draw.choice(
                ["earliest" if start else "latest"] * 4 + ["latest", "Earliest", " earliest "]
            )
        elif kind == "offsets":
            options[f"{side}Offsets"] = drawn_offsets(draw, topics, chosen, start=start)
        elif kind == "time":
            options[f"{side}Timestamp"] = str(drawn_time(draw, topics))
        elif kind == "times":
            times = {partition: drawn_time(draw, topics) for partition in chosen}
            options[f"{side}OffsetsByTimestamp"] = by_partition(times)
    if draw.random() < 0.6:
        options["startingOffsetsByTimestampStrategy"] = draw.choice(
            ["latest", "latest", "LATEST", "error"]
        )
    return options


def drawn_limits(draw: random.Random) -> dict[str, str]:
    possible = {
        "failOnDataLoss": ["true", "false", "FALSE"],
        "minPartitions": ["1", "2", "5", "40", "100"],
        "maxRecordsPerPartition": ["1", "3", "20", "1000"],
        "kafka.isolation.level": ["read_committed", "read_uncommitted"],
        "kafka.fetch.max.bytes": ["0", "1", "100", "1048576"],
        "kafka.max.partition.fetch.bytes": ["0", "1", "200", "3000"],
        "kafka.max.poll.records": ["1", "7"],
        "kafka.fetch.min.bytes": ["0", "1", "100000"],
        "kafka.fetch.max.wait.ms": ["0", "10"],
        "kafka.check.crcs": ["true", "false"],
    }
    return {name: draw.choice(values) for name, values in possible.items() if draw.random() < 0.2}


def rows_of(spark: Any, kind: str, servers: str, options: dict[str, str]) -> Any:
    source = spark.read.format(kind).option("kafka.bootstrap.servers", servers)
    names = [*COLUMNS, *(["headers"] if options.get("includeHeaders") == "true" else [])]
    found = source.options(**QUICK).options(**options).load().select(*names).collect()
    return sorted(repr(tuple(row)) for row in found)


def test_reads(spark: Any, servers: str, topics: Topics):
    draw = drawing("reads")
    different = Differences()
    for number in range(2 * DRAWS):
        chosen, partitions = drawn_subscription(draw, topics)
        options = {**chosen, **drawn_bounds(draw, topics, partitions), **drawn_limits(draw)}
        options["includeHeaders"] = draw.choice(["true", "false"])
        told = {
            kind: outcome(lambda k=kind, o=options: rows_of(spark, k, servers, o))
            for kind in FORMATS
        }
        different.compare(f"{number}: {options}", told)
    different.require_none()


# -- patterns ----------------------------------------------------------------------------------


def drawn_pattern(draw: random.Random, names: list[str]) -> str:
    name = draw.choice(names)
    begin = draw.randrange(len(name))
    part = name[begin : begin + draw.randint(1, 8)]
    quoted = part.replace(".", r"\.")
    return draw.choice([
        part, quoted, f"^{quoted}", f"{quoted}$", f"^{quoted}$", f"^{name}$", f".*{part}",
        f"{part}.*", f"({part}|zzz)", f"[{part[0]}-z]{{2}}", f"(?i){part.upper()}", f"{part}?",
        r"[^a-z]$", r"\d", r"\d+$", r"^\w+$", r"\.", r"\bdrawn", "", " ", f" {part} ", "^$",
        f"{part}|^x", r"\Q" + part, r"(?i:B)-", "[", "(", "*", r"\p{Upper}", r"\p{Alpha}{4}\d",
    ])  # fmt: skip


def topics_found(spark: Any, kind: str, servers: str, pattern: str) -> list[str]:
    source = spark.read.format(kind).option("kafka.bootstrap.servers", servers).options(**QUICK)
    rows = source.option("subscribePattern", pattern).load().select("topic").distinct().collect()
    return sorted(row.topic for row in rows)


def test_patterns(spark: Any, servers: str):
    draw = drawing("patterns")
    mark = uuid.uuid4().hex[:4]
    names = [f"pat-{mark}-a", f"pat-{mark}-B", f"pat.{mark}.a9", f"x_pat-{mark}", f"{mark}"]
    for name in names:
        create(servers, 1, name)
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for name in names:
            producer.send(name, b"v", partition=0)
    different = Differences()
    for number in range(DRAWS):
        pattern = drawn_pattern(draw, names)
        told = {
            kind: outcome(lambda k=kind, p=pattern: topics_found(spark, k, servers, p))
            for kind in FORMATS
        }
        different.compare(f"{number}: {pattern!r}", told)
    different.require_none()


# -- addresses ---------------------------------------------------------------------------------


def drawn_address(draw: random.Random, servers: str) -> str:
    host, _, port = servers.rpartition(":")
    good = [servers, f"PLAINTEXT://{servers}", f"[{host}]:{port}", f"localhost:{port}",
            f"SASL_SSL://{servers}", f"://{servers}", f"{host}:0{port}"]  # fmt: skip
    bad = [
        f"{host}",
        f"{host}:",
        f"{host}:x",
        f"A://B://{servers}",
        f"{host}/x:{port}",
        f"{host}:70000",
    ]
    text = draw.choice(good if draw.random() < 0.75 else bad)
    if draw.random() < 0.4:
        text = draw.choice(
            [f"{text},127.0.0.1:1", f"127.0.0.1:1 , {text}", f"{text},", f" {text} "]
        )
    return text


def test_addresses(spark: Any, servers: str, topics: Topics):
    draw = drawing("addresses")
    different = Differences()

    def count(kind: str, address: str) -> int:
        source = spark.read.format(kind).option("kafka.bootstrap.servers", address).options(**QUICK)
        quick = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
        return source.options(**quick).option("subscribe", topics.names["one"]).load().count()

    for number in range(DRAWS // 2):
        address = drawn_address(draw, servers)
        told = {kind: outcome(lambda k=kind, a=address: count(k, a)) for kind in FORMATS}
        different.compare(f"{number}: {address!r}", told)
    different.require_none()


# -- writes ------------------------------------------------------------------------------------


def drawn_sizes(draw: random.Random, edges: list[int]) -> list[int]:
    """Sizes of values, some of which make a record of just as many bytes as may be."""
    sizes = [draw.randrange(200) for _ in range(draw.randint(0, 6))]
    for _ in range(draw.choice([1, 1, 2])):
        edge = draw.choice(edges)
        sizes.append(max(0, edge + draw.choice([-2, -1, 0, 1, 2, -edge // 2])))
    draw.shuffle(sizes)
    return sizes


def edges_of(most: dict[str, int]) -> list[int]:
    """Of values whose record or batch is as large as a limit: by Kafka's bound, and as written."""
    key = b"k0"
    found = []
    for limit in most.values():
        around = size_bound(key, b"x" * limit, []) - limit
        found += [limit - around, limit - around + 18, limit]
    return [size for size in found if 0 <= size < 1_500_000]


LATE_S = 10.0


def end_of_all(servers: str, topic: str, count: int) -> int:
    """Where the log of the topic's one partition ends: behind so many records, or where it ends
    `LATE_S` after the job. The `flush` of kafka-clients 3.9, with which Spark's connector is built,
    does not wait for the smaller batches that are made of one that the topic refuses for its size,
    as that of 4.4 does (`awaitAllDependents`)."""
    where = TopicPartition(topic, 0)
    deadline = time.monotonic() + LATE_S
    with Cluster(servers) as cluster:
        while True:
            end = list_offsets(cluster, {where: LATEST})[where].offset
            if end >= count or time.monotonic() > deadline:
                return end
            time.sleep(0.1)


LOST = "the connector's job ended well without all of its rows"


def written(spark: Any, kind: str, servers: str, sizes: list[int], case: dict[str, Any]) -> Any:
    topic = create(servers, 1, max_message_bytes=str(case["message.max"]))
    rows = [(f"k{n}".encode(), bytes(size)) for n, size in enumerate(sizes)]
    frame = spark.createDataFrame(rows, "key binary, value binary").coalesce(1)
    write = frame.write.format(kind).option("kafka.bootstrap.servers", servers)
    options = {"kafka.delivery.timeout.ms": "60000", **case["options"]}
    write.option("topic", topic).options(**options).mode("append").save()
    end = end_of_all(servers, topic, len(rows))
    if kind == "kafka":
        assert end == len(rows), LOST
    back = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    found = back.option("subscribe", topic).load().selectExpr("key", "length(value) size").collect()
    return end, sorted((bytes(row.key), row["size"]) for row in found)


def test_writes_of_every_size(spark: Any, servers: str):
    draw = drawing("writes")
    different = Differences()
    for number in range(DRAWS):
        options = {}
        limits = {"message.max": draw.choice([1_000, 20_000, 1_048_588, 1_048_588])}
        defaults = {"kafka.batch.size": 16_384, "kafka.max.request.size": 1_048_576}
        for name, values in {
            "kafka.batch.size": [0, 1, 500, 16_384, 100_000, 1_000_000],
            "kafka.max.request.size": [100, 5_000, 300_000, 1_200_000],
            # Of less than `batch.size` Kafka's producer makes no batch at all.
            "kafka.buffer.memory": [1_000_000, 1_200_000],
        }.items():
            if draw.random() < 0.4:
                limits[name] = draw.choice(values)
                options[name] = str(limits[name])
        if draw.random() < 0.3:
            options["kafka.compression.type"] = draw.choice(["lz4", "zstd", "gzip", "snappy"])
        sizes = drawn_sizes(draw, edges_of({**defaults, **limits}))
        case = {"message.max": limits["message.max"], "options": options}
        told = {
            kind: outcome(lambda k=kind, s=sizes, c=case: written(spark, k, servers, s, c))
            for kind in FORMATS
        }
        if LOST in told["kafka"]:  # ours may refuse them, or write them all
            all_rows = sorted((f"k{n}".encode(), size) for n, size in enumerate(sizes))
            told["kafka"] = (len(sizes), all_rows) if not is_refused(told["fencepost"]) else LOST
        different.compare(f"{number}: {case} {sizes}", told)
    different.require_none()


HEADERS = "array<struct<key:string,value:binary>>"


def test_writes_of_every_kind_of_value(spark: Any, servers: str):
    draw = drawing("values")
    different = Differences()
    for number in range(max(2, DRAWS // 4)):
        kinds = draw.choice([("string", "string"), ("binary", "binary"), ("string", "binary")])
        rows = []
        for index in range(draw.randint(1, 30)):
            pair = [draw.choice([None, "", f"{index}", "é" * draw.randrange(50)]) for _ in range(2)]
            cells = [
                text.encode() if text is not None and kind == "binary" else text
                for text, kind in zip(pair, kinds, strict=True)
            ]
            headers = draw.choice([None, [], drawn_headers(draw)])
            rows.append((*cells, headers, draw.choice([0, 1, None])))
        schema = f"key {kinds[0]}, value {kinds[1]}, headers {HEADERS}, partition int"
        frame = spark.createDataFrame(rows, schema).coalesce(1)

        def write(kind: str, frame: Any = frame) -> Any:
            topic = create(servers, 2)
            frame.write.format(kind).option("kafka.bootstrap.servers", servers).option(
                "topic", topic
            ).mode("append").save()
            back = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
            back = back.option("subscribe", topic).option("includeHeaders", "true").load()
            # Where rows without a key go is each connector's own.
            return sorted(repr(tuple(r)) for r in back.select("key", "value", "headers").collect())

        told = {kind: outcome(lambda k=kind: write(k)) for kind in FORMATS}
        different.compare(f"{number}: {rows}", told)
    different.require_none()


# -- streams -----------------------------------------------------------------------------------


@dataclass
class Step:
    """What happens to the topic before a run, and the options of the run."""

    records: int
    delete: dict[int, float]
    options: dict[str, str]


def drawn_steps(draw: random.Random) -> list[Step]:
    limits: dict[str, str] = {}
    if draw.random() < 0.5:
        limits["maxOffsetsPerTrigger"] = str(draw.choice([1, 7, 20, 1000]))
    if draw.random() < 0.2:
        limits["minOffsetsPerTrigger"] = str(draw.choice([1, 5]))
    if draw.random() < 0.3:
        limits["minPartitions"] = str(draw.choice([2, 5]))
    if draw.random() < 0.2:
        limits["maxRecordsPerPartition"] = str(draw.choice([3, 1000]))
    limits["startingOffsets"] = draw.choice(["earliest", "earliest", '{"T":{"0":3,"1":-2}}',
                                             '{"T":{"0":-1,"1":0}}', '{"T":{"0":9999,"1":0}}',
                                             '{"T":{"0":1}}', "latest"])  # fmt: skip
    if draw.random() < 0.2:
        limits["startingTimestamp"] = str(BASE_MS + draw.choice([0, 5, 10_000]))
        limits["startingOffsetsByTimestampStrategy"] = draw.choice(["latest", "error"])
    limits["failOnDataLoss"] = draw.choice(["true", "false"])
    steps = []
    for _ in range(draw.choice([2, 3])):
        delete = {p: draw.random() for p in (0, 1) if draw.random() < 0.3}
        steps.append(Step(draw.choice([0, 3, 30]), delete, limits))
    return steps


def test_streams(spark: Any, servers: str, tmp_path: Path):
    draw = drawing("streams")
    different = Differences()
    for number in range(max(3, DRAWS // 4)):
        steps = drawn_steps(draw)
        topic = create(servers, 2)
        told: dict[str, list[Any]] = {kind: [] for kind in FORMATS}
        for step in steps:
            change(servers, topic, step)
            for kind in FORMATS:
                folder = tmp_path / f"{number}-{kind}"
                told[kind].append(
                    outcome(
                        lambda k=kind, t=topic, f=folder, s=step: streamed(
                            spark, k, servers, t, f, s
                        )
                    )
                )
        for index, pair in enumerate(zip(*(told[kind] for kind in FORMATS), strict=True)):
            different.compare(f"{number}.{index}: {steps}", dict(zip(FORMATS, pair, strict=True)))
    different.require_none()


def change(servers: str, topic: str, step: Step) -> None:
    with Cluster(servers) as cluster:
        with Producer(cluster) as producer:
            for number in range(step.records):
                producer.send(topic, b"x", partition=number % 2, timestamp_ms=BASE_MS + number)
        where = [TopicPartition(topic, number) for number in step.delete]
        ends = list_offsets(cluster, dict.fromkeys(where, LATEST))
        cut = {p: int(ends[p].offset * step.delete[p.partition]) for p in where}
        cut = {p: at for p, at in cut.items() if at > 0}
        if cut:
            Admin(cluster).delete_records(cut)


def streamed(spark: Any, kind: str, servers: str, topic: str, folder: Path, step: Step) -> Any:
    """Rows of each batch, and all rows that the query has written so far."""
    options = {name: value.replace('"T"', f'"{topic}"') for name, value in step.options.items()}
    source = spark.readStream.format(kind).options(**QUICK).options(**options)
    query = (
        source.option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
        .select("partition", "offset")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    if not list((folder / "out").glob("*.parquet")):
        return sizes, []
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sizes, sorted((row.partition, row.offset) for row in rows)
