"""Which keys a sink has decided, and up to which version each: what makes a repeated write known.

A key is the id of a streaming query, whose versions are its batches, or what a batch write gives as
txnAppId, for each topic by itself. The sink's last decision has its own key and version, and what
was decided before for any key. A key is kept as a digest of 64 bits, so that a sink can remember
many; none is ever dropped to make room, because a key that was forgotten would be written again:
a sink that remembers KEYS_MAX takes no new one until old ones are forgotten on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

KEYS_MAX: Final = 500
DAY_MS: Final = 24 * 60 * 60_000
_KEYED: Final = "txn/"
_NO_RUN: Final = ""


def key_of(app_id: str, topic: str | None) -> str:
    """The key of batch writes with that txnAppId, to one topic or by the column `topic`."""
    return f"{_KEYED}{app_id}/{topic or '*'}"


def is_keyed(key: str) -> bool:
    """Whether a key is a batch write's; else it is a query's id, or empty for a write without."""
    return key.startswith(_KEYED)


def run_digest(run_id: str) -> str:
    """A run of a streaming query, short enough to be kept with every key."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:8] if run_id else _NO_RUN


class Remembered(NamedTuple):
    """A key, and the last version that was decided of it."""

    digest: str
    version: int
    day: int
    """When it was decided, in days since 1970 by the driver's clock."""
    run: str
    """The run of a streaming query that wrote it (`run_digest`); empty outside of one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The keys that a sink remembers, those decided last at the end."""

    entries: tuple[Remembered, ...] = ()

    def find(self, key: str) -> Remembered | None:
        """What is known of a key."""
        digest = _digest(key)
        return next((one for one in self.entries if one.digest == digest), None)

    def has_room_for(self, key: str) -> bool:
        """Whether another version of the key can be remembered."""
        return self.find(key) is not None or len(self.entries) < KEYS_MAX

    def with_key(self, key: str, version: int, day: int, run: str = _NO_RUN) -> Memory:
        """The memory once that version is decided."""
        digest = _digest(key)
        others = tuple(one for one in self.entries if one.digest != digest)
        return Memory((*others, Remembered(digest, version, day, run)))

    def since(self, day: int) -> Memory:
        """Without the keys that were last decided before `day`."""
        return Memory(tuple(one for one in self.entries if one.day >= day))

    def knows_others(self, key: str) -> bool:
        """Whether a key beside `key` is remembered."""
        digest = _digest(key)
        return any(one.digest != digest for one in self.entries)

    def as_json(self) -> list[list[Any]]:
        """For `decisions`."""
        return [list(one) for one in self.entries]

    @classmethod
    def from_json(cls, entries: Iterable[Any]) -> Memory:
        """The opposite of `as_json`. ValueError, TypeError, OverflowError."""
        found = tuple(
            Remembered(str(digest), int(version), int(day), str(run))
            for digest, version, day, run in entries
        )
        if len(found) > KEYS_MAX:
            raise ValueError(f"it remembers {len(found)} keys, {KEYS_MAX} is the most")
        return cls(found)


NOTHING: Final = Memory()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]
