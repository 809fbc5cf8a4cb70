"""Batches spelled out byte by byte, as Kafka's format description has them."""

from __future__ import annotations

import pytest

from fencepost.batch.control import build_leader_change
from fencepost.batch.header import read_header
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import BatchBuilder, Record, read_records

# Two records: ("k1", "v1") at 1000 ms with one header, and a tombstone for "k2" at 1003 ms.
PLAIN = bytes.fromhex(
    "0000000000000000"  # base offset 0
    "0000004e"  # 78 bytes follow
    "ffffffff"  # leader epoch -1
    "02"  # magic
    "74d2c777"  # CRC-32C
    "0000"  # attributes: not compressed
    "00000001"  # last offset delta
    "00000000000003e8"  # base timestamp 1000
    "00000000000003eb"  # max timestamp 1003
    "ffffffffffffffff"  # producer id -1
    "ffff"  # producer epoch -1
    "ffffffff"  # base sequence -1
    "00000002"  # two records
    "26"  # record of 19 bytes
    "00"  # attributes
    "00"  # timestamp delta 0
    "00"  # offset delta 0
    "046b31"  # "k1"
    "047631"  # "v1"
    "02"  # one header
    "0a7472616365"  # "trace"
    "0401ff"  # two bytes
    "10"  # record of 8 bytes
    "00"
    "06"  # timestamp delta 3
    "02"  # offset delta 1
    "046b32"  # "k2"
    "01"  # null
    "00"  # no headers
)


def build_plain() -> BatchBuilder:
    builder = BatchBuilder()
    builder.append(b"k1", b"v1", [("trace", b"\x01\xff")], timestamp_ms=1000)
    builder.append(b"k2", None, timestamp_ms=1003)
    return builder


def test_building_gives_these_bytes():
    assert build_plain().build() == PLAIN


def test_reading_them_gives_the_records():
    assert list(read_records(PLAIN)) == [
        Record(0, 1000, 0, b"k1", b"v1", (("trace", b"\x01\xff"),)),
        Record(1, 1003, 0, b"k2", None, ()),
    ]


def test_the_header_reads_as_it_is_written():
    header = prepare_produced(PLAIN, ProduceRules(len(PLAIN))).header
    assert header == read_header(PLAIN)
    assert header == (0, 78, -1, 2, 0x74D2C777, 0, 1, 1000, 1003, -1, -1, -1, 2)
    assert header.size_bytes == len(PLAIN) == 90
    assert (header.last_offset, header.next_offset, header.last_sequence) == (1, 2, -1)


def test_every_stamp_has_its_place():
    batch = build_plain().build(
        base_offset=0x0102030405060708,
        leader_epoch=0x11121314,
        producer_id=0x2122232425262728,
        producer_epoch=0x3132,
        base_sequence=0x41424344,
        transactional=True,
    )
    assert batch[0:8].hex() == "0102030405060708"
    assert batch[12:16].hex() == "11121314"
    assert batch[21:23].hex() == "0010"
    assert batch[43:57].hex() == "2122232425262728313241424344"


@pytest.mark.parametrize(
    ("codec", "attributes"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_codecs_have_their_number_and_their_mark(codec, attributes):
    marks = {
        "gzip": "1f8b08",
        "snappy": "82534e41505059000000000100000001",
        "lz4": "04224d18",
        "zstd": "28b52ffd",
    }
    builder = BatchBuilder(codec)
    builder.append(None, b"v", timestamp_ms=0)
    batch = builder.build()
    assert batch[22] == attributes
    assert batch[61:].hex().startswith(marks[codec])


def test_a_leader_change_is_a_control_batch_with_a_flexible_value():
    batch = build_leader_change(
        leader_id=1, voters=[1, 2], granting_voters=[1], leader_epoch=7, timestamp_ms=5
    )
    assert batch[12:16].hex() == "00000007"
    assert batch[21:23].hex() == "0020"
    assert batch[61:].hex() == (
        "44"  # record of 34 bytes
        "000000"
        "08" "00000002"  # key: version 0, type 2
        "30"  # value of 24 bytes
        "0000" "00000001"  # version 0, leader 1
        "03" "0000000100" "0000000200"  # two voters, no tags
        "02" "0000000100"  # one of them granted
        "00"  # no tags
        "00"  # no headers
    )  # fmt: skip
