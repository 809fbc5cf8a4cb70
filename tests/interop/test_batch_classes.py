"""Our record batches of every format against Apache Kafka's own classes, on the same bytes.

Two releases: 4.4.0, which still reads and builds v0 and v1, and the clients of 3.9.1, the last that
convert batches into them.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from struct import pack, pack_into
from zlib import crc32

import cramjam
import lz4.frame
import pytest
import zstandard

from fencepost.batch.compression import compress
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.conversion import down_convert, up_convert
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, stamp_crc, stamp_log_append_time
from fencepost.batch.legacy import build_message_set
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import Record, build_batch, read_records

from ..batch.test_legacy import xxhash32
from . import oracle as oracles
from .apache import KAFKA
from .conftest import jars_or_skip
from .maven import JarSet
from .test_message_classes import OLD_CLIENTS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ORACLE = oracles.PROGRAMS / "BatchOracle.java"
PACKAGE = "org.apache.kafka.common.record."
MOVED = ("MemoryRecords", "MemoryRecordsBuilder", "Record", "RecordBatch")
NOW_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    Record(40, NOW_MS, 0, b"key", b"value"),
    Record(41, NOW_MS - 5, 0, None, b"v" * 5000),
    Record(45, NOW_MS + 70_000, 0, b"", None),
    Record(46, -1, 0, b"k" * 70, b""),
]
WITH_HEADERS = [
    record._replace(offset=40 + at, headers=(("trace", b"1"), ("schlüssel", None), ("", b"")))
    for at, record in enumerate(RECORDS)
]
STAMPED = [record._replace(timestamp_ms=NOW_MS + 3, timestamp_type=1) for record in RECORDS]
MUTATIONS = 1500


@pytest.fixture(scope="module", params=["4.4.0", "3.9.1"])
def jars(request: pytest.FixtureRequest) -> JarSet:
    return jars_or_skip(KAFKA if request.param == "4.4.0" else OLD_CLIENTS)


@pytest.fixture(scope="module")
def oracle(jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle's source, as this release wants it."""
    source = ORACLE.read_text()
    if jars is KAFKA:
        for name in MOVED:
            source = source.replace(f"{PACKAGE}{name};", f"{PACKAGE}internal.{name};")
    path = tmp_path_factory.mktemp("oracle") / ORACLE.name
    path.write_text(source)
    return path


def ask(jars: JarSet, oracle: Path, questions: Sequence[str]) -> list[str]:
    """The oracle's answers, one per question."""
    answers = oracles.ask(oracle, jars=jars, questions=questions).splitlines()
    assert len(answers) == len(questions)
    return answers


def said(record: Record) -> str:
    """The record as the oracle says it."""

    def part(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    fields = [str(record.offset), str(record.timestamp_ms), str(record.timestamp_type)]
    fields += [part(record.key), part(record.value)]
    for key, value in record.headers:
        fields += [key.encode().hex(), part(value)]
    return ",".join(fields) + ";"


def ours(blob: bytes) -> str:
    return "OK " + "".join(map(said, read_records(blob, include_control=True)))


def old_blobs() -> list[bytes]:
    """Messages of both formats, of all codecs and kinds of timestamps."""
    return [
        bytes(build_message_set(records, magic=magic, compression=codec))
        for magic in (0, 1)
        for codec in CODECS[:-1]
        for records in (RECORDS, STAMPED, RECORDS[:1])
    ]


def new_blobs() -> list[bytes]:
    found = []
    for codec in CODECS:
        batch = build_batch(WITH_HEADERS, compression=codec, base_offset=40)
        found.append(bytes(batch))
        stamp_log_append_time(batch, 0, NOW_MS + 9)
        found.append(bytes(batch))
    return found


def test_kafka_reads_what_we_write(jars, oracle):
    blobs = old_blobs() + new_blobs()
    mixed = zip(old_blobs(), reversed(old_blobs()), itertools.cycle(new_blobs()), strict=False)
    blobs += [b"".join(parts) for parts in mixed]
    answers = ask(jars, oracle, [f"READ {blob.hex()}" for blob in blobs])
    for blob, answer in zip(blobs, answers, strict=True):
        assert answer == ours(blob)


def test_we_read_what_kafka_writes(jars, oracle):
    questions, expected = [], []
    for magic, codec, kind in itertools.product((0, 1, 2), CODECS, (0, 1)):
        if magic < 2 and codec == "zstd":
            continue
        records = STAMPED if kind else RECORDS
        questions.append(
            f"BUILD {magic} {codec} {kind} 40 {NOW_MS + 3 if kind else -1} "
            + "".join(map(said, records))
        )
        if magic == 0:
            records = [row._replace(timestamp_ms=-1, timestamp_type=-1) for row in records]
        expected.append((magic, codec, records))
    for answer, (magic, codec, records) in zip(ask(jars, oracle, questions), expected, strict=True):
        assert answer.startswith("OK "), answer
        blob = bytes.fromhex(answer[3:])
        assert list(read_records(blob)) == records
        if magic < 2 and codec == "none":
            assert build_message_set(records, magic=magic) == blob
        if magic < 2:
            lifted = [row._replace(timestamp_type=max(row.timestamp_type, 0)) for row in records]
            assert list(read_records(up_convert(blob))) == lifted


def test_kafka_reads_what_we_convert_upwards(jars, oracle):
    blobs = [bytes(up_convert(blob)) for blob in old_blobs()]
    answers = ask(jars, oracle, [f"READ {blob.hex()}" for blob in blobs])
    for blob, answer in zip(blobs, answers, strict=True):
        assert answer == ours(blob)


def test_conversion_downwards_is_kafkas(oracle, jars):
    marker = build_end_txn_marker(
        committed=False, coordinator_epoch=1, producer_id=3, producer_epoch=0, timestamp_ms=NOW_MS,
        base_offset=44,
    )  # fmt: skip
    cases = [
        (magic, first, blob + marker)
        for magic in (0, 1)
        for first in (0, 42, 60)
        for blob in [*new_blobs(), old_blobs()[0] + new_blobs()[0], *old_blobs()]
    ]
    answers = ask(jars, oracle, [f"DOWN {magic} {at} {blob.hex()}" for magic, at, blob in cases])
    for (magic, first, blob), answer in zip(cases, answers, strict=True):
        if jars is KAFKA:
            assert answer == "NONE"
            continue
        if answer.startswith("REFUSED"):
            assert "UnsupportedCompressionType" in answer
            with pytest.raises(BatchError, match="zstd"):
                down_convert(blob, magic, first_offset=first)
            continue
        theirs, lowered = bytes.fromhex(answer[3:]), down_convert(blob, magic, first_offset=first)
        assert list(read_records(lowered)) == list(read_records(theirs))
        if not (blob[17 if blob[16] < 2 else 22] & 7 or magic < blob[16] < 2):
            assert lowered == theirs


PLAIN = bytes(build_batch(WITH_HEADERS, base_offset=40))
PAYLOAD = PLAIN[HEADER_BYTES:]
HALF = len(PAYLOAD) // 2
SKIPPABLE = b"\x5f\x2a\x4d\x18" + pack("<I", 4) + b"skip"


def packed(codec: str, data: bytes = PAYLOAD, **options: object) -> bytes:
    """Compressed by the library, with its options."""
    if codec == "lz4":
        frame = {"block_linked": False, "store_size": False} | options
        return bytes(lz4.frame.compress(data, **frame))
    if codec == "zstd":
        return zstandard.ZstdCompressor(**options).compress(data)
    return compress(codec, data)


def damaged_end(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def reversed_version(data: bytes) -> bytes:
    return data[:8] + pack("<ii", 1, 1) + data[16:]


FRAMINGS = {
    # what it is: (codec, payload, whether Kafka reads it, whether we do)
    "gzip members": ("gzip", packed("gzip", PAYLOAD[:HALF]) + packed("gzip", PAYLOAD[HALF:]), 1, 1),
    "gzip, an empty member": ("gzip", packed("gzip", b"") + packed("gzip"), 1, 1),
    "gzip, a member too many": ("gzip", packed("gzip") + packed("gzip", b"more"), 0, 0),
    "gzip, bytes behind": ("gzip", packed("gzip") + b"bytes behind", 1, 0),
    "gzip, zeros behind": ("gzip", packed("gzip") + bytes(8), 1, 0),
    "gzip, cut": ("gzip", packed("gzip")[:-3], 0, 0),
    "lz4, linked, one block": ("lz4", packed("lz4", block_linked=True), 1, 1),
    "lz4, sized": ("lz4", packed("lz4", store_size=True), 1, 1),
    "lz4, checksums": ("lz4", packed("lz4", content_checksum=True, block_checksum=True), 1, 1),
    "lz4, a wrong block": ("lz4", packed("lz4", block_checksum=True)[:-5] + b"?" * 5, 0, 0),
    "lz4, wrong content": ("lz4", damaged_end(packed("lz4", content_checksum=True)), 1, 0),
    "lz4, two frames": ("lz4", packed("lz4", PAYLOAD[:HALF]) + packed("lz4", PAYLOAD[HALF:]), 0, 0),
    "lz4, bytes behind": ("lz4", packed("lz4") + b"bytes behind", 1, 0),
    "lz4, a skippable frame": ("lz4", SKIPPABLE + packed("lz4"), 0, 0),
    "lz4, cut": ("lz4", packed("lz4")[:-4], 0, 0),
    "zstd frames": ("zstd", packed("zstd", PAYLOAD[:HALF]) + packed("zstd", PAYLOAD[HALF:]), 1, 1),
    "zstd, skippable frames": ("zstd", SKIPPABLE + packed("zstd") + SKIPPABLE, 1, 1),
    "zstd, an empty frame": ("zstd", packed("zstd") + packed("zstd", b""), 1, 1),
    "zstd, a frame too many": ("zstd", packed("zstd") + packed("zstd", b"more"), 0, 0),
    "zstd, bytes behind": ("zstd", packed("zstd") + b"bytes behind", 0, 0),
    "zstd, checksum": ("zstd", packed("zstd", write_checksum=True), 1, 1),
    "zstd, wrong checksum": ("zstd", damaged_end(packed("zstd", write_checksum=True)), 0, 0),
    "zstd, cut": ("zstd", packed("zstd")[:-2], 0, 0),
    "snappy, raw": ("snappy", bytes(cramjam.snappy.compress_raw(PAYLOAD)), 1, 1),
    "snappy, joined": (
        "snappy",
        packed("snappy", PAYLOAD[:HALF]) + packed("snappy", PAYLOAD[HALF:]),
        1,
        1,
    ),
    "snappy, version turned": ("snappy", reversed_version(packed("snappy")), 1, 1),
    "snappy, bytes behind": ("snappy", packed("snappy") + b"abc", 1, 0),
    "snappy, an empty block": ("snappy", packed("snappy") + bytes(4), 0, 0),
    "snappy, raw, bytes behind": (
        "snappy",
        bytes(cramjam.snappy.compress_raw(PAYLOAD)) + b"abc",
        0,
        0,
    ),
}


def with_payload(codec: str, payload: bytes, records: Sequence[Record] = WITH_HEADERS) -> bytes:
    head = build_batch(records, base_offset=40)[:HEADER_BYTES]
    batch = bytearray(head + payload)
    pack_into(">i", batch, 8, len(batch) - 12)
    batch[22] = CODECS.index(codec)
    stamp_crc(batch)
    return bytes(batch)


def test_compressed_streams_of_other_shapes(jars, oracle):
    """What Kafka reads we read to the same records, or refuse because not all of it was used."""
    blobs = [with_payload(codec, payload) for codec, payload, _, _ in FRAMINGS.values()]
    answers = ask(jars, oracle, [f"READ {blob.hex()}" for blob in blobs])
    found = {}
    for name, blob, answer in zip(FRAMINGS, blobs, answers, strict=True):
        try:
            we_do = ours(blob)
        except BatchError:
            we_do = None
        they_do = answer if answer.startswith("OK") else None
        assert we_do in (None, they_do), name
        found[name] = (they_do is not None, we_do is not None)
    assert found == {name: (bool(k), bool(f)) for name, (_, _, k, f) in FRAMINGS.items()}


def lz4_frame(data: bytes, flags: int = 0x60, block_size: int = 0x40) -> bytes:
    """A frame of one block that is not compressed, with these flags in its head."""
    head = bytes([flags, block_size])
    frame = b"\x04\x22\x4d\x18" + head + bytes([xxhash32(head) >> 8 & 0xFF])
    return frame + pack("<I", len(data) | 1 << 31) + data + bytes(4)


def gzip_head(flags: int, fields: bytes) -> bytes:
    """A gzip stream with these optional fields in its head."""
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(4) + b"\0\3" + fields + packed("gzip")[10:]


def zstd_window(log: int) -> bytes:
    """A stream that does not say its size, so that its head has this window."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(LONG_PAYLOAD) + stream.flush()


def snappy_block(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return pack(">i", len(block)) + block


LONG = [record._replace(value=random.Random(3).randbytes(70_000)) for record in WITH_HEADERS]
LONG_PAYLOAD = bytes(build_batch(LONG, base_offset=40))[HEADER_BYTES:]
SNAPPY_HEAD = b"\x82SNAPPY\0" + pack(">ii", 1, 1)
OPTIONS = {
    # what it is: (codec, payload, whether Kafka reads it, whether a producer may send it)
    **{
        f"lz4, {kind} blocks of size {size}": (
            "lz4",
            packed("lz4", LONG_PAYLOAD, block_linked=kind == "linked", block_size=size),
            # The library sets the flag only where there are several blocks.
            kind == "independent" or size > 5,
            kind == "independent" or size > 5,
        )
        for kind in ("independent", "linked")
        for size in (4, 5, 6, 7)
    },
    "lz4, one block that is marked as linked": ("lz4", lz4_frame(PAYLOAD, 0x40), 0, 0),
    "lz4, not compressed": ("lz4", lz4_frame(PAYLOAD), 1, 1),
    "lz4, version 0": ("lz4", lz4_frame(PAYLOAD, 0x20), 0, 0),
    "lz4, version 2": ("lz4", lz4_frame(PAYLOAD, 0xA0), 0, 0),
    "lz4, a reserved flag": ("lz4", lz4_frame(PAYLOAD, 0x62), 0, 0),
    "lz4, a dictionary": ("lz4", lz4_frame(PAYLOAD, 0x61), 0, 0),
    "lz4, a reserved size": ("lz4", lz4_frame(PAYLOAD, block_size=0x30), 0, 0),
    "lz4, an empty frame behind": ("lz4", packed("lz4") + packed("lz4", b""), 1, 0),
    "lz4, an empty frame in front": ("lz4", packed("lz4", b"") + packed("lz4"), 0, 0),
    "lz4, a skippable frame behind": ("lz4", packed("lz4") + SKIPPABLE, 1, 0),
    **{
        f"zstd, a window of 2^{log}": ("zstd", zstd_window(log), log <= 27, log <= 27)
        for log in (10, 20, 27, 28, 31)
    },
    "zstd, level 22": ("zstd", packed("zstd", level=22), 1, 1),
    "zstd, without a size": ("zstd", packed("zstd", write_content_size=False), 1, 1),
    "zstd, a skippable frame between": (
        "zstd",
        packed("zstd", PAYLOAD[:HALF]) + SKIPPABLE + packed("zstd", PAYLOAD[HALF:]),
        1,
        1,
    ),
    "snappy, one long block": ("snappy", SNAPPY_HEAD + snappy_block(LONG_PAYLOAD), 1, 1),
    "snappy, Google's framing": ("snappy", bytes(cramjam.snappy.compress(PAYLOAD)), 0, 0),
    "snappy, an empty block of its own": (
        "snappy",
        SNAPPY_HEAD + b"".join(map(snappy_block, (PAYLOAD[:HALF], b"", PAYLOAD[HALF:]))),
        1,
        1,
    ),
    "gzip, a name": ("gzip", gzip_head(8, b"name\0"), 1, 1),
    "gzip, extra fields and a comment": ("gzip", gzip_head(20, b"\2\0ab" + b"comment\0"), 1, 1),
    "gzip, a reserved flag": ("gzip", gzip_head(0x20, b""), 1, 0),
    "gzip, the head of another member": ("gzip", packed("gzip") + b"\x1f\x8b", 1, 0),
    "zlib": ("gzip", zlib.compress(PAYLOAD), 0, 0),
}


def test_what_a_producer_may_send_java_reads(jars, oracle):
    """Every option of the codecs, also in blocks of which there are several."""
    blobs = [
        with_payload(codec, payload, LONG if len(payload) > 200_000 else WITH_HEADERS)
        for codec, payload, _, _ in OPTIONS.values()
    ]
    answers = ask(jars, oracle, [f"READ {blob.hex()}" for blob in blobs])
    found = {}
    for name, blob, answer in zip(OPTIONS, blobs, answers, strict=True):
        sent = bytearray(blob)
        pack_into(">q", sent, 0, 0)
        try:
            prepare_produced(sent, ProduceRules(1 << 20), NOW_MS)
            is_taken = True
        except BatchError:
            is_taken = False
        if is_taken:
            assert answer == ours(blob), name
        found[name] = (answer.startswith("OK"), is_taken)
    assert found == {name: (bool(k), bool(f)) for name, (_, _, k, f) in OPTIONS.items()}


def mutated(dice: random.Random, blob: bytes) -> bytes:
    """The blob with bytes changed and the first batch's CRC put right."""
    changed = bytearray(blob)
    for _ in range(dice.choice((1, 1, 2, 4))):
        changed[dice.choice((dice.randrange(8, min(len(blob), 90)), dice.randrange(len(blob))))] = (
            dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        )
    length = int.from_bytes(changed[8:12], signed=True)
    if 26 <= length + 12 <= len(changed):
        if changed[16] < 2:
            pack_into(">I", changed, 12, crc32(changed[16 : 12 + length]))
        elif changed[16] == 2 and length >= 49:
            stamp_crc(changed)
    return bytes(changed)


def test_what_we_take_kafka_takes_for_the_same(jars, oracle):
    """The other way round we are stricter: see `legacy` and `walk`."""
    dice = random.Random(11)
    sources = [blob for blob in old_blobs() + new_blobs() if len(blob) < 2000]
    blobs = [mutated(dice, dice.choice(sources)) for _ in range(MUTATIONS)]
    answers = ask(jars, oracle, [f"READ {blob.hex()}" for blob in blobs])
    taken = 0
    for blob, answer in zip(blobs, answers, strict=True):
        try:
            found = ours(blob)
        except BatchError:
            continue
        assert answer == found, blob.hex()
        taken += 1
    assert MUTATIONS // 20 < taken < MUTATIONS
