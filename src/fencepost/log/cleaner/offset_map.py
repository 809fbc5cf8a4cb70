"""The last offset of every key, in bounded memory.

Theory of operation
-------------------
Keys of up to `PLAIN_KEY_BYTES_MAX` bytes stand for themselves. Longer ones are represented by one
byte more, of BLAKE2b, so that neither kind can be taken for the other; two long keys with one
digest would be one key here, which is less likely than for Kafka, whose map has 16 bytes for all.

The bound is one of bytes. An entry is charged what Python needs for it when the table has just
grown, which is the most it ever needs. When there is no room for another key the map is full; a
cleaning then covers what was read so far, and the next one begins there. The first batch of a
cleaning may go beyond the bound, or a batch of very many keys would never be covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

PLAIN_KEY_BYTES_MAX: Final = 32
ENTRY_BYTES: Final = 170
"""Of an entry without its key's bytes: two objects, and a table that has just doubled."""


class OffsetMap:
    """See the module docstring. `bytes_max` is for everything it holds."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left_bytes = bytes_max
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """The map has the last offset of each key among the records up to here."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def used_bytes(self) -> int:
        """Bytes that the entries are charged."""
        return self._bytes_max - self._left_bytes

    @property
    def utilization(self) -> float:
        """How full it is, from 0 to 1."""
        return self.used_bytes / self._bytes_max

    def clear(self) -> None:
        """Forget everything."""
        self._offsets.clear()
        self._left_bytes = self._bytes_max
        self.latest_offset = -1

    def add(
        self, rows: Iterable[tuple[Any, ...]], start_offset: int, *, is_bounded: bool = True
    ) -> bool:
        """Note the keys of records (rows of `read_rows`) from `start_offset` on.

        False once there is no room for a key; those in front of it are noted. With `is_bounded`
        false there is always room, for a batch that has to fit whatever its size.
        """
        offsets, left_bytes = self._offsets, self._left_bytes
        for row in rows:
            offset, key = row[0], row[3]
            if key is None or offset < start_offset:
                continue
            if len(key) > PLAIN_KEY_BYTES_MAX:
                key = _digest(key)
            if key not in offsets:
                cost = ENTRY_BYTES + len(key)
                if cost > left_bytes and is_bounded:
                    self._left_bytes = left_bytes
                    return False
                left_bytes -= cost
            offsets[key] = offset
        self._left_bytes = left_bytes
        return True

    def get(self, key: bytes) -> int:
        """The last offset of the key; -1 if it is not here."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = _digest(key)
        return self._offsets.get(key, -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=PLAIN_KEY_BYTES_MAX + 1).digest()
