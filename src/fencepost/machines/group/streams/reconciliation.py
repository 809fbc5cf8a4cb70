"""`reconcile`: the next step of one member towards its target assignment (KIP-1071).

A pure function of what the member has, its target, which processes hold which tasks, and which
tasks the member says that it owns.

* An active task is given when no member has it as active, and no other member of this member's
  process holds a copy of it (two copies in one process would share a state directory).
* A standby or warm-up task is given when no other member of this member's process has it, in
  whatever role.
* What the member is to give up stays its own, as pending revocation, until it says that it owns
  none of it any more; nothing is given to it before that. Its member epoch stays, too.
* A task that changes its role within the member changes it in place. A copy that becomes active is
  kept until the active task is free.

So an active task never has two holders, and a process never two copies. A member whose owned tasks
are not told (None) may own all that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from fencepost.machines.group.streams.tasks import (
    NO_HELD_TASKS,
    HeldTasks,
    TaskId,
    Tasks,
)


class MemberState(IntEnum):
    """How far a member has come, with the codes of record 22."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """Written by a later version of Kafka: the member must give up all tasks, and starts again."""


class CurrentAssignment(NamedTuple):
    """What a member has been given: record 22."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    pending: HeldTasks = NO_HELD_TASKS
    """What it has been told to give up, and may still own."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of the target of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


NOTHING_ASSIGNED: Final = CurrentAssignment()


class Holders(Protocol):
    """Which processes hold a task, assigned or pending revocation; one entry for each member."""

    @property
    def active_holders(self) -> Mapping[TaskId, tuple[str, ...]]:
        """The processes of members that have the task as active."""
        ...

    @property
    def standby_holders(self) -> Mapping[TaskId, tuple[str, ...]]:
        """The same of standby tasks."""
        ...

    @property
    def warmup_holders(self) -> Mapping[TaskId, tuple[str, ...]]:
        """The same of warm-up tasks."""
        ...


class UnknownStateError(Exception):
    """The member is in a state that only a later version of Kafka knows: it must join again."""


def reconcile(
    current: CurrentAssignment,
    process_id: str,
    target_epoch: int,
    target: Tasks,
    holders: Holders,
    owned: Tasks | None,
) -> CurrentAssignment:
    """The member's next assignment; `current` itself if it cannot move. UnknownStateError."""
    epoch = current.member_epoch
    if current.state is MemberState.STABLE:
        if epoch == target_epoch:
            return current
    elif current.state is MemberState.UNREVOKED_TASKS:
        if owned is None or current.pending.overlaps(owned):
            return current
        epoch += 1
    elif current.state is MemberState.UNKNOWN:
        if owned is None or not owned.is_empty:
            raise UnknownStateError
        epoch = target_epoch
    return _Step(current, process_id, target, holders).next(epoch, target_epoch, owned)


class _Step:
    """One step: the tasks that are kept, to be given up, added, and blocked, by role."""

    def __init__(
        self, current: CurrentAssignment, process_id: str, target: Tasks, holders: Holders
    ) -> None:
        self._current = current
        self._process_id = process_id
        self._target = target
        self._holders = holders
        had, holds = current.assigned, self._held_by_another
        self._kept_active = {t: epoch for t, epoch in had.active.items() if t in target.active}
        self._revoked_active = {t: e for t, e in had.active.items() if t not in target.active}
        self._kept_standby = set(had.standby & target.standby)
        self._revoked_standby = set(had.standby - target.standby)
        self._kept_warmup = set(had.warmup & target.warmup)
        self._revoked_warmup = set(had.warmup - target.warmup)
        wanted = target.active - self._kept_active.keys()
        self._added_active = {
            t
            for t in wanted
            if not holders.active_holders.get(t)
            and not holds(holders.standby_holders, t, had.standby)
            and not holds(holders.warmup_holders, t, had.warmup)
        }
        self._is_blocked = len(self._added_active) < len(wanted)
        self._added_standby = {
            t
            for t in target.standby - had.standby
            if not holds(holders.active_holders, t, had.active)
            and not self._held_here(holders.standby_holders, t)
            and not holds(holders.warmup_holders, t, had.warmup)
        }
        self._is_blocked |= len(self._added_standby) < len(target.standby - had.standby)
        self._added_warmup = {
            t
            for t in target.warmup - had.warmup
            if not self._held_here(holders.active_holders, t)
            and not holds(holders.standby_holders, t, had.standby)
            and not self._held_here(holders.warmup_holders, t)
        }
        self._is_blocked |= len(self._added_warmup) < len(target.warmup - had.warmup)

    def _held_here(self, holders: Mapping[TaskId, tuple[str, ...]], task: TaskId) -> bool:
        return self._process_id in holders.get(task, ())

    def _held_by_another(
        self,
        holders: Mapping[TaskId, tuple[str, ...]],
        task: TaskId,
        own: Mapping[TaskId, int] | frozenset[TaskId],
    ) -> bool:
        """Whether another member of the process holds it: the process does, and not as `own`."""
        return task not in own and self._held_here(holders, task)

    def next(self, epoch: int, target_epoch: int, owned: Tasks | None) -> CurrentAssignment:
        """The assignment after the step; `epoch` is the member's while it has to give up tasks."""
        self._change_roles()
        pending = HeldTasks(
            self._revoked_active,
            frozenset(self._revoked_standby),
            frozenset(self._revoked_warmup),
        )
        must_revoke = not pending.is_empty and (owned is None or pending.overlaps(owned))
        self._keep_until_promoted(must_revoke)
        standby, warmup = self._kept_standby, self._kept_warmup
        before = self._current.member_epoch
        if must_revoke:
            kept = HeldTasks(self._kept_active, frozenset(standby), frozenset(warmup))
            unrevoked = MemberState.UNREVOKED_TASKS
            return CurrentAssignment(epoch, before, unrevoked, kept, pending)
        assigned = HeldTasks(
            {**self._kept_active, **dict.fromkeys(self._added_active, target_epoch)},
            frozenset(standby | self._added_standby),
            frozenset(warmup | self._added_warmup),
        )
        state = MemberState.UNRELEASED_TASKS if self._is_blocked else MemberState.STABLE
        return CurrentAssignment(target_epoch, before, state, assigned, NO_HELD_TASKS)

    def _change_roles(self) -> None:
        """What the member has in one role and is to have in another needs no other member."""
        had, target = self._current.assigned, self._target
        demoted = self._added_standby & had.active.keys()
        to_warmup = self._added_warmup & had.standby
        self._kept_warmup |= to_warmup
        self._added_warmup -= to_warmup
        self._revoked_standby -= to_warmup
        to_standby = self._added_standby & had.warmup
        self._revoked_warmup -= to_standby
        self._kept_standby |= demoted | to_standby
        self._added_standby -= demoted | to_standby
        self._revoked_standby -= target.active
        self._revoked_warmup -= target.active

    def _keep_until_promoted(self, must_revoke: bool) -> None:
        """A copy that is to become active stays a copy as long as the active task is not given."""
        had = self._current.assigned
        waiting = self._target.active - (set() if must_revoke else self._added_active)
        self._kept_standby |= had.standby & waiting
        self._kept_warmup |= had.warmup & waiting
