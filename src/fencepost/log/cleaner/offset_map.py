"""The last offset of every key, in bounded memory.

Theory of operation
-------------------
What of a key is kept, and how, is `fencepost.batch.key_offsets`' business: of a long key its
digest. Two long keys with one digest would be one key here, which is less likely than for Kafka,
whose map has 16 bytes for all.

The bound is one of bytes. An entry is charged what Python needs for it when the table has just
grown, which is the most it ever needs, and more than the compiled table does: one log is cleaned in
the same steps with the one and with the other. When there is no room for another key the map is
full; a cleaning then covers what was read so far, and the next one begins there. The first batch of
a cleaning may go beyond the bound, or a batch of very many keys would never be covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fencepost.batch.header import BatchHeader
from fencepost.batch.key_offsets import (
    PLAIN_KEY_BYTES_MAX,
    Survivors,
    new_key_offsets,
    note_records,
    pick_records,
)
from fencepost.wire.types import Buffer

ENTRY_BYTES: Final = 170
"""Of an entry without its key's bytes: two objects, and a table that has just doubled."""


class OffsetMap:
    """See the module docstring. `bytes_max` is for everything it holds."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left_bytes = bytes_max
        self._offsets = new_key_offsets()
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

    def add_payload(
        self, payload: Buffer, header: BatchHeader, start_offset: int, *, is_bounded: bool = True
    ) -> bool:
        """Note the keys of a v2 batch's uncompressed records from `start_offset` on.

        False once there is no room for a key; those in front of it are noted. With `is_bounded`
        false there is always room, for a batch that has to fit whatever its size. BatchError.
        """
        self._left_bytes, is_whole = note_records(
            self._offsets,
            payload,
            header,
            start_offset=start_offset,
            entry_bytes=ENTRY_BYTES,
            left_bytes=self._left_bytes,
            is_bounded=is_bounded,
        )
        return is_whole

    def add(
        self, rows: Iterable[tuple[Any, ...]], start_offset: int, *, is_bounded: bool = True
    ) -> bool:
        """The same for records that were read already (rows of `read_rows`)."""
        for row in rows:
            offset, key = row[0], row[3]
            if key is None or offset < start_offset:
                continue
            if self._offsets.get(key) < 0:
                cost = ENTRY_BYTES + min(len(key), PLAIN_KEY_BYTES_MAX + 1)
                if cost > self._left_bytes and is_bounded:
                    return False
                self._left_bytes -= cost
            self._offsets.put(key, offset)
        return True

    def get(self, key: bytes) -> int:
        """The last offset of the key; -1 if it is not here."""
        offset: int = self._offsets.get(key)
        return offset

    def pick(
        self, payload: Buffer, header: BatchHeader, *, has_keys: bool, drops_tombstones: bool
    ) -> tuple[Survivors, Buffer]:
        """The uncompressed records of a v2 batch that stay; `payload` itself if all do. BatchError.

        All do that are behind the map's reach, or, unless `has_keys`, whose keys are not users'.
        """
        return pick_records(
            self._offsets,
            payload,
            header,
            latest_offset=self.latest_offset if has_keys else -1,
            drops_tombstones=drops_tombstones,
        )
