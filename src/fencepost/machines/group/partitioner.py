"""Which partition of `__consumer_offsets` a group lives in.

Java's `String.hashCode` over UTF-16 code units, its absolute value modulo the number of partitions.
The absolute value of the least int, which has none, is 0 (`Utils.abs`); the partitioner of
producers masks the sign bit instead, so the two must not be mixed up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_INT_BITS: Final = 0xFFFFFFFF
_SIGN_BIT: Final = 0x80000000


def java_string_hash(text: str) -> int:
    """Java's `text.hashCode()`, a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & _INT_BITS
    return value - (1 << 32) if value & _SIGN_BIT else value


_hash_of_short: Final = lru_cache(maxsize=16_384)(java_string_hash)
_SHORT_MAX: Final = 128
"""Letters of an id whose hash is kept: every heartbeat of a member asks for its group's."""


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group (or transactional) id among `partition_count`."""
    value = _hash_of_short(key) if len(key) <= _SHORT_MAX else java_string_hash(key)
    return (0 if value == -_SIGN_BIT else abs(value)) % partition_count


def utf16_length(text: str) -> int:
    """How long Java says the string is: in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2
