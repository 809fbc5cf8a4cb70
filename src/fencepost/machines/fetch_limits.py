"""Limits of fetch sessions that configs are made of: apart, since configs need no machine."""

from __future__ import annotations

from typing import Final

DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
"""What all fetch sessions of a broker may take."""
