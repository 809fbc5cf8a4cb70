"""Which partition a key belongs to, as Kafka's Java client decides it.

MurmurHash2 (Austin Appleby, public domain) with the seed 0x9747b28c over the key's bytes, its sign
bit dropped, modulo the number of partitions. Every client that wants its keys where Java's go does
the same; librdkafka calls it `murmur2_random`. Null keys have no partition of their own.
"""

from __future__ import annotations

from typing import Any

from fencepost.batch import backend
from fencepost.wire.types import Buffer

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: Buffer) -> int:
    """The hash as a signed 32-bit number."""
    kernels: Any = backend.kernels
    return _murmur2_python(key) if kernels is None else int(kernels.murmur2(key))


def partition_for_key(key: Buffer, partitions: int) -> int:
    """The partition of `key` in a topic with this many; 0 <= result < partitions."""
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    kernels: Any = backend.kernels
    if kernels is None:
        return (_murmur2_python(key) & 0x7FFFFFFF) % partitions
    return int(kernels.partition_of_key(key, partitions))


def _murmur2_python(key: Buffer) -> int:
    size = len(key)
    value = (_SEED ^ size) & _MASK
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> 24
        value = (value * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    if size > whole:
        value ^= int.from_bytes(key[whole:size], "little")
        value = value * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    value ^= value >> 15
    return value - (1 << 32) if value >= 1 << 31 else value
