"""A node's two clocks: each runs a little fast or slow, and the wall clock may be set.

World time is whole microseconds from the beginning of the simulation; only the world knows it. A
node reads milliseconds from its own clocks, each of which is a straight line over world time that
faults bend (`set_rate`) or, of the wall clock, break (`jump`). The monotonic clock begins at
another value at every start of the node, also below 0: no code may rely on the value.
"""

from __future__ import annotations

from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000
"""What a wall clock shows at world time 0."""

PAR = 1_000_000
"""The rate of a clock that is right: local microseconds per million of the world's."""

_ORIGINS_MS = 2_000_003
_SPREAD_MS = 611_953


class SimClock:
    """One clock, a line over world time."""

    __slots__ = ("_local_us", "_since_us", "rate")

    def __init__(self, shows_ms: int = EPOCH_MS, world_us: int = 0, rate: int = PAR) -> None:
        self._since_us = world_us
        self._local_us = shows_ms * 1_000
        self.rate = rate

    def local_us(self, world_us: int) -> int:
        """What the clock shows, in microseconds."""
        return self._local_us + (world_us - self._since_us) * self.rate // PAR

    def now_ms(self, world_us: int) -> int:
        """What the clock shows, in whole milliseconds."""
        return self.local_us(world_us) // 1_000

    def world_us_of(self, local_ms: int, world_us: int) -> int:
        """The first world time, not before `world_us`, at which the clock shows `local_ms`.

        As the clock runs now; a timer that waits for that time asks again when the clock changes.
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


class NodeClocks:
    """Both clocks of a node: `fencepost.runtime.clock.Clocks` over a world's time."""

    def __init__(self, node_id: int, world_us: Callable[[], int]) -> None:
        self._node_id = node_id
        self._world_us = world_us
        self.monotonic = SimClock(0)
        self.wall = SimClock()

    def now_ms(self) -> int:
        """What the monotonic clock shows."""
        return self.monotonic.now_ms(self._world_us())

    def wall_ms(self) -> int:
        """What the wall clock shows, in milliseconds since the Unix epoch."""
        return self.wall.now_ms(self._world_us())

    def reboot(self, incarnation: int) -> None:
        """The node starts: its monotonic clock begins again, somewhere."""
        origin_ms = (self._node_id * _SPREAD_MS + incarnation * _SPREAD_MS) % _ORIGINS_MS
        rate = self.monotonic.rate
        self.monotonic = SimClock(origin_ms - _ORIGINS_MS // 2, self._world_us(), rate)

    def set_rate(self, rate: int) -> None:
        """Both run at another pace from now on, as clocks of one bad quartz do."""
        self.monotonic.set_rate(rate, self._world_us())
        self.wall.set_rate(rate, self._world_us())

    def set_wall_rate(self, rate: int) -> None:
        """The wall clock alone runs at another pace from now on."""
        self.wall.set_rate(rate, self._world_us())

    def set_wall(self, by_ms: int) -> None:
        """The wall clock shows `by_ms` more, or less, from now on."""
        self.wall.jump(by_ms, self._world_us())
