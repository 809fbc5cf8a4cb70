"""Where a share group begins in a partition, as `share.auto.offset.reset` says (KIP-932)."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from fencepost.machines.group.configs import reset_duration_ms
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import LogReads


def first_offset_for(
    reset: str, hosted: HostedPartition, reads: LogReads, wall_ms: int
) -> Generator[Future[Any] | None, None, int]:
    """The offset: the log's start, its first record since then, or the high watermark.

    LOG_ERRORS.
    """
    if reset == "earliest":
        return hosted.machine.log_start_offset
    back_ms = reset_duration_ms(reset)
    if back_ms is not None:
        timestamp_ms = wall_ms - back_ms
        found = yield from reads.read(lambda: hosted.log.offset_for_timestamp(timestamp_ms))
        if found is not None and found.offset < hosted.machine.high_watermark:
            return found.offset
    return hosted.machine.high_watermark
