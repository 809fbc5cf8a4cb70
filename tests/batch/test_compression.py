"""The codecs: there and back, foreign shapes of the same, damage, and bombs."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from fencepost.batch.compression import CODECS, codec_of, compress, decompress
from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.wire.errors import ErrorCode

from .samples import CODEC_NAMES

STREAMED = ["gzip", "lz4", "zstd"]
RANDOM = random.Random(1).randbytes(100_000)
INPUTS = {
    "empty": b"",
    "one": b"x",
    "text": b"the quick brown fox " * 4000,
    "random": RANDOM,
    "mixed": RANDOM + bytes(200_000) + RANDOM[:777],
}
MEBIBYTE = 1 << 20


def code_of(codec: str, data: bytes, max_bytes: int = MEBIBYTE) -> ErrorCode:
    with pytest.raises(DecompressionError) as caught:
        decompress(codec, data, max_bytes)
    return caught.value.code


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("name", INPUTS)
def test_there_and_back(codec, name):
    data = INPUTS[name]
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(CODECS[codec], memoryview(bytearray(packed)), MEBIBYTE) == data
    if data:
        assert code_of(codec, packed, len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODEC_NAMES)
@settings(max_examples=40)
@given(data=st.binary(max_size=3000), times=st.integers(1, 40))
def test_there_and_back_for_anything(codec, data, times):
    assert decompress(codec, compress(codec, data * times), MEBIBYTE) == data * times


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 1), ("gzip", 9), ("lz4", 0), ("lz4", 16), ("zstd", -5), ("zstd", 22)],
)
def test_levels(codec, level):
    data = INPUTS["mixed"]
    assert decompress(codec, compress(codec, data, level), MEBIBYTE) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 10), ("gzip", 0), ("lz4", 17), ("zstd", 23), ("snappy", 1), ("none", 1)],
)
def test_levels_that_are_none(codec, level):
    with pytest.raises(ValueError, match=r"level"):
        compress(codec, b"x", level)


@pytest.mark.parametrize("codec", ["brotli", "", 5, 7, -1])
def test_codecs_that_are_none(codec):
    for call in (
        lambda: codec_of(codec),
        lambda: compress(codec, b""),
        lambda: decompress(codec, b""),
    ):
        with pytest.raises(BatchError) as caught:
            call()
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert "zstd" in str(caught.value)


def frame_with(**options: object) -> bytes:
    return lz4.frame.compress(INPUTS["text"], **options)


@pytest.mark.parametrize(
    ("codec", "packed"),
    {
        "gzip in two members": ("gzip", gzip.compress(b"the quick brown fox ") * 4000),
        "raw snappy": ("snappy", bytes(cramjam.snappy.compress_raw(INPUTS["text"]))),
        "snappy streams joined": ("snappy", compress("snappy", INPUTS["text"][:40000]) * 2),
        "lz4 linked": ("lz4", frame_with(block_linked=True)),
        "lz4 checksummed": ("lz4", frame_with(content_checksum=True, block_checksum=True)),
        "lz4 sized": ("lz4", frame_with(store_size=True, block_size=7)),
        "zstd unsized": (
            "zstd",
            zstandard.ZstdCompressor(write_content_size=False).compress(INPUTS["text"]),
        ),
        "zstd checksummed": (
            "zstd",
            zstandard.ZstdCompressor(write_checksum=True).compress(INPUTS["text"]),
        ),
        "zstd frames joined": (
            "zstd",
            compress("zstd", INPUTS["text"][:40000]) + compress("zstd", INPUTS["text"][40000:]),
        ),
    }.values(),
)
def test_what_other_clients_may_write(codec, packed):
    assert decompress(codec, packed, MEBIBYTE) == INPUTS["text"]


def test_lz4_is_as_java_reads_it():
    """Version 1, independent blocks (bits 6 and 5 of the flags), blocks of 64 KiB."""
    packed = compress("lz4", INPUTS["text"])
    assert packed[4] & 0b1110_0000 == 0b0110_0000
    assert packed[5] == 4 << 4


@pytest.mark.parametrize("codec", STREAMED)
@pytest.mark.parametrize("name", ["empty", "one", "text"])
def test_a_stream_cut_anywhere_is_damaged(codec, name):
    packed = compress(codec, INPUTS[name])
    for size in range(len(packed)):
        assert code_of(codec, packed[:size]) is ErrorCode.CORRUPT_MESSAGE


def test_snappy_cut_inside_a_block_is_damaged():
    packed = compress("snappy", INPUTS["one"])
    for size in [*range(16), *range(17, len(packed))]:
        assert code_of("snappy", packed[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", STREAMED)
def test_bytes_behind_a_stream_are_damage(codec):
    for tail in (b"x", b"\0" * 20, compress(codec, b"y")[:3]):
        assert code_of(codec, compress(codec, b"data") + tail) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=150)
@given(data=st.data())
def test_rubbish_never_escapes_the_error(codec, data):
    packed = bytearray(compress(codec, INPUTS["text"][:500]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for attempt in (bytes(packed), data.draw(st.binary(max_size=60))):
        try:
            size = len(decompress(codec, attempt, 5000))
        except DecompressionError:
            continue
        assert size <= 5000


@pytest.mark.parametrize(
    "block",
    [
        b"\xff\xff\xff\xff\x0f",  # 4 GiB of nothing
        b"\x80\x80\x80\x01" + b"\xfe\x01\x00" * 10,
        b"\x80\x80\x80\x80\x80\x80",
        b"",
    ],
)
def test_a_snappy_length_is_not_believed(block):
    assert code_of("snappy", block) is ErrorCode.CORRUPT_MESSAGE
    framed = compress("snappy", b"") + len(block).to_bytes(4, "big") + block
    assert code_of("snappy", framed) is ErrorCode.CORRUPT_MESSAGE
    assert code_of("snappy", compress("snappy", b"") + b"\xff" * 4) is ErrorCode.CORRUPT_MESSAGE


def gzip_of_zeros(size: int) -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    parts = [stream.compress(bytes(MEBIBYTE)) for _ in range(size // MEBIBYTE)]
    return b"".join(parts) + stream.flush()


def zstd_that_declares(size: int) -> bytes:
    """A frame that says it holds `size` bytes, of run-length blocks of 128 KiB each."""
    blocks = (b"\x02\x00\x10" + b"\0") * (size >> 17)
    return b"\x28\xb5\x2f\xfd\xc0\x50" + size.to_bytes(8, "little") + blocks + b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("codec", "bomb"),
    {
        "gzip": ("gzip", gzip_of_zeros(1 << 28)),
        "gzip members": ("gzip", gzip_of_zeros(1 << 21) * 50),
        "lz4": ("lz4", compress("lz4", bytes(1 << 28))),
        "zstd": ("zstd", compress("zstd", bytes(1 << 28))),
        "zstd declared": ("zstd", zstd_that_declares(1 << 34)),
        "snappy": ("snappy", compress("snappy", bytes(1 << 26))),
        "raw snappy": ("snappy", bytes(cramjam.snappy.compress_raw(bytes(1 << 26)))),
    }.values(),
)
def test_a_bomb_costs_no_more_than_the_limit(codec, bomb):
    tracemalloc.start()
    try:
        assert code_of(codec, bomb, MEBIBYTE) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEBIBYTE


def test_many_tiny_members_stay_cheap():
    """A megabyte of empty gzip members: quadratic copying would take seconds."""
    assert decompress("gzip", gzip.compress(b"") * 50_000, 10) == b""
