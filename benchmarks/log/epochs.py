"""The leader-epoch cache: look-ups, a cut, its file, its memory."""

from __future__ import annotations

import time
import tracemalloc

from fencepost.log.epochs import LeaderEpochCache

LOOKUPS = 10_000


def row(count: int) -> list[str]:
    """The line for a cache of so many epochs."""
    data = LeaderEpochCache((epoch, epoch * 3) for epoch in range(count)).encode()
    began = time.perf_counter()
    cache = LeaderEpochCache.decode("benchmark", data)
    read_s = time.perf_counter() - began
    began = time.perf_counter()
    assert cache.encode() == data
    write_s = time.perf_counter() - began
    step = max(1, count // 1000)
    began = time.perf_counter()
    for number in range(LOOKUPS):
        cache.end_offset_for(number * step % count, count * 3)
    lookup_s = time.perf_counter() - began
    cuts = min(count // 2, 1000)
    began = time.perf_counter()
    for left in range(count, count - cuts, -1):
        cache.truncate_from_end((left - 1) * 3)
    cut_s = time.perf_counter() - began
    tracemalloc.start()
    kept = LeaderEpochCache.decode("benchmark", data)
    used_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return [
        f"{len(kept):,}",
        f"{lookup_s / LOOKUPS * 1e6:.2f}",
        f"{cut_s / cuts * 1e6:.2f}",
        f"{write_s * 1e3:.2f}",
        f"{read_s * 1e3:.2f}",
        f"{used_bytes / count:.0f}",
    ]
