"""`compression.type` of a topic: batches that come with another codec are compressed anew.

The default, `producer`, keeps what comes, and is what to use: this costs the event loop the time of
undoing one codec and doing another. Everything in the header but length, codec and CRC stays.

Kafka's default lz4 level, 9, stands for its fast compressor, and so it does here; gzip's -1 is the
library's own default.
"""

from __future__ import annotations

from fencepost.batch.compression import Codec, codec_of, compress
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    pack_header,
    stamp_crc,
    unpack_header,
)
from fencepost.batch.records import read_payload
from fencepost.log.config import LogConfig
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

KEEP = "producer"
LZ4_FAST_LEVEL = 9
LZ4_LEVEL_MAX = 16


def maybe_recompress(
    batch: Buffer, header: BatchHeader, config: LogConfig
) -> tuple[Buffer, BatchHeader]:
    """The batch as the topic stores it, and its header: the same if nothing is to be done.

    `batch` is a validated one. Raises BatchError MESSAGE_TOO_LARGE if it has grown over the topic's
    limit by that.
    """
    if config.compression_type == KEEP:
        return batch, header
    codec = _codec(config.compression_type)
    if codec == header.compression:
        return batch, header
    payload = compress(codec, read_payload(batch, 0, header), _level(codec, config))
    made = bytearray(HEADER_BYTES + len(payload))
    if len(made) > config.max_message_bytes:
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"compressed as {config.compression_type} the batch has {len(made)} bytes, "
            f"the topic allows {config.max_message_bytes}",
        )
    made[HEADER_BYTES:] = payload
    changed = header._replace(
        batch_length=len(made) - LENGTH_OVERHEAD_BYTES,
        attributes=(header.attributes & ~CODEC_MASK) | codec,
    )
    pack_header(made, changed)
    stamp_crc(made)
    return made, unpack_header(made)


def _codec(name: str) -> Codec:
    return Codec.NONE if name == "uncompressed" else codec_of(name)


def _level(codec: Codec, config: LogConfig) -> int | None:
    if codec is Codec.GZIP:
        return None if config.compression_gzip_level < 0 else config.compression_gzip_level
    if codec is Codec.LZ4:
        level = config.compression_lz4_level
        return None if level == LZ4_FAST_LEVEL else min(level, LZ4_LEVEL_MAX)
    return config.compression_zstd_level if codec is Codec.ZSTD else None
