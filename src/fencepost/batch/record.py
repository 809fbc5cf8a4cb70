"""One record as a Python object, as readers of every format give it."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.batch.header import LENGTH_OVERHEAD_BYTES

Header = tuple[str, bytes | None]

BATCH_BYTES_MAX = 2**31 - 1 + LENGTH_OVERHEAD_BYTES
NO_TIMESTAMP_TYPE = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record as a consumer sees it.

    `timestamp_type` is 0 when the producer gave the timestamp, 1 when the broker's clock did, -1
    for messages of format v0, which have none (`timestamp_ms` is -1 then).
    Header keys that are not UTF-8 have U+FFFD in place of what could not be decoded.
    """

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
