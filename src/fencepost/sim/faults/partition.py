"""The network falls apart, in one of the shapes that partitions have."""

from __future__ import annotations

from fencepost.sim.faults import Fault

Pair = tuple[int, int]


class Partition(Fault):
    """Both directions between groups of nodes, for up to ten seconds; then all links work."""

    name = "partition"
    needs_peers = True

    def act(self) -> None:
        ids = list(self.world.nodes)
        for index in range(len(ids) - 1, 0, -1):  # shuffled; all zeros leave it as it is
            other = index - self.lane.pick(index + 1)
            ids[index], ids[other] = ids[other], ids[index]
        shapes = (self._one, self._halves, self._bridge, self._ring, self._minority_third)
        shape = shapes[self.lane.pick(len(shapes))]
        pairs = shape(ids)
        if not pairs:  # too few nodes for this shape
            pairs = self._one(ids)
        self.world.did(self.name, lambda: f"partition: nothing passes between {pairs}")
        for a, b in pairs:
            self.world.network.cut(a, b)
            self.world.network.cut(b, a)
        self.later(10_000, lambda: self._reconnect(pairs))

    def _reconnect(self, pairs: list[Pair]) -> None:
        self.world.tell(lambda: f"** reconnected: {pairs}")
        for a, b in pairs:
            self.world.network.reconnect(a, b)
            self.world.network.reconnect(b, a)

    def _one(self, ids: list[int]) -> list[Pair]:
        """One node is alone."""
        return [(ids[0], other) for other in ids[1:]]

    def _halves(self, ids: list[int]) -> list[Pair]:
        """Two groups, the first of any size."""
        size = 1 + self.lane.pick(len(ids) - 1)
        return [(a, b) for a in ids[:size] for b in ids[size:]]

    def _bridge(self, ids: list[int]) -> list[Pair]:
        """Two groups, and one node that sees both."""
        middle = (len(ids) + 1) // 2
        return [(a, b) for a in ids[1:middle] for b in ids[middle:]]

    def _ring(self, ids: list[int]) -> list[Pair]:
        """Each node reaches just a majority, its neighbours in a ring, and no two the same one."""
        count = len(ids)
        nearest = (count // 2 + 1) // 2
        return [
            (ids[i], ids[j])
            for i in range(count)
            for j in range(i + 1, count)
            if min(j - i, count - j + i) > nearest
        ]

    def _minority_third(self, ids: list[int]) -> list[Pair]:
        """Fewer than a third are away from the rest, and from each other, too."""
        away = ids[: (len(ids) - 1) // 3]
        return [(a, b) for i, a in enumerate(ids) for b in ids[i + 1 :] if a in away]


FAULT = Partition
