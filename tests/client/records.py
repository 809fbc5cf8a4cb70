"""Record batches for tests."""

from __future__ import annotations

from fencepost.batch.records import build_batch


def batch(*values: bytes, timestamp_ms: int = 1000, **stamps: int) -> bytes:
    """One batch of records with these values and no keys."""
    return bytes(build_batch([(None, v) for v in values], timestamp_ms=timestamp_ms, **stamps))
