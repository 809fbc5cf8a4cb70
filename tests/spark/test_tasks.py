"""Tasks over fake brokers: rows in Spark's types, and ranges that are not what was planned."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fencepost.arrow import connections, ranges
from fencepost.arrow.batch_planner import plan_batch
from fencepost.arrow.connections import CLUSTERS_MAX, cluster_for, drop
from fencepost.arrow.errors import BoundsError, DamagedRecordsError, DataLossError, TimestampError
from fencepost.arrow.narrowing import Narrowing
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.survey import Survey
from fencepost.batch.columns import SCHEMA as DECODED
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import read_header
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ConnectionFailed
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_queue import Identity
from fencepost.spark.columns import COLUMNS, default_schema
from fencepost.spark.errors import ClusterError, Condition, SinkError, condition_of, spark_error
from fencepost.spark.grants import Mandate, TaskResult
from fencepost.spark.options import sink_options
from fencepost.spark.projection import Projection
from fencepost.spark.reader import BatchReader, RangePartition
from fencepost.spark.stream import StreamReader
from fencepost.spark.tasks import read_range
from fencepost.spark.writer import (
    BatchWriter,
    StreamWriter,
    WrittenMessage,
    check_schema,
    write_rows,
)
from fencepost.wire.errors import ErrorCode

from ..client.fake_cluster import FakeCluster
from ..client.records import batch
from ..client.test_producer import logged
from .schemas import schema

P0 = TopicPartition("t", 0)
OFFSETS = schema("offset bigint")
EVERYTHING = Projection(default_schema(include_headers=True))


def fill(fake: FakeCluster, count: int, partition: int = 0) -> None:
    for _ in range(count):
        fake.partition("t", partition).append(batch(b"x"))


def offsets(options: SourceOptions, wanted: OffsetRange) -> list[int]:
    return [
        value.as_py()
        for rows in read_range(options, Projection(OFFSETS), wanted)
        for value in rows.column(0)
    ]


def test_what_is_decoded_has_sparks_columns():
    assert set(DECODED.names) == set(COLUMNS)


def test_messages_of_before_kafka_0_11_are_read(fake: FakeCluster, options: Any):
    rows = [Record(at, 1000 + at, 0, None, b"x") for at in range(30)]
    log = fake.partition("t")
    for at in range(0, 30, 10):
        codec = ("gzip", "none", "lz4")[at // 10]
        log.batches.append(
            bytes(build_message_set(rows[at : at + 10], magic=at // 20, compression=codec))
        )
    fill(fake, 3)
    planned = OffsetRange(P0, 5, 32)
    assert offsets(options(), planned) == list(range(5, 32))


@pytest.mark.parametrize("timestamp_ms", [2**62, -(2**62), 1_700_000_000_000_000_000])
def test_a_timestamp_that_microseconds_cannot_hold(
    fake: FakeCluster, options: Any, timestamp_ms: int
):
    fill(fake, 2)
    items = [(b"k", b"v"), (b"k", b"w")]
    fake.partition("t").append(bytes(build_batch(items, timestamp_ms=timestamp_ms)))
    with pytest.raises(TimestampError, match="at offset 2 of t-0") as raised:
        list(read_range(options(), EVERYTHING, OffsetRange(P0, 0, 4)))
    assert condition_of(spark_error(raised.value)) == Condition(
        "KAFKA_MALFORMED_RECORD_TIMESTAMP",
        {"topic": "t", "partition": "0", "offset": "2", "timestamp": str(timestamp_ms)},
    )
    assert spark_error(raised.value).getSqlState() == "22008"
    with pytest.raises(TimestampError, match="at offset 3 of t-0"):
        list(read_range(options(), EVERYTHING, OffsetRange(P0, 3, 4)))
    assert offsets(options(), OffsetRange(P0, 0, 2)) == [0, 1]


def test_damaged_records_are_an_error_that_says_where(fake: FakeCluster, options: Any):
    fill(fake, 2)
    damaged = bytearray(batch(b"x"))
    damaged[-1] ^= 1
    fake.partition("t").append(bytes(damaged))
    with pytest.raises(DamagedRecordsError, match="t-0: batch at offset 2") as raised:
        list(read_range(options(), EVERYTHING, OffsetRange(P0, 0, 3)))
    assert condition_of(spark_error(raised.value)) == Condition(
        "FENCEPOST_DAMAGED_RECORDS",
        {"topic": "t", "partition": "0", "offset": "2", "error": "CORRUPT_MESSAGE"},
    )


def test_rows_have_sparks_columns_and_types(fake: FakeCluster, options: Any):
    headers = [("h", b"1"), ("n", None)]
    items = [(b"k", b"v", headers), (None, None)]
    fake.partition("t").append(bytes(build_batch(items, timestamp_ms=1500)))
    (rows,) = read_range(options(), EVERYTHING, OffsetRange(P0, 0, 2))
    assert rows.schema.equals(EVERYTHING.arrow_schema)
    first, second = rows.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (
        b"k",
        b"v",
        "t",
        0,
    )
    assert (first["offset"], first["timestampType"]) == (0, 0)
    assert first["timestamp"].timestamp() == 1.5
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)


def test_a_schema_chooses_and_casts_columns(fake: FakeCluster, options: Any):
    fake.partition("t").append(batch(b"caf\xc3\xa9", b"\xff"))
    chosen = schema("Value string, offset bigint")
    (rows,) = read_range(options(), Projection(chosen), OffsetRange(P0, 0, 2))
    assert rows.schema.names == ["Value", "offset"]
    assert rows.column(0)[0].as_py() == "café"
    assert rows.column(0).cast(pa.binary(), safe=False)[1].as_py() == b"\xff"  # as CAST does


@pytest.mark.parametrize(
    ("ddl", "complaint"),
    [
        ("nope string", "no column 'nope' to read; there are key, value"),
        ("offset string", "'offset' can be read as bigint, not as string"),
        ("value int", "'value' can be read as binary or string, not as int"),
        ("headers string", "'headers' can be read as array<struct<key:string,value:binary>>"),
    ],
)
def test_schemas_of_other_columns_are_refused(ddl: str, complaint: str):
    with pytest.raises(ValueError, match=complaint.replace("<", r"\<")):
        Projection(schema(ddl))


def test_headers_may_be_told_not_to_be_null():
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

    parts = [StructField("key", StringType(), False), StructField("value", BinaryType(), False)]
    strict = ArrayType(StructType(parts), containsNull=False)
    assert Projection(StructType([StructField("headers", strict)])).columns == ("headers",)


def test_ranges_are_exact(fake: FakeCluster, options: Any):
    for _ in range(4):
        fake.partition("t").append(batch(b"a", b"b", b"c"))
    assert offsets(options(), OffsetRange(P0, 4, 8)) == [4, 5, 6, 7]
    assert offsets(options(), OffsetRange(P0, 4, 4)) == []


def test_a_range_that_was_rewritten_after_planning_is_reported(
    fake: FakeCluster, options: Any, caplog: pytest.LogCaptureFixture
):
    fill(fake, 10)
    wanted = OffsetRange(P0, 2, 10, leader_epoch=0)
    assert offsets(options(), wanted) == list(range(2, 10))
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 10)
    with pytest.raises(DataLossError, match=r"t-0: rewritten, offsets 6 to 10.*leader epoch 1"):
        offsets(options(), wanted)
    with caplog.at_level(logging.WARNING):
        assert offsets(options(failOnDataLoss="false"), wanted) == list(range(2, 10))
    assert "rewritten" in caplog.text


def test_later_epochs_beyond_the_range_are_fine(fake: FakeCluster, options: Any):
    fill(fake, 10)
    fake.partition("t").elect(2)
    fill(fake, 10)
    assert offsets(options(), OffsetRange(P0, 2, 10, leader_epoch=0)) == list(range(2, 10))


def test_retention_that_overtakes_a_read_is_noticed(fake: FakeCluster, options: Any):
    # A broker that answers from where its log begins now, instead of refusing the offset.
    fill(fake, 10)
    answer = fake._fetch

    def overtaken(node: int, name: str | None, wanted: Any) -> Any:
        if wanted.fetch_offset == 5:
            fake.partition("t").delete_before(7)
            wanted.fetch_offset = 7
        return answer(node, name, wanted)

    fake._fetch = overtaken  # type: ignore[method-assign]
    chosen = options(**{"kafka.max.partition.fetch.bytes": "1"})
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 5 to 7"):
        offsets(chosen, OffsetRange(P0, 0, 10))


def test_a_leader_that_is_behind_for_a_moment_loses_nothing(fake: FakeCluster, options: Any):
    fill(fake, 10)
    answer = fake._fetch
    refused_with = [1, 1]

    def behind(node: int, name: str | None, wanted: Any) -> Any:
        found = answer(node, name, wanted)
        if refused_with:
            found.error_code = refused_with.pop()
        return found

    fake._fetch = behind  # type: ignore[method-assign]
    assert offsets(options(), OffsetRange(P0, 4, 8)) == [4, 5, 6, 7]


def test_a_second_try_still_says_which_epoch_was_read_last(fake: FakeCluster, options: Any):
    """By that a leader that was elected meanwhile can tell that it has another history."""
    log = fake.partition("t")
    log.elect(1)
    fill(fake, 3)
    answer = fake._fetch
    asked: list[tuple[int, int]] = []

    def refusing_once(node: int, name: str | None, wanted: Any) -> Any:
        asked.append((wanted.fetch_offset, wanted.last_fetched_epoch))
        found = answer(node, name, wanted)
        if len(asked) == 1:
            found.records = log.batches[0]
        if len(asked) == 2:
            found.error_code, found.records = ErrorCode.OFFSET_OUT_OF_RANGE, b""
        return found

    fake._fetch = refusing_once  # type: ignore[method-assign]
    assert offsets(options(), OffsetRange(P0, 0, 3)) == [0, 1, 2]
    assert asked == [(0, -1), (1, 1), (1, 1)]


def test_whatever_spark_calls_tells_the_clients_errors_as_pysparks(
    options: Any, monkeypatch: pytest.MonkeyPatch
):
    def refuse(config: Any) -> Any:
        raise ConnectionFailed("away", host=config.bootstrap_servers)

    monkeypatch.setattr(connections, "Cluster", refuse)
    nowhere = {"kafka.bootstrap.servers": "nowhere:1"}
    planned = RangePartition(OffsetRange(P0, 0, 3))
    reader = BatchReader(options(streaming=False, **nowhere), Projection(OFFSETS))
    stream = StreamReader(options(**nowhere), Projection(OFFSETS))
    start, end = {"t": {"0": 0}}, {"t": {"0": 3}}
    sink = {"topic": "t", "deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "s"}
    once = StreamWriter(sink_options(nowhere | sink))
    rows = pa.RecordBatch.from_pydict({"value": [b"x"]})
    mandate = Mandate("s", Identity(1, 0), True, 0, 1_000, 0.0)
    result = TaskResult(mandate, "q", OpenTransaction("s-1", 1, 0, True), ("t",))
    calls: dict[str, Callable[[], Any]] = {
        "partitions": reader.partitions,
        "read": lambda: list(reader.read(planned)),
        "prepareForTriggerAvailableNow": stream.prepareForTriggerAvailableNow,
        "initialOffset": stream.initialOffset,
        "latestOffset": lambda: stream.latestOffset(start, None),
        "partitions of a batch": lambda: stream.partitions(start, end),
        "read of a batch": lambda: list(stream.read(planned)),
        "write": lambda: BatchWriter(sink_options(nowhere | {"topic": "t"})).write(iter([rows])),
        "begin": once.__getstate__,
        "commit": lambda: once.commit([WrittenMessage({}, result)], 3),
    }
    for name, call in calls.items():
        with pytest.raises(ClusterError) as raised:
            call()
        parameters = {"error": "ConnectionFailed", "broker": "nowhere:1"}
        found = condition_of(raised.value)
        assert found is not None and parameters.items() <= found.parameters.items(), name


def test_foreign_partitions_are_an_error_not_silence(options: Any):
    from pyspark.sql.datasource import InputPartition

    batch_reader = BatchReader(options(streaming=False), Projection(OFFSETS))
    assert list(batch_reader.read(InputPartition(None))) == []  # Spark's, for a plan of nothing
    stream_reader = StreamReader(options(), Projection(OFFSETS))
    for reader, partition in (
        (batch_reader, InputPartition(5)),
        (stream_reader, InputPartition(None)),
    ):
        with pytest.raises(TypeError, match="planned no partition"):
            list(reader.read(partition))


@pytest.mark.parametrize("beginning", [0, 2])
def test_a_range_that_begins_with_a_gap_is_no_loss(fake: FakeCluster, options: Any, beginning: int):
    """Compaction or an aborted transaction, where the log begins as well as later."""
    fill(fake, 8)
    log = fake.partition("t")
    log.delete_before(beginning)
    log.batches = [one for one in log.batches if not 2 <= read_header(one).base_offset < 5]
    assert offsets(options(), OffsetRange(P0, 2, 8)) == [5, 6, 7]


def test_records_deleted_before_the_task_came(
    fake: FakeCluster, options: Any, caplog: pytest.LogCaptureFixture
):
    fill(fake, 10)
    fake.partition("t").delete_before(4)
    wanted = OffsetRange(P0, 2, 8, leader_epoch=0)
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 2 to 4"):
        offsets(options(), wanted)
    assert offsets(options(failOnDataLoss="false"), wanted) == [4, 5, 6, 7]
    asked_for_earliest = OffsetRange(P0, 2, 8, leader_epoch=0, from_earliest=True)
    with caplog.at_level(logging.WARNING):
        assert offsets(options(), asked_for_earliest) == [4, 5, 6, 7]
    assert "t-0: aged out, offsets 2 to 4" in caplog.text
    fake.partition("t").delete_before(9)
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 2 to 8"):
        offsets(options(), wanted)
    assert offsets(options(failOnDataLoss="false"), wanted) == []


def reading_while(options: SourceOptions, wanted: OffsetRange, change: Callable[[], None]) -> Any:
    """Offsets of a range of whose log `change` is made once its first record is read."""
    found: list[int] = []
    for rows in read_range(options, Projection(OFFSETS), wanted):
        if not found:
            change()
        found += rows.column(0).to_pylist()
    return found


@pytest.mark.parametrize("deleted_to", [9, 40])
def test_a_read_from_earliest_has_no_hole_in_its_middle(
    fake: FakeCluster, options: Any, deleted_to: int
):
    """Before the first record nothing is missing; behind one, everything that was there is."""
    fill(fake, 40)
    log = fake.partition("t")
    log.delete_before(2)
    wanted = OffsetRange(P0, 0, 40, leader_epoch=0, from_earliest=True)
    small = {"kafka.max.partition.fetch.bytes": "1"}  # a batch of one record at a time
    # The next one may be on its way already.
    with pytest.raises(DataLossError, match=f"t-0: aged out, offsets [34] to {deleted_to}:"):
        reading_while(options(**small), wanted, lambda: log.delete_before(deleted_to))
    assert offsets(options(**small), wanted) == list(range(deleted_to, 40))


def test_a_later_piece_of_a_read_from_earliest_has_no_excuse(fake: FakeCluster, options: Any):
    fill(fake, 40)
    chosen = options(streaming=False, minPartitions="4", assign='{"t":[0]}', subscribe=None)
    first, *later = plan_batch(chosen, Survey(chosen), Narrowing())
    fake.partition("t").delete_before(15)
    assert offsets(chosen, first) == []
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 10 to 15"):
        offsets(chosen, later[0])
    assert [offsets(chosen, one) for one in later[1:]] == [[*range(20, 30)], [*range(30, 40)]]


def test_offsets_without_records_are_no_middle(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    """Of markers and aborted transactions nothing was read, so what follows is still the first."""
    fill(fake, 12)
    log = fake.partition("t")
    for offset in range(4):
        marker = build_end_txn_marker(
            committed=True,
            coordinator_epoch=0,
            producer_id=1,
            producer_epoch=0,
            timestamp_ms=1000,
            base_offset=offset,
            leader_epoch=0,
        )
        log.batches[offset] = bytes(marker)
    decode = ranges.decode_columns
    decoded: list[int] = []

    def deleting(blob: Any, **how: Any) -> Any:
        decoded.append(read_header(blob).base_offset)
        log.delete_before(9)
        return decode(blob, **how)

    monkeypatch.setattr(ranges, "decode_columns", deleting)
    small = options(**{"kafka.max.partition.fetch.bytes": "1"})
    assert offsets(small, OffsetRange(P0, 0, 12, from_earliest=True)) == [9, 10, 11]
    assert decoded[0] == 0


def test_a_log_that_became_shorter(fake: FakeCluster, options: Any):
    fill(fake, 10)
    fake.partition("t").elect(2, cut_to=3)
    wanted = OffsetRange(P0, 5, 8, leader_epoch=0)
    with pytest.raises(DataLossError, match="t-0: truncated, offsets 3 to 8"):
        offsets(options(), wanted)
    assert offsets(options(failOnDataLoss="false"), wanted) == []


def test_a_topic_recreated_before_the_task_came(fake: FakeCluster, options: Any):
    fill(fake, 10)
    old = str(fake.topics["t"].topic_id)
    fake.create_topic("t", 2)
    fill(fake, 20)
    wanted = OffsetRange(P0, 5, 8, 0, old)
    new = str(fake.topics["t"].topic_id)
    with pytest.raises(DataLossError, match=f"recreated, offsets 5 to 8: .*{old}.*{new}") as caught:
        offsets(options(), wanted)
    assert caught.value.condition == "KAFKA_DATA_LOSS.TOPIC_RECREATED"
    assert caught.value.parameters == {
        "topicPartition": "t-0", "startOffset": "5", "endOffset": "8",
        "previousTopicId": old, "currentTopicId": new,
    }  # fmt: skip
    assert offsets(options(failOnDataLoss="false"), wanted) == []


def test_read_committed_leaves_aborted_records_out(fake: FakeCluster, options: Any):
    from ..client.test_transactions import Blob

    blob = Blob()
    blob.add(b"kept")
    first = blob.add(b"lost", 7)
    blob.end(7, committed=False)
    blob.add(b"kept too")
    partition = fake.partition("t")
    partition.batches = [blob.data]
    answer = fake._fetch

    def with_aborted(node: int, name: str | None, wanted: Any) -> Any:
        from fencepost.wire.api.fetch import AbortedTransaction

        found = answer(node, name, wanted)
        found.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=first)]
        return found

    fake._fetch = with_aborted  # type: ignore[method-assign]
    chosen = options(**{"kafka.isolation.level": "read_committed"})
    assert offsets(chosen, OffsetRange(P0, 0, 4)) == [0, 3]


def test_readers_are_pickled_without_sockets(fake: FakeCluster, options: Any):
    fill(fake, 3)
    stream = StreamReader(options(startingOffsets="earliest"), Projection(OFFSETS))
    start = stream.initialOffset()
    end = stream.latestOffset(start)
    (partition,) = stream.partitions(start, end)
    copy = pickle.loads(pickle.dumps(stream))
    assert copy._planner is None
    rows = list(copy.read(pickle.loads(pickle.dumps(partition))))
    assert rows[0].column(0).to_pylist() == [0, 1, 2]


def test_workers_keep_a_few_clusters(options: Any):
    from dataclasses import replace

    config = options().client
    assert cluster_for(config) is cluster_for(config)
    others = [replace(config, client_id=str(number)) for number in range(CLUSTERS_MAX)]
    first = cluster_for(config)
    for other in others:
        cluster_for(other)
    assert cluster_for(config) is not first
    for other in others:
        drop(other)


def test_a_forked_worker_closes_no_connection_of_its_parent(
    options: Any, monkeypatch: pytest.MonkeyPatch
):
    from dataclasses import replace

    config = options().client
    parents = cluster_for(config)
    closed: list[Any] = []
    monkeypatch.setattr(Cluster, "close", lambda self: closed.append(self))
    with monkeypatch.context() as forked:
        forked.setattr(connections.os, "getpid", lambda: -1)
        own = [cluster_for(replace(config, client_id=str(n))) for n in range(CLUSTERS_MAX + 1)]
        assert parents not in own
        assert closed == own[:1]
        for number in range(1, CLUSTERS_MAX + 1):
            drop(replace(config, client_id=str(number)))
    assert parents not in closed


def test_workers_keep_a_producer_until_a_write_fails(fake: FakeCluster):
    chosen = sink_options({"kafka.bootstrap.servers": fake.bootstrap_servers, "topic": "t"})
    values = [b"%d" % number for number in range(6)]
    ids = fake._next_producer_id
    try:
        for value in values:
            rows = {"partition": pa.array([0], pa.int32()), "value": pa.array([value])}
            message = write_rows(chosen, iter([pa.RecordBatch.from_pydict(rows)]))
            assert message.records == {"t": 1}
        assert fake._next_producer_id == ids + 1
        rows = {"partition": pa.array([9], pa.int32()), "value": pa.array([b"no"])}
        with pytest.raises(SinkError):
            write_rows(chosen, iter([pa.RecordBatch.from_pydict(rows)]))
        rows = {"partition": pa.array([0], pa.int32()), "value": pa.array([b"last"])}
        write_rows(chosen, iter([pa.RecordBatch.from_pydict(rows)]))
        assert fake._next_producer_id == ids + 2
    finally:
        drop(chosen.client)
    assert logged(fake, "t", 0) == [*values, b"last"]


# -- batch planning ------------------------------------------------------------------------------


def plan(options: SourceOptions, narrowing: Narrowing | None = None) -> list[tuple[int, int, int]]:
    ranges = plan_batch(options, Survey(options), narrowing or Narrowing())
    return [(item.partition.partition, item.start, item.end) for item in ranges]


@pytest.mark.parametrize(
    ("starting", "expected"),
    [({}, [True, True]),
     ({"startingOffsets": '{"t":{"0":-2,"1":0}}'}, [True, False]),
     ({"startingTimestamp": "0"}, [False, False])],
)  # fmt: skip
def test_a_start_that_was_named_earliest_stays_so(
    fake: FakeCluster, options: Any, starting: dict[str, str], expected: list[bool]
):
    for partition in (0, 1):
        fill(fake, 2, partition)
    chosen = options(streaming=False, **starting)
    for narrowing in (Narrowing(), Narrowing(least_offset=1)):  # whether filters are pushed or not
        ranges = plan_batch(chosen, Survey(chosen), narrowing)
        assert [one.from_earliest for one in ranges] == expected


def test_batch_plans(fake: FakeCluster, options: Any):
    fill(fake, 10)
    fill(fake, 4, 1)
    assert plan(options(streaming=False)) == [(0, 0, 10), (1, 0, 4)]
    chosen = options(
        streaming=False,
        startingOffsets='{"t":{"0":3,"1":-2}}',
        endingOffsets='{"t":{"0":7,"1":-1}}',
    )
    assert plan(chosen) == [(0, 3, 7), (1, 0, 4)]
    assert plan(options(streaming=False, minPartitions="7")) == [
        (0, 0, 2),
        (0, 2, 4),
        (0, 4, 6),
        (0, 6, 8),
        (0, 8, 10),
        (1, 0, 2),
        (1, 2, 4),
    ]


def test_batch_bounds_that_do_not_fit(fake: FakeCluster, options: Any):
    fill(fake, 10)
    fake.partition("t").delete_before(5)
    too_early = {"startingOffsets": '{"t":{"0":2,"1":0}}'}
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 2 to 5"):
        plan(options(streaming=False, **too_early))
    assert plan(options(streaming=False, failOnDataLoss="false", **too_early)) == [(0, 5, 10)]
    with pytest.raises(DataLossError, match="t-0: truncated, offsets 10 to 99"):
        plan(options(streaming=False, endingOffsets='{"t":{"0":99,"1":0}}'))
    with pytest.raises(ValueError, match="t-0: start 9 lies behind the end 7"):
        plan(
            options(
                streaming=False,
                startingOffsets='{"t":{"0":9,"1":0}}',
                endingOffsets='{"t":{"0":7,"1":0}}',
            )
        )


def test_a_time_to_start_at_is_not_later_than_the_one_to_end_at(fake: FakeCluster, options: Any):
    """Of a partition, as Spark's connector has it, also where both times find the same offset."""
    fill(fake, 3)
    times = {"startingOffsetsByTimestamp": '{"t":{"0":7,"1":5}}'}
    times["startingOffsetsByTimestampStrategy"] = "latest"
    chosen = options(streaming=False, **times, endingOffsetsByTimestamp='{"t":{"0":7,"1":4}}')
    with pytest.raises(BoundsError, match="t-1: the timestamp 5 to start at is later than 4"):
        plan(chosen)
    chosen = options(streaming=False, **times, endingOffsetsByTimestamp='{"t":{"0":7,"1":5}}')
    assert plan(chosen) == []
    chosen = options(streaming=False, startingTimestamp="5", endingTimestamp="4", **times)
    assert plan(chosen) == []


def test_filters_narrow_the_plan(fake: FakeCluster, options: Any):
    for second in range(10):
        fake.partition("t").append(batch(b"x", timestamp_ms=1000 * second))
    fill(fake, 3, 1)
    chosen = options(streaming=False)
    assert plan(chosen, Narrowing(least_offset=4, most_offset=6)) == [(0, 4, 7)]
    assert plan(chosen, Narrowing(partitions=frozenset([1]))) == [(1, 0, 3)]
    assert plan(chosen, Narrowing(topics=frozenset(["s"]))) == []
    # The other partition has no record since then, so nothing in it can match.
    assert plan(chosen, Narrowing(least_timestamp_ms=7000)) == [(0, 7, 10)]


def test_filters_are_taken_in_whether_spark_allows_it_or_not(fake: FakeCluster, options: Any):
    from pyspark.sql.datasource import DataSourceReader, EqualTo

    fill(fake, 3)
    fill(fake, 3, 1)
    reader = BatchReader(options(streaming=False), Projection(OFFSETS))
    # What Spark looks at to refuse readers that override it while pushdown is off.
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    wanted = [EqualTo(("partition",), 1)]
    assert list(reader.pushFilters(wanted)) == wanted
    (partition,) = reader.partitions()
    assert isinstance(partition, RangePartition)
    assert partition.wanted.partition == ("t", 1)


# -- writing -------------------------------------------------------------------------------------


def write(fake: FakeCluster, columns: dict[str, Any], topic: str | None = "t", **more: str) -> Any:
    given = {"kafka.bootstrap.servers": fake.bootstrap_servers, **more}
    chosen = sink_options({**given, **({"topic": topic} if topic else {})})
    try:
        return write_rows(chosen, iter([pa.RecordBatch.from_pydict(columns)]))
    finally:
        drop(chosen.client)


def test_rows_go_where_they_say(fake: FakeCluster):
    fake.create_topic("s", 3)
    message = write(
        fake,
        {
            "topic": ["s", "t", "s"],
            "partition": pa.array([2, 1, 2], pa.int32()),
            "value": ["a", "b", "c"],
        },
        topic=None,
    )
    assert logged(fake, "s", 2) == [b"a", b"c"]
    assert logged(fake, "t", 1) == [b"b"]
    assert message.records == {"s": 2, "t": 1}


def test_keys_choose_the_partition_as_kafkas_clients_do(fake: FakeCluster):
    from fencepost.batch.partitioner import partition_for_key

    keys = [b"k%d" % number for number in range(40)]
    write(fake, {"key": pa.array(keys), "value": pa.array(keys)})
    for partition in (0, 1):
        expected = [key for key in keys if partition_for_key(key, 2) == partition]
        assert logged(fake, "t", partition) == expected


ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def test_partitioners_of_kafka_that_pass_over_keys(fake: FakeCluster):
    rows = {"key": pa.array([b"same"] * 10), "value": pa.array([b"%d" % n for n in range(10)])}
    write(fake, rows, **{"kafka.partitioner.class": ROUND_ROBIN})
    first, second = logged(fake, "t", 0), logged(fake, "t", 1)
    assert len(first) == len(second) == 5
    assert {int(value) % 2 for value in first} != {int(value) % 2 for value in second}
    write(fake, rows, **{"kafka.partitioner.ignore.keys": "true"})
    counts = sorted((len(logged(fake, "t", 0)), len(logged(fake, "t", 1))))
    assert counts == [5, 15]
    named = {**rows, "partition": pa.array([1] * 10, pa.int32())}
    write(fake, named, **{"kafka.partitioner.class": ROUND_ROBIN})
    assert logged(fake, "t", 1)[-10:] == [b"%d" % n for n in range(10)]


def test_named_partitions_beat_keys_and_keyless_rows_stay_together(fake: FakeCluster):
    numbers = pa.array([None, 1, None, 0], pa.int32())
    write(fake, {"partition": numbers, "value": pa.array([b"a", b"b", b"c", b"d"])})
    first, second = logged(fake, "t", 0), logged(fake, "t", 1)
    assert (b"b" in second) and (b"d" in first)
    assert ({b"a", b"c"} <= set(first)) != ({b"a", b"c"} <= set(second))


def test_headers_and_nulls_are_written(fake: FakeCluster, options: Any):
    headers = pa.array(
        [[{"key": "h", "value": b"1"}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    numbers = pa.array([0, 0], pa.int32())
    value = pa.array([b"v", None], pa.binary())
    write(fake, {"partition": numbers, "value": value, "headers": headers})
    (rows,) = read_range(options(), EVERYTHING, OffsetRange(P0, 0, 2))
    assert [row["headers"] for row in rows.to_pylist()] == [[{"key": "h", "value": b"1"}], None]
    assert [row["value"] for row in rows.to_pylist()] == [b"v", None]


def test_rows_that_cannot_be_written(fake: FakeCluster):
    with pytest.raises(SinkError, match="null topic") as caught:
        write(fake, {"topic": ["t", None], "value": ["a", "b"]}, topic=None)
    assert caught.value.getCondition() == "KAFKA_NULL_TOPIC_IN_DATA"
    with pytest.raises(SinkError, match="partition 5; topic t has 2"):
        write(fake, {"partition": pa.array([5], pa.int32()), "value": ["a"]})


@pytest.mark.parametrize(
    ("ddl", "topic", "complaint"),
    [
        ("key string", "t", "column 'value' is required"),
        ("value int", "t", "'value' must be string or binary, not int"),
        ("value string, key bigint", "t", "'key' must be string or binary, not bigint"),
        ("value string", None, "option 'topic' or a column 'topic' is required"),
        ("value string, topic int", None, "'topic' must be string, not int"),
        ("value string, partition bigint", "t", "'partition' must be int, not bigint"),
        ("value string, headers map", "t", "'headers' must be array"),
    ],
)
def test_frames_that_cannot_be_written(ddl: str, topic: str | None, complaint: str):
    with pytest.raises(SinkError, match=complaint):
        check_schema(schema(ddl), topic)


def test_frames_with_the_right_columns_are_written(fake: FakeCluster):
    check_schema(schema("value binary, key string, partition int, headers headers"), "t")
    check_schema(schema("value string, topic string, other double"), None)
    check_schema(schema("value string, timestamp string"), "t")
    check_schema(schema("value string, timestamp timestamp"), "t", keep_timestamps=True)
    with pytest.raises(SinkError, match="keepTimestamps=true needs a column 'timestamp'"):
        check_schema(schema("value string"), "t", keep_timestamps=True)
    with pytest.raises(SinkError, match="'timestamp' must be timestamp, not string"):
        check_schema(schema("value string, timestamp string"), "t", keep_timestamps=True)


def test_what_was_written_is_all_there(fake: FakeCluster, options: Any):
    count = 5000
    write(fake, {"value": pa.array([b"%d" % n for n in range(count)])})
    ends = list_offsets(cluster_for(options().client), {("t", 0): LATEST, ("t", 1): LATEST})
    assert sum(found.offset for found in ends.values()) == count
