"""Controllers killed, paused and cut off by a seed while topics are created: none is lost.

With one controller harmed the other two must go on creating topics; with more, nothing is promised
until all are healed. In the end every topic must be there whose creation was acknowledged.
FENCEPOST_CHAOS_SEEDS=N tries N seeds, FENCEPOST_CHAOS_SEED=S that one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from fencepost.testing import Cluster

from .conftest import QUICK, TopicWriter, wait_for_topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 6
ONE_SEED = os.environ.get("FENCEPOST_CHAOS_SEED")
MANY = int(os.environ.get("FENCEPOST_CHAOS_SEEDS", "3"))
SEEDS = [
    pytest.param(seed, marks=[pytest.mark.long] if seed and not ONE_SEED else [])
    for seed in ([int(ONE_SEED)] if ONE_SEED else range(MANY))
]


@pytest.fixture(scope="module")
def gated() -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=3, config=QUICK) as cluster:
        yield cluster


class Chaos:
    """Does harm to one node after the other and knows how to undo it."""

    def __init__(self, cluster: Cluster, dice: random.Random) -> None:
        self._cluster = cluster
        self._dice = dice
        self.history: list[str] = []
        self.harmed: set[int] = set()
        """Nodes that are not as they should be."""

    def step(self) -> None:
        """Harm a node, more often than not the leader."""
        cluster, dice = self._cluster, self._dice
        leader = cluster.find_leader()
        ids = list(cluster.controllers)
        id_ = leader if leader is not None and dice.random() < 0.7 else dice.choice(ids)
        what = dice.choice(("kill", "pause", "cut", "cut one way", "stop"))
        self.history.append(f"{what} {id_}")
        self.harmed.add(id_)
        if what == "kill":
            cluster.kill(id_)
        elif what == "stop":
            cluster.stop(id_)
        elif what == "pause":
            cluster.controllers[id_].pause()
        else:  # one way: no node reaches it, but what it sends arrives, and can disturb the others
            cluster.cut(None, id_, one_way=what == "cut one way")

    def heal(self) -> None:
        """Everybody runs and is reached."""
        self.history.append("heal")
        self.harmed.clear()
        self._cluster.reset()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_acknowledged_is_lost(gated: Cluster, seed: int):
    dice = random.Random(seed)
    chaos = Chaos(gated, dice)
    chaos.heal()
    gated.leader_id()
    writer = TopicWriter(gated.bootstrap_servers, f"chaos-{seed}")
    writer.start()
    try:
        writer.wait_for_more()
        for _ in range(STEPS):
            for _ in range(dice.randint(1, 3)):
                chaos.step()
                if len(chaos.harmed) == 1:
                    writer.wait_for_more(3)
            chaos.heal()
        writer.wait_for_more()
        wait_for_topics(gated, writer.stop())
    except Exception as error:
        raise AssertionError(f"seed {seed}: {', '.join(chaos.history)}") from error
    finally:
        writer.stop()


def test_a_leader_that_no_node_reaches_resigns(gated: Cluster):
    leader = gated.leader_id()
    gated.cut(None, leader, one_way=True)
    successor = gated.leader_id(but=leader)
    assert successor != leader

    # It is asked past its proxy, where it can still be reached.
    def has_given_up() -> bool:
        said = gated.describe(leader)
        return said is not None and said.leader_id != leader

    gated.wait_until(has_given_up, "the leader without followers goes on")
    gated.heal()
    gated.leader_id()
