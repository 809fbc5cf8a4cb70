"""Tokens that come back at a steady rate, up to all windows' worth (KIP-599).

A bucket is full at first. What takes more than there is leaves it in debt, and nothing may be taken
until that is paid back.
"""

from __future__ import annotations

from fencepost.machines.quota.rate import Windows, round_half_up


class TokenBucket:
    """A bucket; the rate is tokens per second and is given with each call, since it may change."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """How many there are; fewer than none is a debt."""
        most = rate * self._windows.count * self._windows.size_ms / 1_000
        had = most if self._tokens is None else self._tokens
        self._tokens = min(most, had + rate * (now_ms - self._updated_ms) / 1_000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take so many, whether they are there or not."""
        self._tokens = self.tokens(rate, now_ms) - count

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long it takes until there is no debt; 0 if there is none."""
        tokens = self.tokens(rate, now_ms)
        return round_half_up(-tokens / rate * 1_000) if tokens < 0 else 0
