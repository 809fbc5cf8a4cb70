"""A node's clock: it starts somewhere, runs a little fast or slow, and may be set.

World time is whole microseconds from the beginning of the simulation; only the world knows it. A
node reads milliseconds since the Unix epoch from its own clock, which is a straight line over world
time that is bent (`set_rate`) or broken (`jump`) by faults.
"""

from __future__ import annotations

EPOCH_MS = 1_700_000_000_000
"""What a clock without an offset shows at world time 0."""

PAR = 1_000_000
"""The rate of a clock that is right: local microseconds per million of the world's."""


class NodeClock:
    """The clock of one node."""

    __slots__ = ("_local_us", "_since_us", "rate")

    def __init__(self, offset_ms: int = 0, rate: int = PAR) -> None:
        self._since_us = 0
        self._local_us = (EPOCH_MS + offset_ms) * 1_000
        self.rate = rate

    def local_us(self, world_us: int) -> int:
        """What the clock shows, in microseconds since the Unix epoch."""
        return self._local_us + (world_us - self._since_us) * self.rate // PAR

    def now_ms(self, world_us: int) -> int:
        """What the clock shows, in whole milliseconds since the Unix epoch."""
        return self.local_us(world_us) // 1_000

    def world_us_of(self, local_ms: int, world_us: int) -> int:
        """The first world time, not before `world_us`, at which the clock shows `local_ms`.

        As the clock runs now; whoever waits for that time asks again when the clock was changed.
        """
        missing_us = local_ms * 1_000 - self.local_us(world_us)
        if missing_us <= 0:
            return world_us
        wait_us = -(-missing_us * PAR // self.rate)
        while self.now_ms(world_us + wait_us) < local_ms:
            wait_us += 1
        while wait_us and self.now_ms(world_us + wait_us - 1) >= local_ms:
            wait_us -= 1
        return world_us + wait_us

    def set_rate(self, rate: int, world_us: int) -> None:
        """Run at another pace from now on; what the clock shows does not jump."""
        self._local_us, self._since_us = self.local_us(world_us), world_us
        self.rate = rate

    def jump(self, by_ms: int, world_us: int) -> None:
        """Show `by_ms` more, or less, from now on."""
        self._local_us, self._since_us = self.local_us(world_us) + by_ms * 1_000, world_us
