"""Drawn histories of a streams group: members that come, go, die, miss answers and are fenced, a
coordinator that moves and whose log refuses writes, topics that grow. No task is run by two members
at once, and in the end every task is run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.wire.errors import ErrorCode

from .streams_groups.world import StreamsWorld, said, subtopology, topology

STATEFUL = topology(subtopology("0", ["in"], changelogs=["log"]))
PROCESSES = ("p", "p", "q", "r")
MEMBERS = range(len(PROCESSES))
REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
Kinds = list[dict[str, list[int]]]


class Instance:
    """A member as its process has it: it runs what it is given at once, and stops what is taken
    from it when it gets round to that (`give_up`)."""

    def __init__(self, world: StreamsWorld, number: int) -> None:
        self.world = world
        self.number = number
        self.lives = 0
        self.start()
        self.is_alive = False

    def start(self) -> None:
        """A process starts, with a member id of its own."""
        self.lives += 1
        self.member = f"m{self.number}-{self.lives}"
        self.is_alive = True
        self.reset()

    def reset(self) -> None:
        """The member gives up everything and joins again."""
        self.epoch = 0
        self.assigned: Kinds = [{}, {}, {}]
        self.owned: Kinds = [{}, {}, {}]

    def give_up(self) -> None:
        """Stop what is not assigned any more."""
        self.owned = self.assigned

    def beat(self, *, is_answer_lost: bool = False) -> None:
        """A heartbeat that says what the member owns."""
        kinds: Any = dict(zip(("active", "standby", "warmup"), self.owned, strict=True))
        first = {"process": PROCESSES[self.number], "sent": STATEFUL} if self.epoch == 0 else {}
        token = self.world.ask_beat(self.member, self.epoch, **kinds, **first)
        if token in self.world.refused or is_answer_lost:
            return
        response = self.world.replies[token].response
        if response.error_code in REJOIN:
            self.reset()
            return
        assert response.error_code == ErrorCode.NONE, response
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            lists = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
            self.assigned = [said(one) or {} for one in lists]
            self.owned = [
                {"0": sorted({*had.get("0", ()), *has.get("0", ())})}
                for had, has in zip(self.owned, self.assigned, strict=True)
            ]

    def leave(self) -> None:
        """Stop in good order: nothing is run when the coordinator hears of it."""
        member, self.is_alive = self.member, False
        self.reset()
        self.world.ask_beat(member, -1)

    @property
    def active(self) -> set[int]:
        return set(self.owned[0].get("0", ()))


class History:
    """The group "g" with its instances."""

    def __init__(self) -> None:
        self.world = StreamsWorld(delay_ms=500, interval_ms=200)
        self.world.set(num_standby_replicas=1)
        self.partitions = 3
        self.world.change_topics(log=3, **{"in": 3})
        self.instances = [Instance(self.world, number) for number in MEMBERS]

    def carry_out(self, what: str, number: int) -> None:
        one, world = self.instances[number], self.world
        if what == "start" and not one.is_alive:
            one.start()
        elif what == "kill":
            one.is_alive = False
            one.reset()
        elif what == "leave" and one.is_alive and one.epoch > 0:
            one.leave()
        elif what == "give up":
            one.give_up()
        elif what == "round":
            for each in self.instances:
                if each.is_alive:
                    each.beat()
                self.check()
        elif what in ("beat", "lose") and one.is_alive:
            one.beat(is_answer_lost=what == "lose")
        elif what == "wait":
            self.let_pass(700)
        elif what == "sleep":
            self.let_pass(50_000)
        elif what == "move":
            world.restart()
        elif what == "refuse":
            world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
            if one.is_alive:
                one.beat()
            world.refusing = None
        elif what == "grow":
            self.partitions += 1
            world.change_topics(log=self.partitions, **{"in": self.partitions})

    def let_pass(self, by_ms: int) -> None:
        """Time passes. A member that gets no answer within its session gives up its tasks, since
        it cannot know that it is a member still."""
        self.world.advance(by_ms)
        if by_ms > 45_000:
            for one in self.instances:
                one.reset()

    def check(self) -> None:
        """No task is run by two members."""
        running = [task for one in self.instances for task in one.active]
        assert len(running) == len(set(running)), [one.owned for one in self.instances]

    def settle(self) -> None:
        """All instances that are there go on undisturbed; the others are long gone."""
        self.let_pass(50_000)
        self.instances[0].is_alive = True
        for _ in range(30):
            self.world.advance(300)
            for one in self.instances:
                one.give_up()
                if one.is_alive:
                    one.beat()
                self.check()
        alive = [one for one in self.instances if one.is_alive]
        assert sorted(task for one in alive for task in one.active) == list(range(self.partitions))
        assert self.world.describe().group_state == "Stable"


KINDS = (
    *("round",) * 6,
    *("wait",) * 4,
    *("start", "give up", "beat") * 2,
    *("lose", "leave", "kill", "move", "refuse", "grow", "sleep"),
)
STEPS = 80


@pytest.mark.parametrize("seed", range(40))
def test_no_task_is_run_twice_and_every_task_is_run_in_the_end(seed: int) -> None:
    drawn = random.Random(seed)
    history = History()
    for _ in range(STEPS):
        history.carry_out(drawn.choice(KINDS), drawn.choice(MEMBERS))
        history.check()
    history.settle()
