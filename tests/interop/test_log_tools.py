"""`fencepost log` on directories of Apache Kafka, and Apache Kafka's dump tool on the same files.

Each file is dumped by both tools, what they print is parsed, and the numbers must be the same: of
batches, records, index entries, snapshot entries and decoded records of Kafka's own logs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.cli.main import main
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.spark.audit.auditing import Source
from fencepost.testing import Cluster

from ..spark.audit.world import audit
from ..waiting import DEADLINE_S, eventually
from . import apache
from .reading import read_to_end

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

QUICK_CLEANER = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "150",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200",
}
GAP = re.compile(r"\d+ gaps of \d+ offsets")


# ---- a directory with everything


@pytest.fixture(scope="module")
def kafka_dir(kafka_jars, tmp_path_factory) -> Path:
    """The data directory of a broker that lived twice, with transactions and compaction."""
    place = tmp_path_factory.mktemp("kafka")
    data_dir = place / "data"
    for life in range(2):
        with apache.apache_broker(place, **QUICK_CLEANER) as kafka:
            if life == 0:
                create_topics(kafka.bootstrap_servers)
            write_transactions(kafka.bootstrap_servers)
            write_compacted(kafka.bootstrap_servers, f"life {life}", data_dir)
            read_in_group(kafka.bootstrap_servers)
    return data_dir


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    small = {"segment.bytes": "1048576", "index.interval.bytes": "200"}
    made = admin.create_topics(
        [
            NewTopic("transactions", 1, 1, config=small),
            NewTopic("compacted", 1, 1, config=COMPACTED),
        ]
    )
    for future in made.values():
        future.result()


def write_transactions(servers: str) -> None:
    """Producers in turns, and two at once: committed, aborted, one after the other."""
    producers = []
    for name in ("one", "two"):
        producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        producer.init_transactions(DEADLINE_S)
        producers.append(producer)
    for turn in range(4):
        for producer in producers:
            producer.begin_transaction()
            for number in range(20):
                producer.produce("transactions", key=b"%d" % number, value=b"v" * 300)
            producer.flush(DEADLINE_S)
        for at, producer in enumerate(producers):
            if (turn + at) % 2:
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)
    plain = Producer({"bootstrap.servers": servers, "compression.type": "zstd"})
    for number in range(50):
        plain.produce("transactions", value=b"%d" % number * 40, headers=[("h", b"x")])
    plain.flush(DEADLINE_S)


def write_compacted(servers: str, text: str, data_dir: Path) -> None:
    """The same few keys again and again, until a cleaner has been at work."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": "lz4"})
    cleaned = data_dir / "cleaner-offset-checkpoint"

    def is_compacted() -> bool:
        for number in range(40):
            producer.produce("compacted", key=b"%d" % (number % 7), value=text.encode())
        producer.flush(DEADLINE_S)
        time.sleep(0.2)  # so that there is little to dump in the end
        return cleaned.exists() and "compacted 0" in cleaned.read_text()

    eventually(is_compacted, "Kafka has compacted something")


def read_in_group(servers: str) -> None:
    """Committed records only, so that the group has an offset to commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["transactions"])
    try:

        def is_read() -> bool:
            message = consumer.poll(1)
            return message is not None and message.error() is None

        eventually(is_read, "a record")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


# ---- both tools


def ours(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """Lines of `fencepost log dump --json`, without the heading."""
    code = main(["log", "dump", "--json", *words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return [json.loads(line) for line in captured.out.splitlines()][1:]


def theirs(*words: str) -> list[str]:
    """Lines of Kafka's dump tool."""
    return apache.run_tool("dump-log", *words).lines


def numbers(line: str, *names: str) -> tuple[int | str, ...]:
    """The values behind `name: ` in a line."""
    found = []
    for name in names:
        match = re.search(rf"(?:^|\s){re.escape(name)}: (\S+)", line)
        assert match is not None, (name, line)
        text = match[1]
        found.append(int(text) if re.fullmatch(r"-?\d+", text) else text)
    return tuple(found)


def their_batches(lines: list[str]) -> list[tuple[Any, ...]]:
    names = (
        "position", "baseOffset", "lastOffset", "count", "baseSequence", "lastSequence",
        "producerId", "producerEpoch", "partitionLeaderEpoch", "size", "magic", "compresscodec",
        "crc", "isTransactional", "isControl",
    )  # fmt: skip
    found = []
    for line in lines:
        if line.startswith("baseOffset:"):
            (timestamp,) = numbers(line, "CreateTime")
            found.append((*numbers(line, *names), timestamp))
            assert "isvalid: true" in line
    return found


def our_batches(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = (
        "position", "base_offset", "last_offset", "records_count", "base_sequence",
        "last_sequence", "producer_id", "producer_epoch", "partition_leader_epoch", "size_bytes",
        "magic", "compression", "crc",
    )  # fmt: skip
    return [
        (
            *(one[name] for name in names),
            str(one["is_transactional"]).lower(),
            str(one["is_control"]).lower(),
            one["max_timestamp_ms"],
        )
        for one in found
        if one["type"] == "batch" and one["is_crc_right"]
    ]


def segments(data_dir: Path, topic: str) -> Iterator[str]:
    """The segments of all partitions of a topic that have anything in them."""
    found = [str(path) for path in sorted(data_dir.glob(f"{topic}-*/*.log")) if path.stat().st_size]
    assert found, topic
    yield from found


@pytest.mark.parametrize(
    "topic",
    [
        "transactions", "compacted", "__consumer_offsets", "__transaction_state",
        "__cluster_metadata",
    ],
)  # fmt: skip
def test_batches(kafka_dir, capsys, topic):
    for path in segments(kafka_dir, topic):
        batches = our_batches(ours(capsys, path))
        assert batches == their_batches(theirs("--files", path))
        assert batches


@pytest.mark.parametrize("topic", ["transactions", "compacted"])
def test_records(kafka_dir, capsys, topic):
    for path in segments(kafka_dir, topic):
        found = ours(capsys, "--records", path)
        told = [
            (one["offset"], one["timestamp_ms"], one["key"] or "", one["value"])
            for one in found
            if one["type"] == "record"
        ]
        lines = theirs("--deep-iteration", "--print-data-log", "--files", path)
        printed = [line for line in lines if " payload: " in line and "endTxnMarker" not in line]
        assert told == [
            (
                *numbers(line, "offset", "CreateTime"),
                match[1] if (match := re.search(r" key: (.*) payload: ", line)) else "",
                line.partition(" payload: ")[2],
            )
            for line in printed
        ]
        markers = [
            (one["offset"], one["control_type"], one["value"]["coordinator_epoch"])
            for one in found
            if one["type"] == "control"
        ]
        assert markers == [
            numbers(line, "offset", "endTxnMarker", "coordinatorEpoch")
            for line in lines
            if "endTxnMarker: " in line
        ]
        assert bool(markers) == (topic == "transactions")


def index_files(place: Path, kind: str) -> list[str]:
    found = sorted(map(str, place.glob(f"*.{kind}")))
    assert found, kind
    return found


def test_indexes(kafka_dir, capsys):
    place = kafka_dir / "transactions-0"
    for path in index_files(place, "index"):
        entries = [(one["offset"], one["batch_position"]) for one in ours(capsys, path)]
        assert entries == entries_of(path, "offset", "position")
        assert len(entries) > 5
    for path in index_files(place, "timeindex"):
        entries = [(one["timestamp_ms"], one["offset"]) for one in ours(capsys, path)]
        assert entries == entries_of(path, "timestamp", "offset")
        assert len(entries) > 5
    for path in index_files(place, "txnindex"):
        names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        entries = [tuple(one[name] for name in names) for one in ours(capsys, path)]
        assert entries == entries_of(
            path, "producerId", "firstOffset", "lastOffset", "lastStableOffset"
        )
        assert len(entries) == 8


def entries_of(path: str, *names: str) -> list[tuple[int | str, ...]]:
    """What Kafka's tool prints of an index's entries."""
    lines = theirs("--files", path)
    return [numbers(line, *names) for line in lines if f"{names[0]}: " in line]


def test_producer_snapshots(kafka_dir, capsys):
    names = (
        "producer_id", "producer_epoch", "coordinator_epoch", "timestamp_ms", "last_sequence",
        "last_offset", "offset_delta",
    )  # fmt: skip
    paths = sorted((kafka_dir / "transactions-0").glob("*.snapshot"))
    assert paths
    for path in map(str, paths):
        head, *entries = ours(capsys, path)
        assert head["content"]["entries_count"] == len(entries) == 2
        assert [tuple(one[name] for name in names) for one in entries] == entries_of(
            path, "producerId", "producerEpoch", "coordinatorEpoch", "lastTimestamp",
            "lastSequence", "lastOffset", "offsetDelta",
        )  # fmt: skip
        assert all(one["current_txn_first_offset"] == -1 for one in entries)


# ---- decoded records


def same_names(value: Any) -> Any:
    """JSON with its keys in one form, without what Kafka's tool decodes and ours leaves bytes."""
    if isinstance(value, dict):
        return {
            key.lower().replace("_", ""): same_names(one)
            for key, one in value.items()
            if key not in ("subscription", "assignment")
        }
    if isinstance(value, list):
        return [same_names(one) for one in value]
    return value


STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)
"""Of transactions, by their numbers in records."""


def is_part(small: Any, large: Any) -> bool:
    """Whether all of `small` is in `large`: Kafka's tool leaves out tags at their defaults."""
    if isinstance(small, dict):
        return all(key in large and is_part(one, large[key]) for key, one in small.items())
    if isinstance(small, list):
        return len(small) == len(large) and all(map(is_part, small, large))
    return bool(small == large)


@pytest.mark.parametrize(
    ("topic", "decoder"),
    [
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
    ],
)
def test_records_of_coordinators(kafka_dir, capsys, topic, decoder):
    compared = 0
    for path in segments(kafka_dir, topic):
        found = [one for one in ours(capsys, "--records", path) if one["type"] == "record"]
        printed = [line for line in theirs(decoder, "--files", path) if " payload: " in line]
        assert len(found) == len(printed)
        for one, line in zip(found, printed, strict=True):
            key, value = line.partition(" key: ")[2].split(" payload: ")
            assert one["offset"] == numbers(line, "offset")[0]
            told = same_names(one)
            wanted = same_names(json.loads(key))
            assert is_part(wanted["data"], told["key"]["body"])
            if value == "<DELETE>":
                assert one["value"] is None
                continue
            wanted = same_names(json.loads(value))
            if "transactionstatus" in wanted["data"]:  # a name since 4.4
                state = STATES.index(wanted["data"]["transactionstatus"])
                wanted["data"]["transactionstatus"] = state
            assert int(wanted["version"]) == one["value"]["version"]
            assert is_part(wanted["data"], told["value"]["body"]), (wanted, told)
            compared += 1
    assert compared > 3


def test_records_of_the_metadata_log_and_its_snapshots(kafka_dir, capsys):
    snapshots = sorted(map(str, kafka_dir.glob("__cluster_metadata-0/*.checkpoint")))
    assert snapshots
    for path in [*segments(kafka_dir, "__cluster_metadata"), *snapshots]:
        found = ours(capsys, "--records", path)
        records = [one for one in found if one["type"] == "record"]
        lines = theirs("--cluster-metadata-decoder", "--files", path)
        assert our_batches(found) == their_batches(lines)
        printed = [line.partition(" payload: ")[2] for line in lines if " payload: {" in line]
        assert len(records) == len(printed) > 5
        for one, wanted in zip(records, map(json.loads, printed), strict=True):
            name = one["value"]["message"].lower()
            assert name == wanted["type"].lower().replace("_", "")
            assert one["value"]["version"] == wanted["version"]
            data = same_names(one["value"]["body"])
            assert is_part(same_names(wanted["data"]), data), (wanted, one)


# ---- verification


def verified(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["log", "verify", "--json", *words])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()]


def test_what_kafka_wrote_is_sound(kafka_dir, capsys):
    code, (*found, summary) = verified(capsys, "--deep", str(kafka_dir))
    assert code == 0, found
    assert summary["errors"] == summary["warnings"] == 0
    assert summary["batches"] > 100
    for one in found:  # what compaction has left, and what it had not deleted yet
        assert one["check"] == "leftover" or GAP.match(one["text"]), one
    assert any(GAP.match(one["text"]) for one in found)
    epochs = (kafka_dir / "transactions-0" / "leader-epoch-checkpoint").read_text()
    assert int(epochs.split()[1]) > 1


def test_a_kafka_that_runs(kafka_jars, tmp_path, capsys):
    with apache.apache_broker(tmp_path, **QUICK_CLEANER) as kafka:
        create_topics(kafka.bootstrap_servers)
        write_transactions(kafka.bootstrap_servers)
        code = main(["log", "verify", "--json", str(kafka.data_dir)])
        captured = capsys.readouterr()
        assert code == 0, captured.out
        assert f"process {kafka.process.pid} is using" in captured.err


def test_our_reading_of_kafkas_transactions(kafka_dir, tmp_path, capsys):
    """A log of ours on Kafka's files tells the same aborted transactions."""
    path = str(next((kafka_dir / "transactions-0").glob("*.txnindex")))
    wanted = [
        (one["producer_id"], one["first_offset"], one["last_offset"]) for one in ours(capsys, path)
    ]
    copy = tmp_path / "copy"
    shutil.copytree(kafka_dir, copy)
    for is_clean in (True, False):
        if not is_clean:
            (copy / ".kafka_cleanshutdown").unlink(missing_ok=True)
            (copy / "recovery-point-offset-checkpoint").unlink()
            for index in (copy / "transactions-0").glob("*.txnindex"):
                index.unlink()
        log_dir = LogDir.open(OsDisk(), str(copy))
        log_dir.open_all(lambda topic: LogConfig.from_props({}), wall_ms=int(time.time() * 1000))
        log = log_dir.get("transactions", 0)
        assert log is not None
        end = log.end_offset
        assert log.last_stable_offset(end) == end
        found = log.aborted_transactions(0, end)
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in found] == wanted
        log_dir.close(broker_epoch=1)
        assert verified(capsys, str(copy))[0] == 0


def test_what_we_wrote_is_the_same_to_both_tools(kafka_jars, tmp_path, capsys):
    place = tmp_path / "data"
    for _ in range(2):  # each life leads in an epoch of its own
        with Cluster(faults=False, data_dir=place) as cluster:
            producer = Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "compression.type": "gzip",
                    "enable.idempotence": True,
                }
            )
            for number in range(1000):
                producer.produce("ours", key=b"%d" % number, value=os.urandom(100))
                if number % 20 == 0:
                    producer.flush(DEADLINE_S)
            producer.flush(DEADLINE_S)
            assert cluster.stop() == 0
    code, lines = verified(capsys, "--deep", str(place))
    assert code == 0, lines
    for topic in ("ours", "__cluster_metadata"):
        for path in segments(place, topic):
            batches = our_batches(ours(capsys, path))
            assert batches == their_batches(theirs("--files", path))
    (segment,) = segments(place, "ours")
    assert len({one["partition_leader_epoch"] for one in ours(capsys, segment)}) == 2
    base = segment.removesuffix(".log")
    entries = [(one["offset"], one["batch_position"]) for one in ours(capsys, f"{base}.index")]
    assert entries == entries_of(f"{base}.index", "offset", "position")
    assert len(entries) > 20
    times = [(one["timestamp_ms"], one["offset"]) for one in ours(capsys, f"{base}.timeindex")]
    assert times == entries_of(f"{base}.timeindex", "timestamp", "offset")
    snapshot = max(map(str, place.glob("ours-0/*.snapshot")))
    _, *producers = ours(capsys, snapshot)
    names = ("producer_id", "last_sequence", "last_offset", "offset_delta")
    assert [tuple(one[name] for name in names) for one in producers] == entries_of(
        snapshot, "producerId", "lastSequence", "lastOffset", "offsetDelta"
    )
    assert len(producers) == 2


def values_in(servers: str, isolation: str) -> list[bytes]:
    """All values of the topic that a consumer gets to see."""
    return [message.value() for message in read_to_end(servers, "transactions", isolation)]


def test_our_broker_serves_kafkas_transactions(kafka_jars, tmp_path):
    with apache.apache_broker(tmp_path, **QUICK_CLEANER) as kafka:
        create_topics(kafka.bootstrap_servers)
        write_transactions(kafka.bootstrap_servers)
        everything = values_in(kafka.bootstrap_servers, "read_uncommitted")
        committed = values_in(kafka.bootstrap_servers, "read_committed")
    assert len(everything) > len(committed) > 50
    with Cluster(faults=False, data_dir=tmp_path / "data") as ours_now:
        assert values_in(ours_now.bootstrap_servers, "read_uncommitted") == everything
        assert values_in(ours_now.bootstrap_servers, "read_committed") == committed


# ---- audits


def test_an_audit_of_what_kafka_wrote(kafka_dir, tmp_path):
    outcome = audit(kafka_dir, is_deep=True)
    assert outcome.is_clean, outcome.findings
    assert {"transactions", "compacted", "__consumer_offsets"} <= {
        where.topic for where in outcome.reports
    }
    parts = audit(kafka_dir, split_bytes=4096)
    assert parts.findings == outcome.findings
    shutil.copytree(kafka_dir, tmp_path / "copy")
    both = audit(kafka_dir, Source(str(tmp_path / "copy"), 2))
    assert both.is_clean
    assert any(one.topic == "transactions" for one in both.ranges)
    assert all(one.is_equal for one in both.ranges)


def test_an_audit_of_a_kafka_that_runs(kafka_jars, tmp_path):
    with apache.apache_broker(tmp_path, **QUICK_CLEANER) as kafka:
        create_topics(kafka.bootstrap_servers)
        write_transactions(kafka.bootstrap_servers)
        writing = threading.Thread(
            target=write_compacted, args=(kafka.bootstrap_servers, "live", kafka.data_dir)
        )
        writing.start()
        try:
            outcomes = [audit(kafka.data_dir, pause=time.sleep)]
            while writing.is_alive():
                outcomes.append(audit(kafka.data_dir, pause=time.sleep))
        finally:
            writing.join()
        outcomes.append(audit(kafka.data_dir, pause=time.sleep))
    for outcome in outcomes:
        assert outcome.is_clean, outcome.findings
