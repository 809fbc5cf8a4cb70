"""Where a share group begins in a partition, as `share.auto.offset.reset` says (KIP-932)."""

from __future__ import annotations

import re
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Final

from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import LogReads

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def duration_ms(text: str) -> int | None:
    """The milliseconds of a duration of ISO 8601 in days and smaller units; None for no such."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    *whole, fraction = found.groups()
    total = sum(int(one or 0) * unit for one, unit in zip(whole, _UNITS_MS, strict=True))
    return total + int((fraction or "").ljust(3, "0")[:3])


def first_offset_for(
    reset: str, hosted: HostedPartition, reads: LogReads, wall_ms: int
) -> Generator[Future[Any] | None, None, int]:
    """The offset: the log's start, its first record since then, or the high watermark.

    LOG_ERRORS.
    """
    strategy = reset.lower()
    if strategy == "earliest":
        return hosted.machine.log_start_offset
    if strategy.startswith(_BY_DURATION):
        back_ms = duration_ms(reset[len(_BY_DURATION) :])
        if back_ms is not None:
            timestamp_ms = wall_ms - back_ms
            found = yield from reads.read(lambda: hosted.log.offset_for_timestamp(timestamp_ms))
            if found is not None and found.offset < hosted.machine.high_watermark:
                return found.offset
    return hosted.machine.high_watermark
