"""How many parts of two combinations can be paired, each with one of its own."""

from __future__ import annotations

from collections.abc import Sequence


def matched(edges: Sequence[Sequence[int]], right: int) -> int:
    """The size of the largest matching; `edges` has for each part on the left those that it goes
    with on the right, of `right` in all. Paths that improve it are looked for without recursion."""
    partner = [-1] * right
    size = 0
    for start in range(len(edges)):
        came_from: dict[int, int] = {}
        waiting = [start]
        while waiting:
            left = waiting.pop()
            for one in edges[left]:
                if one in came_from:
                    continue
                came_from[one] = left
                if partner[one] < 0:
                    _turn(edges, partner, came_from, start, one)
                    size += 1
                    waiting.clear()
                    break
                waiting.append(partner[one])
    return size


def _turn(
    edges: Sequence[Sequence[int]],
    partner: list[int],
    came_from: dict[int, int],
    start: int,
    free: int,
) -> None:
    """Pair the parts along the way that led to a free one."""
    held = {left: right for right, left in enumerate(partner) if left >= 0}
    place = free
    while True:
        left = came_from[place]
        before = held.get(left)
        partner[place] = left
        if left == start or before is None:
            return
        place = before
