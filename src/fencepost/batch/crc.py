"""CRC-32C, the checksum in every v2 batch (Castagnoli's polynomial, reflected, as in RFC 3720).

Three implementations stand in line: our own kernel when it found a processor with an instruction
for it, google-crc32c, and our kernel's table for a google-crc32c without its own C.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fencepost.batch import backend
from fencepost.wire.types import Buffer

# google-crc32c takes immutable bytes only; copying in pieces that stay in the cache is cheaper
# than one copy of a large batch.
_PIECE_BYTES = 128 * 1024


def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C of `data`, or of what gave `value` followed by `data`; 0 <= result < 2**32."""
    kernels = backend.kernels
    if kernels is not None and (kernels.CRC_IN_HARDWARE or not _google_is_fast()):
        return int(kernels.crc32c(data, value))
    return _crc32c_google(data, value)


@cache
def _google() -> Any:
    """Its package, which takes over a millisecond to load, where our kernel does not do."""
    import google_crc32c

    return google_crc32c


def _google_is_fast() -> bool:
    return bool(_google().implementation == "c")


def _crc32c_google(data: Buffer, value: int) -> int:
    google_crc32c = _google()
    if isinstance(data, bytes) or len(data) <= _PIECE_BYTES:
        return int(google_crc32c.extend(value, bytes(data)))
    view = memoryview(data)
    for start in range(0, len(view), _PIECE_BYTES):
        value = google_crc32c.extend(value, bytes(view[start : start + _PIECE_BYTES]))
    return value
