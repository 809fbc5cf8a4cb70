"""`assign_sticky`: which member is to have which task, as Kafka 4.4's assignor `sticky` has it.

A pure function of an immutable spec, which may run on another thread. In order:

* each active task, by partition, stays with the member that has it while that is below its quota:
  tasks / members, rounded up, and computed again for the others whenever a member is full; then it
  goes to a member that has or had a copy of it, if that is below its quota, and else to the least
  loaded member of the process with the least load (tasks per member);
* each standby task of a subtopology with state goes to the member that had the task as active,
  then to one that has or had a copy, while they are below the quota of all tasks, and else to the
  least loaded process; never to a process that has the task already. What no process can take is
  left out.

Copies are ranked: standby tasks before those that a member only reported offsets of, then by the
offset, the highest first. Ties are broken by ids here, in Kafka by the order of Java's hash maps.
Client tags play no part, as in Kafka: its assignor does not look at them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from fencepost.machines.group.streams.tasks import TaskId, Tasks

STICKY: Final = "sticky"
"""The name of the assignor (`group.streams.assignors`)."""


class SpecMember(NamedTuple):
    """A member, with the tasks that it has now."""

    member_id: str
    process_id: str
    active: frozenset[TaskId]
    standby: frozenset[TaskId]
    task_offsets: Mapping[TaskId, int]
    """The sum of the changelog offsets that it reported for tasks it has state of."""


class SpecSubtopology(NamedTuple):
    """A subtopology of a topology that is ready."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


class AssignmentSpec(NamedTuple):
    """All that an assignment depends on."""

    members: tuple[SpecMember, ...]
    subtopologies: tuple[SpecSubtopology, ...]
    standby_replicas: int

    @property
    def task_count(self) -> int:
        """How many active tasks there are."""
        return sum(one.task_count for one in self.subtopologies)


def assign_sticky(spec: AssignmentSpec) -> dict[str, Tasks]:
    """The tasks of each member, without warm-up tasks."""
    assignment = _Assignment(spec)
    assignment.assign_active()
    assignment.assign_standby()
    return assignment.result()


class _Quota:
    """Tasks per member; what a member that is full has counts no more for the others."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._computed()

    def note(self, tasks_of_member: int) -> None:
        """A member has so many tasks now."""
        if tasks_of_member == self.per_member:
            self._members -= 1
            self._tasks -= tasks_of_member
            self.per_member = self._computed()

    def _computed(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Process:
    """The members of one process and their tasks."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self.assigned = 0
        self._by_load: list[tuple[int, str]] | None = None

    @property
    def load(self) -> float:
        return self.assigned / len(self.counts)

    def add(self, member_id: str, task: TaskId) -> int:
        """Give the member the task; how many it has then."""
        self._by_load = None
        return self._add(member_id, task)

    def _add(self, member_id: str, task: TaskId) -> int:
        self.assigned += 1
        self.tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: TaskId) -> str:
        """Give the task to the member with the fewest; its id."""
        if self._by_load is None:
            self._by_load = [(count, member_id) for member_id, count in self.counts.items()]
            heapify(self._by_load)
        _, member_id = heappop(self._by_load)
        heappush(self._by_load, (self._add(member_id, task), member_id))
        return member_id


class _Assignment:
    """An assignment as it is made."""

    def __init__(self, spec: AssignmentSpec) -> None:
        members = sorted(spec.members)
        self._spec = spec
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._had_active: dict[TaskId, str] = {}
        for one in members:
            process = self._processes.setdefault(one.process_id, _Process(one.process_id))
            process.counts[one.member_id] = 0
            self._process_of[one.member_id] = process
            self._had_active.update(dict.fromkeys(one.active, one.member_id))
        self._had_copy = _ranked_copies(members)
        active, stateful = (
            spec.task_count,
            sum(one.task_count for one in spec.subtopologies if one.is_stateful),
        )
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * spec.standby_replicas, len(members))
        self._active: dict[str, set[TaskId]] = defaultdict(set)
        self._standby: dict[str, set[TaskId]] = defaultdict(set)

    def result(self) -> dict[str, Tasks]:
        """See `assign_sticky`."""
        return {
            one.member_id: Tasks(
                frozenset(self._active[one.member_id]), frozenset(self._standby[one.member_id])
            )
            for one in self._spec.members
        }

    def assign_active(self) -> None:
        """Give every active task to a member."""
        if not self._process_of:
            return
        tasks = sorted(_tasks(self._spec.subtopologies), key=_by_partition)
        left = [t for t in tasks if not self._give_active(t, self._had_active.get(t))]
        rest = []
        for task in left:
            if not self._give_active(task, self._least_loaded_of(self._had_copy.get(task, ()))):
                rest.append(task)
        queue = self._by_load()
        for task in sorted(rest):
            process = self._processes[heappop(queue)[1]]
            member_id = process.add_to_least_loaded(task)
            self._active[member_id].add(task)
            self._note_active(process.counts[member_id])
            heappush(queue, (process.load, process.process_id))

    def _give_active(self, task: TaskId, member_id: str | None) -> bool:
        """Give the task to the member, if it is below its quota."""
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_quota.per_member:
            return False
        self._active[member_id].add(task)
        self._note_active(process.add(member_id, task))
        return True

    def _note_active(self, tasks_of_member: int) -> None:
        self._active_quota.note(tasks_of_member)
        self._quota.note(tasks_of_member)

    def assign_standby(self) -> None:
        """Give as many standby tasks as wanted, and as there are processes for."""
        wanted = self._spec.standby_replicas
        if wanted <= 0 or not self._process_of:
            return
        stateful = [one for one in self._spec.subtopologies if one.is_stateful]
        rest = []
        for task in sorted(_tasks(stateful), key=_by_partition, reverse=True):
            for given in range(wanted):
                if not (
                    self._give_standby(task, self._had_active.get(task))
                    or self._give_standby(
                        task, self._least_loaded_of(self._had_copy.get(task, ()), task)
                    )
                ):
                    rest.append((task, wanted - given))
                    break
        queue = self._by_load()
        for task, count in sorted(rest, reverse=True):
            for _ in range(count):
                if not self._give_to_least_loaded(task, queue):
                    break

    def _give_standby(self, task: TaskId, member_id: str | None) -> bool:
        """Give the member a copy, if it is below its quota and its process has none."""
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._quota.per_member:
            return False
        self._standby[member_id].add(task)
        self._quota.note(process.add(member_id, task))
        return True

    def _give_to_least_loaded(self, task: TaskId, queue: list[tuple[float, str]]) -> bool:
        """Give a copy to the least loaded process that has none; at most replicas + 1 have one."""
        passed = []
        found = False
        while queue and not found:
            entry = heappop(queue)
            process = self._processes[entry[1]]
            if task not in process.tasks:
                member_id = process.add_to_least_loaded(task)
                self._standby[member_id].add(task)
                self._quota.note(process.counts[member_id])
                entry = (process.load, process.process_id)
                found = True
            passed.append(entry)
        for entry in passed:
            heappush(queue, entry)
        return found

    def _least_loaded_of(self, members: Iterable[str], task: TaskId | None = None) -> str | None:
        """The first of the members that none is less loaded than, by process and by itself; with
        `task` only of those whose process does not have it."""
        best: tuple[float, int] | None = None
        chosen = None
        for member_id in members:
            process = self._process_of[member_id]
            if task is not None and task in process.tasks:
                continue
            load, count = process.load, process.counts[member_id]
            if best is None or (load < best[0] and count < best[1]):
                best, chosen = (load, count), member_id
        return chosen

    def _by_load(self) -> list[tuple[float, str]]:
        queue = [(process.load, process_id) for process_id, process in self._processes.items()]
        heapify(queue)
        return queue


def _tasks(subtopologies: Iterable[SpecSubtopology]) -> list[TaskId]:
    return [
        TaskId(one.subtopology_id, index)
        for one in subtopologies
        for index in range(one.task_count)
    ]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id


def _ranked_copies(members: Iterable[SpecMember]) -> dict[TaskId, list[str]]:
    """The members with a copy of each task, the best first."""
    found: dict[TaskId, list[tuple[bool, int, str]]] = defaultdict(list)
    for one in members:
        for task in one.standby:
            found[task].append((False, -one.task_offsets.get(task, 0), one.member_id))
        for task, offset in one.task_offsets.items():
            if task not in one.standby:
                found[task].append((True, -offset, one.member_id))
    return {task: [member_id for _, _, member_id in sorted(ranks)] for task, ranks in found.items()}
