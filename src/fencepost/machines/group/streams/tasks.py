"""Tasks, and sets of them by the role that a member has for them.

A task is one partition number of a subtopology: it reads that partition of all its source topics.
A member processes it (active), keeps a copy of its state (standby), or restores a copy in order to
take the task over (warm-up; Kafka 4.4.0 has the role, and gives it to no member).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol


class TaskId(NamedTuple):
    """One task."""

    subtopology_id: str
    partition: int


class Tasks(NamedTuple):
    """The tasks of one member by role: what it is to have, or says that it has."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are none in any role."""
        return not (self.active or self.standby or self.warmup)

    @property
    def size(self) -> int:
        """How many there are in all roles together."""
        return len(self.active) + len(self.standby) + len(self.warmup)


class HeldTasks(NamedTuple):
    """The tasks that a member has been given, by role.

    An active task has its assignment epoch: the member epoch in which it was given (KIP-1251).
    """

    active: Mapping[TaskId, int]
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there are none in any role."""
        return not (self.active or self.standby or self.warmup)

    @property
    def size(self) -> int:
        """How many there are in all roles together."""
        return len(self.active) + len(self.standby) + len(self.warmup)

    @property
    def ids(self) -> Tasks:
        """The same without epochs."""
        return Tasks(frozenset(self.active), self.standby, self.warmup)

    def overlaps(self, tasks: Tasks) -> bool:
        """Whether one of `tasks` is among these in the same role."""
        return not (
            tasks.active.isdisjoint(self.active)
            and tasks.standby.isdisjoint(self.standby)
            and tasks.warmup.isdisjoint(self.warmup)
        )

    def contains(self, tasks: Tasks) -> bool:
        """Whether all of `tasks` are among these in the same role."""
        return (
            tasks.active <= self.active.keys()
            and tasks.standby <= self.standby
            and tasks.warmup <= self.warmup
        )


NO_TASKS: Final = Tasks()
NO_HELD_TASKS: Final = HeldTasks({})


class TaskIdsOnWire(Protocol):
    """Tasks of one subtopology, as requests, responses and records have them."""

    subtopology_id: str
    partitions: list[int]


def task_set(listed: Iterable[TaskIdsOnWire]) -> frozenset[TaskId]:
    """The tasks of such a list."""
    return frozenset(
        TaskId(one.subtopology_id, index) for one in listed for index in one.partitions
    )


def by_subtopology(tasks: Iterable[TaskId]) -> list[tuple[str, list[int]]]:
    """(subtopology, partition numbers), everything sorted: how a list of them is written."""
    grouped: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        grouped.setdefault(subtopology_id, []).append(partition)
    return list(grouped.items())
