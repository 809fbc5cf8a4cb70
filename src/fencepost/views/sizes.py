"""Sizes in words."""

from __future__ import annotations

UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size_bytes: int) -> str:
    """ "17 B", "1.5 MiB"."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    size, place = size_bytes / 1024, 0
    while abs(size) >= 1024 and place + 1 < len(UNITS):
        size, place = size / 1024, place + 1
    return f"{size:.1f} {UNITS[place]}"
