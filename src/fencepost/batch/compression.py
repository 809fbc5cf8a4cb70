"""The four codecs of record batches: names, ids, writing, and reading within a limit.

A compressed batch has its records in one block: a gzip stream, an lz4 frame, a zstd frame, or
snappy, which is framed as snappy-java does it (Kafka's own way) or comes as one raw block (as some
clients write it); we write the former and read both.

Sizes inside a block were written by the producer, so none is trusted: streams are inflated piece by
piece until they end or the limit is passed, and a declared snappy length is checked against the
most that its input could give before anything is allocated. A kilobyte of zstd can stand for 30
megabytes; what it can cost here is the limit.

A stream must be complete and alone: one that is cut, or has bytes behind it, is damaged. Several
gzip members or zstd frames in a row are one stream, as they are for Java, and zstd's skippable
frames are passed over; of lz4 there is one frame, since Java reads no second. No stream may want a
dictionary, because a batch cannot say which.

lz4 frames whose blocks depend on each other are read, as by librdkafka; Java's reader, which is
every Java consumer's, knows independent blocks only. So no producer may send them
(`check_is_portable`).

snappy-java's framing: 8 bytes magic, int32 version, int32 oldest compatible version, then blocks of
int32 length and raw snappy. The head may come again where streams were joined. There has been one
version only, and some clients write its numbers with the wrong end first, so like Java's reader
ours does not look at them.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Default limit for the records of one batch after decompression.

Far above what a producer puts into a batch (Kafka's default is 1 MiB before compression)."""

_FIRST_PIECE_BYTES = 64 * 1024
_PIECE_BYTES_MAX = 4 * 1024 * 1024
# zstd's own default; a window is address space, and memory only as far as output fills it.
_ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = 0x184D2A5  # and one more digit: the magic of frames that hold no data
_GZIP_WBITS = 31
# zlib copies what it leaves over, so it is fed little at a time: many tiny members stay cheap.
_GZIP_FEED_BYTES = 16 * 1024
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEAD = Struct(">8sii")
_SNAPPY_LENGTH = Struct(">i")
_SNAPPY_BLOCK_BYTES = 32 * 1024
# A copy element of three bytes gives at most 64 bytes.
_SNAPPY_RATIO_MAX = 22
_LZ4_LEVEL_DEFAULT = 0
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT = 0b10_0000  # in the frame's first flags: no block refers to one before it
_LZ4_DESCRIPTOR = _LZ4_MAGIC + b"\x60\x40"  # independent blocks of 64 KiB, nothing else: ours
# xxhash32 of these six bytes, second byte; right would be that of the last two, without the magic.
_LZ4_BROKEN_CHECKSUM = 0x1A
# A thread's zstd contexts: to make one costs a third of what a small batch does. zstd itself gives
# back the window of an exceptional frame when 128 others in a row needed much less.
_KEPT = threading.local()


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS: dict[str, Codec] = {codec.name.lower(): codec for codec in Codec}
"""Codecs by the names that Kafka's settings use."""


def codec_of(codec: str | int) -> Codec:
    """The codec of this name or id.

    Raises BatchError UNSUPPORTED_COMPRESSION_TYPE, naming what there is.
    """
    try:
        return CODECS[codec] if isinstance(codec, str) else Codec(codec)
    except (KeyError, ValueError):
        raise BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression {codec!r} does not exist, only {', '.join(CODECS)} (0 to 4)",
        ) from None


def compress(codec: str | int, data: Buffer, level: int | None = None) -> bytes:
    """`data` as the records block of a batch with this codec.

    `level` is the codec's own (gzip 1-9, lz4 0-16, zstd -131072-22; none and snappy have none);
    None takes a fast one. Raises BatchError for an unknown codec, ValueError for a level the codec
    does not have.
    """
    return _COMPRESS[codec_of(codec)](data, level)


def decompress(codec: str | int, data: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """What `compress` was given, or another client's equivalent of it.

    Raises DecompressionError: MESSAGE_TOO_LARGE when it is more than `max_bytes`, CORRUPT_MESSAGE
    when `data` is not exactly one intact stream; BatchError for an unknown codec.
    """
    return _DECOMPRESS[codec_of(codec)](data, max_bytes)


def check_is_portable(lz4_frame: Buffer) -> None:
    """Raise unless Java's clients read what `decompress` reads of this.

    DecompressionError CORRUPT_MESSAGE for a frame with blocks that depend on each other. What is no
    frame is passed over: it is damaged.
    """
    if bytes(lz4_frame[:4]) != _LZ4_MAGIC:
        return
    if len(lz4_frame) < 5 or lz4_frame[4] & _LZ4_INDEPENDENT:
        return
    raise DecompressionError(
        ErrorCode.CORRUPT_MESSAGE,
        "the lz4 frame has blocks that depend on each other, which no Java client reads;"
        " the producer has to set independent blocks",
    )


def _damaged(codec: str, what: object) -> DecompressionError:
    return DecompressionError(ErrorCode.CORRUPT_MESSAGE, f"damaged {codec} data: {what}")


def _too_large(codec: str, max_bytes: int) -> DecompressionError:
    return DecompressionError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"records grow beyond the limit of {max_bytes} bytes when {codec} is undone",
    )


def _check_level(codec: str, level: int, least: int, most: int) -> None:
    if not least <= level <= most:
        raise ValueError(f"{codec} has levels {least} to {most}, not {level}")


class _Pieces:
    """Collects output piece by piece, never more than the limit."""

    def __init__(self, codec: str, input_bytes: int, max_bytes: int) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._next_bytes = max(_FIRST_PIECE_BYTES, min(4 * input_bytes, _PIECE_BYTES_MAX))
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def room(self) -> int:
        """How much to ask for next: at least 1, and one more than the limit allows at most."""
        left = self._max_bytes + 1 - self._size_bytes
        return min(self._next_bytes, left)

    def add(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
        self._size_bytes += len(piece)
        if self._size_bytes > self._max_bytes:
            raise _too_large(self._codec, self._max_bytes)
        self._next_bytes = min(2 * self._next_bytes, _PIECE_BYTES_MAX)

    def join(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _compress_none(data: Buffer, level: int | None) -> bytes:
    if level is not None:
        raise ValueError(f"without compression there is no level {level}")
    return bytes(data)


def _decompress_none(data: Buffer, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise DecompressionError(
            ErrorCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes are over the limit of {max_bytes}"
        )
    return bytes(data)


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    if level is None:
        level = zlib.Z_DEFAULT_COMPRESSION
    else:
        _check_level("gzip", level, 1, 9)
    return zlib.compress(data, level, wbits=_GZIP_WBITS)


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    pieces = _Pieces("gzip", len(data), max_bytes)
    view = memoryview(data)
    fed = 0  # bytes of the input that zlib has taken
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        rest: Buffer = b""
        try:
            while not member.eof:
                if not rest:
                    rest = view[fed : fed + _GZIP_FEED_BYTES]
                    fed += len(rest)
                piece = member.decompress(rest, pieces.room())
                if not (piece or rest):
                    raise _damaged("gzip", "the stream is cut")
                pieces.add(piece)
                rest = member.unconsumed_tail
        except zlib.error as error:
            raise _damaged("gzip", error) from None
        fed -= len(member.unused_data)
        if fed == len(view):
            return pieces.join()


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    if level is None:
        level = _LZ4_LEVEL_DEFAULT
    _check_level("lz4", level, 0, 16)
    return bytes(
        lz4.frame.compress(
            data,
            compression_level=level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,  # see `check_is_portable`
            store_size=False,
        )
    )


def _decompress_lz4(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    if len(data) > 4 and data[4] & 1:
        raise _damaged("lz4", "the frame wants a dictionary")
    pieces = _Pieces("lz4", len(data), max_bytes)
    stream = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    try:
        while not stream.eof:
            piece = stream.decompress(rest, max_length=pieces.room())
            if not piece and not stream.eof:
                raise _damaged("lz4", "the frame is cut")
            pieces.add(piece)
            rest = b""
    except (RuntimeError, EOFError) as error:
        raise _damaged("lz4", error) from None
    if stream.unused_data:
        raise _damaged("lz4", f"{len(stream.unused_data)} bytes behind the frame")
    return pieces.join()


def break_lz4_checksum(frame: bytes) -> bytes:
    """A frame of `compress`, its header checksum as format v0 has it (KAFKA-3160).

    That covers the magic as well, which it should not; Kafka before 0.10 reads no other.
    """
    assert frame.startswith(_LZ4_DESCRIPTOR), "not a frame of ours"
    at = len(_LZ4_DESCRIPTOR)
    return frame[:at] + bytes([_LZ4_BROKEN_CHECKSUM]) + frame[at + 1 :]


def correct_lz4_checksum(frame: Buffer) -> bytes:
    """An lz4 frame whose header checksum was not checked, with one that matches.

    The library writes the header again, without the content's size, which Kafka does not read
    either. Raises DecompressionError for a header that cannot be.
    """
    import lz4.frame

    head = bytes(frame[:6])
    if len(head) < 6 or not head.startswith(_LZ4_MAGIC):
        raise _damaged("lz4", "no frame begins here")
    flags, block_size = head[4], head[5] >> 4
    if flags >> 6 != 1 or flags & 0b11 or not 4 <= block_size <= 7 or head[5] & 0x8F:
        raise _damaged("lz4", "a frame header that cannot be, or that wants a dictionary")
    sized = bool(flags & 0b1000)
    corrected = lz4.frame.compress_begin(
        lz4.frame.create_compression_context(),
        block_size=block_size,
        block_linked=not flags & _LZ4_INDEPENDENT,
        block_checksum=bool(flags & 0b1_0000),
        content_checksum=bool(flags & 0b100),
    )
    return bytes(corrected) + bytes(frame[7 + 8 * sized :])


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    if level is None:
        level = 3
    _check_level("zstd", level, -131072, zstandard.MAX_COMPRESSION_LEVEL)
    if getattr(_KEPT, "zstd_level", None) != level:
        _KEPT.zstd_compressor = zstandard.ZstdCompressor(level=level)
        _KEPT.zstd_level = level
    return bytes(_KEPT.zstd_compressor.compress(data))


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    _check_zstd_is_whole(data)
    pieces = _Pieces("zstd", len(data), max_bytes)
    if not hasattr(_KEPT, "zstd_decompressor"):
        _KEPT.zstd_decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    try:
        with _KEPT.zstd_decompressor.stream_reader(data, read_across_frames=True) as reader:
            while piece := reader.read(pieces.room()):
                pieces.add(piece)
    except zstandard.ZstdError as error:
        raise _damaged("zstd", error) from None
    return pieces.join()


def _check_zstd_is_whole(data: Buffer) -> None:
    """Raise unless `data` is whole zstd frames and nothing else.

    The stream reader takes a cut frame for a short one, so the blocks are counted off here. Frame
    and block headers as in RFC 8878.
    """
    pos, size = 0, len(data)
    while pos < size or size == 0:
        if pos + 8 <= size and int.from_bytes(data[pos : pos + 4], "little") >> 4 == (
            _ZSTD_SKIPPABLE
        ):
            pos += 8 + int.from_bytes(data[pos + 4 : pos + 8], "little")
            if pos > size:
                raise _damaged("zstd", "the frame is cut")
            continue
        if bytes(data[pos : pos + 4]) != _ZSTD_MAGIC or pos + 5 > size:
            raise _damaged("zstd", f"no frame begins at byte {pos}")
        descriptor = data[pos + 4]
        if descriptor & 3:
            raise _damaged("zstd", "the frame wants a dictionary")
        single_segment = descriptor >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        pos += 5 + (1 - single_segment) + content_size_bytes
        is_last = False
        while not is_last:
            if pos + 3 > size:
                raise _damaged("zstd", "the frame is cut")
            block = int.from_bytes(data[pos : pos + 3], "little")
            is_last = bool(block & 1)
            is_run_length = block >> 1 & 3 == 1
            pos += 3 + (1 if is_run_length else block >> 3)
        pos += 4 * (descriptor >> 2 & 1)
        if pos > size:
            raise _damaged("zstd", "the frame is cut")


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    import cramjam

    if level is not None:
        raise ValueError(f"snappy has no levels, so no level {level}")
    view = memoryview(data)
    parts = [_SNAPPY_HEAD.pack(_SNAPPY_MAGIC, 1, 1)]
    for start in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += [_SNAPPY_LENGTH.pack(len(block)), block]
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _SNAPPY_MAGIC:
        return _decompress_snappy_block(view, max_bytes, max_bytes)
    parts: list[bytes] = []
    left, pos = max_bytes, 0
    while pos < len(view):
        if bytes(view[pos : pos + 8]) == _SNAPPY_MAGIC:
            pos = _pass_snappy_head(view, pos)
            continue
        if pos + 4 > len(view):
            raise _damaged("snappy", "a block's length is cut")
        (length,) = _SNAPPY_LENGTH.unpack_from(view, pos)
        pos += 4
        if not 0 <= length <= len(view) - pos:
            raise _damaged("snappy", f"block of {length} bytes, {len(view) - pos} are left")
        parts.append(_decompress_snappy_block(view[pos : pos + length], left, max_bytes))
        left -= len(parts[-1])
        pos += length
    return b"".join(parts)


def _pass_snappy_head(view: memoryview, pos: int) -> int:
    if pos + _SNAPPY_HEAD.size > len(view):
        raise _damaged("snappy", "the head is cut")
    return pos + _SNAPPY_HEAD.size


def _decompress_snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    import cramjam

    declared = _snappy_declared_bytes(block)
    if declared > _SNAPPY_RATIO_MAX * len(block):
        raise _damaged("snappy", f"{declared} bytes cannot come of {len(block)}")
    if declared > left:
        raise _too_large("snappy", max_bytes)
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged("snappy", error) from None


def _snappy_declared_bytes(block: memoryview) -> int:
    value = 0
    for index in range(min(len(block), 5)):
        value |= (block[index] & 0x7F) << 7 * index
        if block[index] < 0x80:
            return value
    raise _damaged("snappy", "a block begins with no length")


_COMPRESS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[Codec, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
