"""Which partition a keyed record goes to: Kafka's default, so that keys meet their old partitions.

murmur2 (Austin Appleby's public-domain hash) with Kafka's seed, made non-negative by clearing the
sign bit, modulo the number of partitions. Keys that were hashed by another client land alike.
"""

from __future__ import annotations

SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit murmur2 of `data`."""
    length = len(data)
    h = (SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition, of so many, that Kafka's default partitioner gives `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
