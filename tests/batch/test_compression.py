"""The codecs: there and back, foreign shapes of the same, damage, and bombs."""

from __future__ import annotations

import gzip
import pickle
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from fencepost.batch.compression import CODECS, codec_of, compress, decompress
from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.wire.errors import ErrorCode

from .samples import CODEC_NAMES
from .test_legacy import xxhash32

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


SKIPPABLE = b"\x5f\x2a\x4d\x18" + pack("<I", 4) + b"skip"


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
        "zstd among skippable frames": (
            "zstd",
            SKIPPABLE + compress("zstd", INPUTS["text"]) + SKIPPABLE,
        ),
        "snappy with its version turned": (
            "snappy",
            (lambda packed: packed[:8] + pack("<ii", 1, 1) + packed[16:])(
                compress("snappy", INPUTS["text"])
            ),
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
def test_garbage_never_escapes_the_error(codec, data):
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


def zstd_that_declares(size: int, blocks: int) -> bytes:
    """A frame that says it holds `size` bytes, of run-length blocks of 128 KiB each."""
    body = b"\x02\x00\x10\x00" * (blocks - 1) + b"\x03\x00\x10\x00"
    return b"\x28\xb5\x2f\xfd\xc0\x50" + size.to_bytes(8, "little") + body


def lz4_that_declares(size: int, data: bytes) -> bytes:
    """A frame that says it holds `size` bytes, with a sound header."""
    frame = lz4.frame.compress(data, block_linked=False, store_size=True)
    head = frame[:6] + pack("<Q", size)
    return head + bytes([xxhash32(head[4:]) >> 8 & 0xFF]) + frame[15:]


def zstd_with_window(log2: int, blocks: int) -> bytes:
    """A frame of run-length blocks of 128 KiB that wants a window of 2**log2 bytes."""
    head = b"\x28\xb5\x2f\xfd\x00" + bytes([log2 - 10 << 3])
    return head + (b"\x02\x00\x10" + b"\0") * blocks + b"\x01\x00\x00"


def framed_snappy(*blocks: bytes) -> bytes:
    return compress("snappy", b"") + b"".join(pack(">i", len(block)) + block for block in blocks)


HOLLOW = b"\xff\xff\xff\xff\x07" + b"\xfe\x01\x00" * 30  # two gigabytes less one, of 90
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: gzip_of_zeros(1 << 28)),
    "gzip members": ("gzip", lambda: gzip_of_zeros(1 << 21) * 50),
    "lz4": ("lz4", lambda: compress("lz4", bytes(1 << 28))),
    "lz4 declared": ("lz4", lambda: lz4_that_declares(1 << 62, bytes(1 << 25))),
    "lz4 blocks of 4 MiB": ("lz4", lambda: lz4.frame.compress(bytes(1 << 28), block_size=7)),
    "zstd": ("zstd", lambda: compress("zstd", bytes(1 << 28))),
    "zstd declared": ("zstd", lambda: zstd_that_declares(1 << 30, 1 << 13)),
    "zstd window": ("zstd", lambda: zstd_with_window(27, 5000)),
    "zstd frames": ("zstd", lambda: compress("zstd", bytes(1 << 22)) * 1000),
    "snappy": ("snappy", lambda: compress("snappy", bytes(1 << 26))),
    "raw snappy": ("snappy", lambda: bytes(cramjam.snappy.compress_raw(bytes(1 << 26)))),
}
"""Codec and how to make it: most take longer to make than to refuse."""
LIES = {
    "lz4 declares an exbibyte": ("lz4", lz4_that_declares(1 << 62, b"short")),
    "zstd window of 2 GiB": ("zstd", zstd_with_window(31, 4)),
    "zstd window of 2 TiB": ("zstd", zstd_with_window(41, 4)),
    "zstd declares an exbibyte": ("zstd", zstd_that_declares(1 << 60, blocks=3)),
    "raw snappy declares 2 GiB": ("snappy", HOLLOW),
    "snappy chunk": ("snappy", framed_snappy(HOLLOW)),
    "snappy chunk length": ("snappy", compress("snappy", b"") + pack(">i", 2**31 - 1) + b"x"),
}
MEMORY = """
import pickle, sys
from fencepost.batch.compression import compress, decompress
from fencepost.batch.errors import DecompressionError

def kib(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))

bombs = pickle.load(sys.stdin.buffer)
for codec in ("gzip", "lz4", "zstd", "snappy"):
    decompress(codec, compress(codec, bytes(1 << 20)))
for name, codec, bomb in bombs:
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the high-water mark begins anew
    before = kib("VmRSS")
    try:
        decompress(codec, bomb, 1 << 20)
    except DecompressionError as error:
        print(name, error.code.name, kib("VmHWM") - before, sep=";")
"""


@pytest.fixture(scope="module")
def bombs() -> dict[str, tuple[str, bytes]]:
    return {name: (codec, make()) for name, (codec, make) in BOMBS.items()}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_bombs_and_lies_cost_the_process_little_memory(bombs):
    """What the libraries take for themselves counts too, so a process of its own is asked."""
    asked = [(name, *bomb) for name, bomb in (bombs | LIES).items()]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], input=pickle.dumps(asked), capture_output=True, check=True
    )
    found = [line.split(";") for line in done.stdout.decode().splitlines()]
    assert [name for name, *_ in found] == [name for name, *_ in asked]
    for name, _, grown_kib in found:
        assert int(grown_kib) < 12 * 1024, name


@pytest.mark.parametrize(("codec", "lie"), LIES.values(), ids=LIES)
def test_sizes_that_are_lies_are_damage(codec, lie):
    assert code_of(codec, lie) is ErrorCode.CORRUPT_MESSAGE


def test_frames_that_want_a_dictionary_are_damage():
    dictionary = zstandard.train_dictionary(
        400, [random.Random(seed).randbytes(50) * 2 + b"hello" for seed in range(300)]
    )
    packed = zstandard.ZstdCompressor(dict_data=dictionary).compress(INPUTS["text"])
    assert code_of("zstd", packed) is ErrorCode.CORRUPT_MESSAGE
    head = b"\x61\x40" + pack("<I", 77)  # lz4, with a dictionary's id
    frame = b"\x04\x22\x4d\x18" + head + bytes([xxhash32(head) >> 8 & 0xFF])
    assert code_of("lz4", frame + compress("lz4", b"data")[7:]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_the_limit(name, bombs):
    codec, bomb = bombs[name]
    code_of(codec, bomb, MEBIBYTE)  # whatever is imported or made once is there now
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


def test_zstd_works_in_many_threads_at_once_and_behind_damage():
    """Contexts of zstd are kept, and no two threads may use one."""
    wanted = random.Random(1).randbytes(300_000) * 2

    def there_and_back(level: int) -> None:
        for _ in range(20):
            packed = compress("zstd", wanted, level)
            assert zstandard.get_frame_parameters(packed).content_size == len(wanted)
            assert code_of("zstd", packed[:-9]) is ErrorCode.CORRUPT_MESSAGE
            assert code_of("zstd", packed, 1000) is ErrorCode.MESSAGE_TOO_LARGE
            assert decompress("zstd", packed) == wanted

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(there_and_back, [1, 2, 3, 1]))


def test_a_kept_zstd_context_has_the_level_that_is_asked_for():
    fast, small = (compress("zstd", INPUTS["text"], level) for level in (-50, 19))
    assert len(small) < len(fast)
    assert compress("zstd", INPUTS["text"], -50) == fast
