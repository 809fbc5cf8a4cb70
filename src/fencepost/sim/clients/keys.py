"""The keys of records that producers write in a world whose topics are compacted."""

from __future__ import annotations

from typing import Final

from fencepost.sim.surroundings import Surroundings

KEYS: Final = (b"a", b"b", b"c", b"d", bytes(4), b"\0\0\0\1")
"""Few, so that they are written again and again; two are the keys of markers, of an abort and of a
commit (KAFKA-14055)."""
DELETED_ONE_IN: Final = 6


class Keys:
    """Draws them for one client, in a lane of their own."""

    def __init__(self, world: Surroundings, client_id: int) -> None:
        self._compacts = world.options.compacts
        self._lane = world.tape.lane(f"client.{client_id}.keys")

    def draw(self, count: int) -> list[bytes]:
        """So many; none if topics are not compacted."""
        if not self._compacts:
            return []
        return [KEYS[self._lane.pick(len(KEYS))] for _ in range(count)]

    def draw_records(self, count: int) -> list[tuple[bytes, bool]]:
        """Likewise, and of each whether it is deleted."""
        last = DELETED_ONE_IN - 1
        return [(key, self._lane.pick(DELETED_ONE_IN) == last) for key in self.draw(count)]
