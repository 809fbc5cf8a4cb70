"""The largest matching against one that is tried out."""

from __future__ import annotations

import random
from itertools import permutations

from fencepost.testing.registry.json_matching import matched


def tried_out(edges: list[list[int]], right: int) -> int:
    """The best of all ways to give each on the left one on the right, or none."""
    places = [*range(right), *[-1] * len(edges)]
    return max(
        (
            sum(one in edges[left] for left, one in enumerate(chosen))
            for chosen in permutations(places, len(edges))
        ),
        default=0,
    )


def test_drawn_graphs():
    dice = random.Random(20261129)
    for _ in range(300):
        left, right = dice.randint(0, 4), dice.randint(0, 4)
        density = dice.random()
        edges = [[one for one in range(right) if dice.random() < density] for _ in range(left)]
        for several in edges:
            dice.shuffle(several)
        assert matched(edges, right) == tried_out(edges, right), edges


def test_a_long_chain_of_parts_that_must_move():
    """Each holds the only choice of the next."""
    count = 3000
    edges = [[number, number + 1] for number in range(count - 1)] + [[0]]
    assert matched(edges, count) == count
