"""Our record batches at Apache Kafka: what its broker takes and refuses, and what its tools read.

Cases in which Fencepost is stricter on purpose are listed with both answers: Kafka takes bytes
behind a batch, a delete horizon or a producer's log-append time (which it clears), and uncompressed
records whose offset deltas do not count up; and it answers UNKNOWN_SERVER_ERROR, with a stack trace
in its log, to what it cannot decompress.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from struct import pack_into

import pytest

from fencepost.batch.control import build_end_txn_marker, build_leader_change
from fencepost.batch.header import HEADER_BYTES, iter_headers, stamp, stamp_crc
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, build_batch, read_records
from fencepost.client.connection import Connection
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.errors import error_name

from ..waiting import DEADLINE_MS, eventually
from . import apache

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = int(time.time() * 1000)
RECORDS = [
    Record(0, NOW_MS, 0, b"key", b"value", ()),
    Record(1, NOW_MS - 5, 0, b"", b"v" * 200, (("trace", b"1"), ("trace", None), ("", b""))),
    Record(2, NOW_MS - 9, 0, b"k" * 70, None, (("schlüssel", b"\xff\x00"),)),
]
PLAIN = build_batch(RECORDS)
VERSION = 9
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(bootstrap):
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
        hour = str(HOUR_MS)
        settings = {
            "batches": [],
            "compacted": [("cleanup.policy", "compact")],
            "timed": [
                ("message.timestamp.before.max.ms", hour),
                ("message.timestamp.after.max.ms", hour),
            ],
            "timed-compacted": [
                ("message.timestamp.before.max.ms", hour),
                ("cleanup.policy", "compact"),
            ],
            "stamped": [
                ("message.timestamp.type", "LogAppendTime"),
                ("message.timestamp.before.max.ms", hour),
            ],
            "small": [("max.message.bytes", "1000")],
            "small-plain": [("max.message.bytes", "1000"), ("compression.type", "uncompressed")],
            "short": [("segment.bytes", str(1 << 20)), ("max.message.bytes", str(1 << 22))],
        }
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
            )
            for name, configs in settings.items()
        ]
        made = connection.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000)).topics
        assert {topic.error_code for topic in made} <= {0, 36}
        yield connection


def answer_of(
    broker: Connection,
    batch: bytes | bytearray,
    topic: str = "batches",
    version: int = VERSION,
) -> PartitionProduceResponse:
    """The partition's answer; asks again while the topic has no leader."""
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )

    def led() -> PartitionProduceResponse | None:
        answer = broker.request(request, version).responses[0].partition_responses[0]
        has_none = ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER")
        return None if error_name(answer.error_code) in has_none else answer

    answer = eventually(led, f"{topic} has a leader")
    assert answer is not None, "that is what was waited for"
    return answer


def produce(
    broker: Connection,
    batch: bytes | bytearray,
    topic: str = "batches",
    version: int = VERSION,
) -> tuple[str, int]:
    """Name of the error and base offset."""
    answer = answer_of(broker, batch, topic, version)
    return error_name(answer.error_code), answer.base_offset


def fetch(broker: Connection, offset: int, topic: str = "batches") -> bytes:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 24, current_leader_epoch=-1
    )
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 24, session_epoch=-1, topics=topics
    )
    answer = broker.request(request, 11).responses[0].partitions[0]
    assert answer.error_code == 0
    return bytes(answer.records)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_comes_back_as_it_went(broker, codec):
    batch = build_batch(RECORDS, compression=codec)
    error, offset = produce(broker, batch)
    assert error == "NONE"
    found = fetch(broker, offset)
    assert found[16 : len(batch)] == batch[16:]
    assert [record._replace(offset=record.offset - offset) for record in read_records(found)][
        :3
    ] == RECORDS


def changed(layout: str, at: int, *values: int) -> bytearray:
    batch = bytearray(PLAIN)
    pack_into(layout, batch, at, *values)
    stamp_crc(batch)
    return batch


def changed_length(length: int) -> bytearray:
    batch = bytearray(PLAIN)
    pack_into(">i", batch, 8, length)
    return batch


def with_payload(payload: bytes, count: int) -> bytearray:
    batch = bytearray(PLAIN[:HEADER_BYTES] + payload)
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">i", batch, 23, count - 1)
    pack_into(">i", batch, 57, count)
    stamp_crc(batch)
    return batch


def flipped(at: int) -> bytearray:
    batch = bytearray(PLAIN)
    batch[at] ^= 1
    return batch


@pytest.mark.parametrize(
    ("batch", "answer"),
    {
        "nothing": (b"", "INVALID_RECORD"),
        "half a header": (PLAIN[:40], "INVALID_RECORD"),
        "a cut batch": (PLAIN[:-1], "INVALID_RECORD"),
        "two batches": (PLAIN + PLAIN, "INVALID_RECORD"),
        "magic 0": (changed(">b", 16, 0), "INVALID_RECORD"),
        "magic 1": (changed(">b", 16, 1), "INVALID_RECORD"),
        "a message of v0": (build_message_set(RECORDS, magic=0), "INVALID_RECORD"),
        "messages of v1": (
            build_message_set(RECORDS, magic=1, compression="gzip"),
            "INVALID_RECORD",
        ),
        "a base offset": (changed(">q", 0, 7), "INVALID_RECORD"),
        "a negative base offset": (changed(">q", 0, -1), "INVALID_RECORD"),
        "a length beyond the end": (changed_length(len(PLAIN)), "INVALID_RECORD"),
        "a length below the header": (changed_length(48), "CORRUPT_MESSAGE"),
        "a negative length": (changed_length(-1), "CORRUPT_MESSAGE"),
        "a negative count": (changed(">i", 57, -1), "INVALID_RECORD"),
        "a sequence without a producer": (changed(">i", 53, 5), "NONE"),
        "magic 3": (changed(">b", 16, 3), "CORRUPT_MESSAGE"),
        "a flipped bit": (flipped(80), "CORRUPT_MESSAGE"),
        "a flipped CRC": (flipped(18), "CORRUPT_MESSAGE"),
        "a control batch": (changed(">h", 21, 0x20), "INVALID_RECORD"),
        "no records": (changed(">i", 57, 0), "INVALID_RECORD"),
        "too many records": (changed(">i", 57, 4), "INVALID_RECORD"),
        "a wrong last offset": (changed(">i", 23, 5), "INVALID_RECORD"),
        "a negative last offset": (changed(">i", 23, -1), "INVALID_RECORD"),
        "no sequence": (changed(">qhi", 43, 4, 0, -1), "INVALID_RECORD"),
        "an overflowing time": (changed(">q", 27, 2**63 - 1), "INVALID_TIMESTAMP"),
        "an empty payload": (with_payload(b"", 1), "INVALID_RECORD"),
        "records behind the last": (with_payload(PLAIN[HEADER_BYTES:], 2), "INVALID_RECORD"),
        "a missing record": (with_payload(PLAIN[HEADER_BYTES:], 4), "INVALID_RECORD"),
        "garbage": (with_payload(b"\x10" * 40, 1), "INVALID_RECORD"),
        "a large batch": (build_batch([(None, bytes(1_048_588))]), "MESSAGE_TOO_LARGE"),
        "a time to come": (
            build_batch([(b"k", b"")], timestamp_ms=NOW_MS * 2),
            "INVALID_TIMESTAMP",
        ),
        "a wrong max timestamp": (changed(">q", 35, 5), "NONE"),
        "unused attributes": (changed(">h", 21, 0x80), "NONE"),
    }.values(),
)
def test_what_is_taken_and_refused(broker, batch, answer):
    assert produce(broker, batch)[0] == answer


@pytest.mark.parametrize(
    ("batch", "ours", "kafkas"),
    {
        "bytes behind": (PLAIN + b"\0", "INVALID_RECORD", "NONE"),
        "a length beyond 2 GiB": (
            changed_length(2**31 - 1),
            "INVALID_RECORD",
            "UNKNOWN_SERVER_ERROR",
        ),
        "codec 5": (changed(">h", 21, 5), "UNSUPPORTED_COMPRESSION_TYPE", "UNKNOWN_SERVER_ERROR"),
        "no gzip": (changed(">h", 21, 1), "INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
        "no zstd": (changed(">h", 21, 4), "INVALID_RECORD", "UNKNOWN_SERVER_ERROR"),
        "log-append time": (changed(">h", 21, 8), "INVALID_TIMESTAMP", "NONE"),
        "a delete horizon": (changed(">h", 21, 0x40), "INVALID_RECORD", "NONE"),
    }.values(),
)
def test_where_fencepost_is_stricter(broker, request, batch, ours, kafkas):
    kind = request.node.callspec.params["bootstrap"]
    assert produce(broker, batch)[0] == (ours if kind == "fencepost" else kafkas)


@pytest.mark.parametrize("codec", CODECS)
def test_compacted_topics_want_keys(broker, codec):
    keyless = build_batch([(b"k", b"v"), (None, b"v")], timestamp_ms=NOW_MS, compression=codec)
    assert produce(broker, keyless, "compacted")[0] == "INVALID_RECORD"
    keyed = build_batch([(b"k", b"v"), (b"", b"v")], timestamp_ms=NOW_MS, compression=codec)
    assert produce(broker, keyed, "compacted")[0] == "NONE"


def timed(*offsets_ms: int | None, codec: str = "none", keys: str = "") -> bytearray:
    """Records so far from now, None meaning without a time; those named in `keys` have none."""
    return build_batch(
        [
            Record(
                at,
                -1 if offset_ms is None else NOW_MS + offset_ms,
                0,
                None if str(at) in keys else b"k",
                b"v",
            )
            for at, offset_ms in enumerate(offsets_ms)
        ],
        compression=codec,
    )


LATE, EARLY = -2 * HOUR_MS, 2 * HOUR_MS


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize(
    ("topic", "times", "keyless", "error", "records"),
    [
        ("timed", (0, None, HOUR_MS // 2, -HOUR_MS // 2), "", "NONE", []),
        ("timed", (LATE,), "", "INVALID_TIMESTAMP", [0]),
        ("timed", (0, LATE, None, EARLY, 0), "", "INVALID_TIMESTAMP", [1, 3]),
        ("compacted", (0, 0, 0), "", "NONE", []),
        ("compacted", (0, 0, 0), "02", "INVALID_RECORD", [0, 2]),
        ("compacted", (0,) * 9, "012345678", "INVALID_RECORD", list(range(9))),
        ("timed-compacted", (LATE, 0, LATE, 0), "23", "INVALID_TIMESTAMP", [0, 2, 3]),
        ("timed-compacted", (LATE, 0), "0", "INVALID_RECORD", [0]),
        ("stamped", (LATE, None, EARLY), "", "NONE", []),
    ],
)
def test_unwelcome_records_are_told_one_by_one(
    broker, topic, times, keyless, error, records, codec
):
    answer = answer_of(broker, timed(*times, codec=codec, keys=keyless), topic)
    assert error_name(answer.error_code) == error
    assert [each.batch_index for each in answer.record_errors] == records
    assert all(each.batch_index_error_message for each in answer.record_errors)
    assert bool(answer.error_message) == (error != "NONE")


def test_other_errors_blame_no_record(broker):
    for batch in (PLAIN + PLAIN, flipped(80), changed(">h", 21, 0x20), with_payload(b"", 1)):
        answer = answer_of(broker, batch, "compacted")
        assert answer.error_code
        assert answer.record_errors == []


@pytest.mark.parametrize("version", [3, 6, 7, 9, 12])
def test_zstd_needs_version_7(broker, version):
    error, _ = produce(broker, build_batch(RECORDS, compression="zstd"), version=version)
    assert error == ("NONE" if version >= 7 else "UNSUPPORTED_COMPRESSION_TYPE")
    damaged = changed(">h", 21, 4)
    if version < 7:
        assert produce(broker, damaged, version=version)[0] == "UNSUPPORTED_COMPRESSION_TYPE"


def test_sizes_have_limits(broker):
    def sized(size: int, codec: str = "none") -> bytearray:
        """The smallest batch of `size` bytes or more, as it would be without its codec."""
        for value_bytes in range(size - 90, size):
            record = [(None, bytes(value_bytes))]
            if len(build_batch(record, timestamp_ms=NOW_MS)) >= size:
                return build_batch(record, timestamp_ms=NOW_MS, compression=codec)
        raise AssertionError(f"no batch has {size} bytes")

    assert (len(sized(1000)), len(sized(1001))) == (1000, 1001)
    assert produce(broker, sized(1000), "small")[0] == "NONE"
    assert produce(broker, sized(1001), "small")[0] == "MESSAGE_TOO_LARGE"
    assert produce(broker, sized(5000, "gzip"), "small")[0] == "NONE"
    assert produce(broker, sized(5000, "gzip"), "small-plain")[0] == "MESSAGE_TOO_LARGE"
    assert produce(broker, sized((1 << 20) - 9), "short")[0] == "NONE"
    assert produce(broker, sized((1 << 20) + 1), "short")[0] == "RECORD_LIST_TOO_LARGE"
    assert produce(broker, sized((1 << 22) + 1), "short")[0] == "MESSAGE_TOO_LARGE"
    too_large_and_damaged = sized(1001)
    too_large_and_damaged[-1] ^= 1
    assert produce(broker, too_large_and_damaged, "small")[0] == "MESSAGE_TOO_LARGE"


@pytest.mark.parametrize("codec", CODECS)
def test_the_brokers_clock(broker, codec):
    batch = timed(LATE, None, EARLY, codec=codec)
    answer = answer_of(broker, batch, "stamped")
    assert answer.error_code == 0
    found = list(read_records(fetch(broker, answer.base_offset, "stamped")))[:3]
    assert {record.timestamp_type for record in found} == {1}
    assert {record.timestamp_ms for record in found} == {answer.log_append_time_ms}


def test_records_without_a_time(broker):
    error, offset = produce(broker, timed(None, None), "timed")
    assert error == "NONE"
    (_, header), *_ = iter_headers(fetch(broker, offset, "timed"))
    assert header.max_timestamp == -1


def test_a_wrong_max_timestamp_is_corrected(broker):
    error, offset = produce(broker, changed(">q", 35, 5))
    assert error == "NONE"
    found = fetch(broker, offset)
    (_, header), *_ = iter_headers(found)
    assert header.max_timestamp == NOW_MS
    assert len(list(read_records(found))) == len(RECORDS)


def test_kafkas_own_tool_reads_our_batches(kafka_jars, tmp_path: Path):
    log = tmp_path / "events-0" / f"{0:020}.log"
    log.parent.mkdir()
    batches = [build_batch(RECORDS, compression=codec) for codec in CODECS]
    batches.append(
        build_end_txn_marker(
            committed=True, coordinator_epoch=6, producer_id=8, producer_epoch=1, timestamp_ms=5
        )
    )
    batches.append(build_leader_change(3, [3, 4], [3], leader_epoch=2, timestamp_ms=5))
    for index, batch in enumerate(batches):
        stamp(batch, 0, base_offset=3 * index, leader_epoch=2)
    log.write_bytes(b"".join(batches))
    out = apache.run_tool("dump-log", "--deep-iteration", "--print-data-log", "--files", str(log))
    text = out.stdout + out.stderr
    assert len(re.findall(r"isvalid: true", text)) == len(batches)
    assert re.findall(r"compresscodec: (\w+)", text)[: len(CODECS)] == CODECS
    assert len(re.findall(r"headerKeys: \[trace,trace,\]", text)) == len(CODECS)
    assert len(re.findall(r"headerKeys: \[schlüssel\]", text)) == len(CODECS)
    assert len(re.findall(rf"payload: {'v' * 200}\n", text)) == len(CODECS)
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: 6", text)
    assert re.search(r'LeaderChange.*"leaderId":3', text)
