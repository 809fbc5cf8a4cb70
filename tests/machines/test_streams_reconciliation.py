"""Steps of members of streams groups towards their targets."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.group.streams.reconciliation import (
    CurrentAssignment,
    MemberState,
    UnknownStateError,
    reconcile,
)
from fencepost.machines.group.streams.tasks import (
    NO_HELD_TASKS,
    NO_TASKS,
    HeldTasks,
    TaskId,
    Tasks,
)

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_TASKS,
    MemberState.UNRELEASED_TASKS,
)
A, B, C = (TaskId("0", number) for number in range(3))
EPOCH, TARGET_EPOCH = 5, 7


@dataclass
class Held:
    """Which processes hold tasks, one entry for each member."""

    active_holders: dict[TaskId, tuple[str, ...]] = field(default_factory=dict)
    standby_holders: dict[TaskId, tuple[str, ...]] = field(default_factory=dict)
    warmup_holders: dict[TaskId, tuple[str, ...]] = field(default_factory=dict)


def tasks(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    """Tasks by letter."""
    by_letter = dict(zip("ABC", (A, B, C), strict=True))
    return Tasks(*(frozenset(by_letter[one] for one in kind) for kind in (active, standby, warmup)))


def held(active: str = "", standby: str = "", warmup: str = "", epoch: int = EPOCH) -> HeldTasks:
    """The same, active ones given in `epoch`."""
    ids = tasks(active, standby, warmup)
    return HeldTasks(dict.fromkeys(ids.active, epoch), ids.standby, ids.warmup)


def own(assigned: HeldTasks, process: str = "p") -> Held:
    """Of a cluster with nothing but that."""
    return Held(*(dict.fromkeys(kind, (process,)) for kind in assigned))


def step(
    assigned: HeldTasks,
    target: Tasks,
    holders: Held | None = None,
    owned: Tasks | None = None,
    state: MemberState = STABLE,
    pending: HeldTasks = NO_HELD_TASKS,
    epoch: int = EPOCH,
) -> CurrentAssignment:
    current = CurrentAssignment(epoch, epoch - 1, state, assigned, pending)
    return reconcile(current, "p", TARGET_EPOCH, target, holders or own(assigned), owned)


def test_a_member_that_has_its_target_only_moves_to_its_epoch() -> None:
    after = step(held("A"), tasks("A"))
    assert after == CurrentAssignment(TARGET_EPOCH, EPOCH, STABLE, held("A"))


def test_a_stable_member_in_the_epoch_of_the_target_does_not_move() -> None:
    before = CurrentAssignment(TARGET_EPOCH, EPOCH, STABLE, held("A"))
    assert reconcile(before, "p", TARGET_EPOCH, tasks("B"), Held(), NO_TASKS) is before


def test_free_tasks_are_given_in_the_epoch_of_the_target() -> None:
    after = step(held("A"), tasks("AB", "C"))
    assert after.assigned == HeldTasks({A: EPOCH, B: TARGET_EPOCH}, frozenset({C}))
    assert (after.state, after.member_epoch, after.pending) == (STABLE, TARGET_EPOCH, NO_HELD_TASKS)


@pytest.mark.parametrize("owned", [None, tasks("AB")], ids=["unsaid", "owned"])
def test_what_is_to_be_given_up_keeps_the_epoch_and_blocks_what_is_new(owned: Tasks | None) -> None:
    after = step(held("AB"), tasks("AC"), owned=owned)
    assert after == CurrentAssignment(EPOCH, EPOCH, UNREVOKED, held("A"), held("B"))


def test_what_the_member_says_it_does_not_own_needs_no_revocation() -> None:
    after = step(held("AB"), tasks("AC"), owned=tasks("A"))
    assert (after.state, after.member_epoch) == (STABLE, TARGET_EPOCH)
    assert after.assigned.active == {A: EPOCH, C: TARGET_EPOCH}


@pytest.mark.parametrize("owned", [None, tasks("B"), tasks("AB")])
def test_an_unrevoked_member_waits_until_it_owns_nothing_of_it(owned: Tasks | None) -> None:
    current = CurrentAssignment(EPOCH, EPOCH, UNREVOKED, held("A"), held("B"))
    assert reconcile(current, "p", TARGET_EPOCH, tasks("A"), own(held("AB")), owned) is current


def test_after_a_revocation_with_more_to_revoke_the_epoch_is_the_next_one() -> None:
    after = step(held("A"), tasks("C"), owned=tasks("A"), state=UNREVOKED, pending=held("B"))
    assert after == CurrentAssignment(EPOCH + 1, EPOCH, UNREVOKED, NO_HELD_TASKS, held("A"))


def test_after_a_revocation_the_member_goes_to_the_target() -> None:
    after = step(held("A"), tasks("A"), owned=tasks("A"), state=UNREVOKED, pending=held("B"))
    assert after == CurrentAssignment(TARGET_EPOCH, EPOCH, STABLE, held("A"))


def test_a_task_that_comes_back_while_it_is_revoked_is_free_one_step_later() -> None:
    """The member's own process holds it until the step is done, as in Kafka."""
    holders = own(held("AB"))
    first = step(
        held("A"), tasks("AB"), holders, owned=tasks("A"), state=UNREVOKED, pending=held("B")
    )
    assert first == CurrentAssignment(TARGET_EPOCH, EPOCH, UNRELEASED, held("A"))
    second = reconcile(first, "p", TARGET_EPOCH, tasks("AB"), own(first.assigned), None)
    assert (second.state, set(second.assigned.active)) == (STABLE, {A, B})


BLOCKED = [
    # (role in the target, holders, whether it is blocked)
    ("active", Held(active_holders={A: ("q",)}), True),
    ("active", Held(active_holders={A: ("p",)}), True),
    ("active", Held(standby_holders={A: ("q",)}), False),
    ("active", Held(standby_holders={A: ("p",)}), True),
    ("active", Held(warmup_holders={A: ("q",)}), False),
    ("active", Held(warmup_holders={A: ("p", "q")}), True),
    ("standby", Held(active_holders={A: ("q",)}), False),
    ("standby", Held(active_holders={A: ("p",)}), True),
    ("standby", Held(standby_holders={A: ("q",)}), False),
    ("standby", Held(standby_holders={A: ("p",)}), True),
    ("standby", Held(warmup_holders={A: ("q",)}), False),
    ("standby", Held(warmup_holders={A: ("p",)}), True),
    ("warmup", Held(active_holders={A: ("q",)}), False),
    ("warmup", Held(active_holders={A: ("p",)}), True),
    ("warmup", Held(standby_holders={A: ("p",)}), True),
    ("warmup", Held(standby_holders={A: ("q",)}), False),
    ("warmup", Held(warmup_holders={A: ("p",)}), True),
    ("warmup", Held(warmup_holders={A: ("q",)}), False),
]


@pytest.mark.parametrize(("role", "holders", "blocked"), BLOCKED)
def test_a_task_waits_for_the_members_that_exclude_it(
    role: str, holders: Held, blocked: bool
) -> None:
    after = step(NO_HELD_TASKS, tasks(**{role: "A"}), holders)
    assert after.state is (UNRELEASED if blocked else STABLE)
    assert after.member_epoch == TARGET_EPOCH
    assert (after.assigned.ids == NO_TASKS) is blocked


def test_an_unreleased_member_gets_what_has_become_free_and_waits_for_the_rest() -> None:
    holders = Held(active_holders={A: ("p",), C: ("q",)})
    after = step(held("A"), tasks("ABC"), holders, state=UNRELEASED, epoch=TARGET_EPOCH)
    assert after.state is UNRELEASED
    assert after.assigned.active == {A: EPOCH, B: TARGET_EPOCH}


# Roles that change within a member


def test_an_active_task_that_becomes_a_copy_is_demoted_in_place() -> None:
    after = step(held("A"), tasks("", "A"), owned=tasks("A"))
    assert after == CurrentAssignment(EPOCH, EPOCH, UNREVOKED, held("", "A"), held("A"))


def test_a_copy_that_becomes_active_is_promoted_when_the_task_is_free() -> None:
    after = step(held("", "A"), tasks("A"))
    assert after == CurrentAssignment(TARGET_EPOCH, EPOCH, STABLE, held("A", epoch=TARGET_EPOCH))


def test_a_copy_that_becomes_active_is_kept_until_the_task_is_free() -> None:
    holders = Held(active_holders={A: ("q",)}, standby_holders={A: ("p",)})
    after = step(held("", "A"), tasks("A"), holders)
    assert after == CurrentAssignment(TARGET_EPOCH, EPOCH, UNRELEASED, held("", "A"))


def test_a_copy_that_becomes_active_is_kept_while_others_are_revoked() -> None:
    after = step(held("B", "A"), tasks("A"), owned=tasks("B", "A"))
    assert after == CurrentAssignment(EPOCH, EPOCH, UNREVOKED, held("", "A"), held("B"))


@pytest.mark.parametrize(("before", "after"), [("standby", "warmup"), ("warmup", "standby")])
def test_copies_change_their_role_in_place(before: str, after: str) -> None:
    done = step(held(**{before: "A"}), tasks(**{after: "A"}))
    assert done == CurrentAssignment(TARGET_EPOCH, EPOCH, STABLE, held(**{after: "A"}))


# A state of a later version


@pytest.mark.parametrize("owned", [None, tasks("A")])
def test_a_member_in_an_unknown_state_must_join_again(owned: Tasks | None) -> None:
    with pytest.raises(UnknownStateError):
        step(held("A"), tasks("A"), owned=owned, state=MemberState.UNKNOWN)


def test_a_member_in_an_unknown_state_that_owns_nothing_goes_to_the_target() -> None:
    after = step(held("A"), tasks("A"), owned=NO_TASKS, state=MemberState.UNKNOWN)
    assert (after.state, after.member_epoch) == (STABLE, TARGET_EPOCH)


# Properties


TASKS = [TaskId("0", number) for number in range(4)] + [TaskId("1", number) for number in range(2)]
MEMBERS = {"a": "p", "b": "p", "c": "q", "d": "r"}


@dataclass
class Group:
    """Members that are reconciled, and what their processes do: run a task, or keep a copy."""

    current: dict[str, CurrentAssignment] = field(
        default_factory=lambda: dict.fromkeys(MEMBERS, CurrentAssignment())
    )
    owned: dict[str, Tasks] = field(default_factory=lambda: dict.fromkeys(MEMBERS, NO_TASKS))
    targets: dict[str, Tasks] = field(default_factory=lambda: dict.fromkeys(MEMBERS, NO_TASKS))
    epoch: int = 0

    def holders(self) -> Held:
        made = Held()
        for member, current in self.current.items():
            for one in (current.assigned, current.pending):
                for index, kind in zip(
                    (made.active_holders, made.standby_holders, made.warmup_holders),
                    one,
                    strict=True,
                ):
                    for task in kind:
                        index[task] = (*index.get(task, ()), MEMBERS[member])
        return made

    def beat(self, member: str, *, says_what_it_owns: bool) -> None:
        """A heartbeat; the member then runs what it is given, as soon as it is given it."""
        current = self.current[member]
        owned = self.owned[member] if says_what_it_owns else None
        target = self.targets[member]
        after = reconcile(current, MEMBERS[member], self.epoch, target, self.holders(), owned)
        self.current[member] = after
        self.owned[member] = Tasks(
            *(
                mine | given
                for mine, given in zip(self.owned[member], after.assigned.ids, strict=True)
            )
        )

    def give_up(self, member: str) -> None:
        """The member stops what is not assigned to it any more."""
        self.owned[member] = self.current[member].assigned.ids

    def check(self) -> None:
        """No task is run by two members, and no process works on a task in two members."""
        for task in TASKS:
            running = [one for one in MEMBERS if task in self.owned[one].active]
            assert len(running) <= 1, f"{task} is run by {running}"
            for process in set(MEMBERS.values()):
                working = [
                    one
                    for one, where in MEMBERS.items()
                    if where == process and any(task in kind for kind in self.owned[one])
                ]
                assert len(working) <= 1, f"{task} is in {process} twice: {working}"


@st.composite
def targets(draw: st.DrawFn) -> dict[str, Tasks]:
    """Targets as an assignor makes them: a task is active once, and in a process once."""
    kinds: dict[str, list[set[TaskId]]] = {one: [set(), set(), set()] for one in MEMBERS}
    for task in TASKS:
        members = draw(st.permutations(sorted(MEMBERS)))
        used: set[str] = set()
        for role, member in zip(draw(st.permutations([0, 1, 1, 2])), members, strict=True):
            is_taken = MEMBERS[member] in used or (role == 0 and not draw(st.booleans()))
            if not is_taken and draw(st.booleans()):
                kinds[member][role].add(task)
                used.add(MEMBERS[member])
    return {one: Tasks(*map(frozenset, roles)) for one, roles in kinds.items()}


STEPS = st.lists(
    st.one_of(
        targets(),
        st.tuples(st.sampled_from(["beat", "says", "gives up"]), st.sampled_from(sorted(MEMBERS))),
    ),
    max_size=40,
)


@given(STEPS, targets())
@settings(max_examples=200, deadline=None)
def test_no_task_runs_twice_and_all_members_reach_their_targets(
    steps: list[dict[str, Tasks] | tuple[str, str]], last: dict[str, Tasks]
) -> None:
    group = Group()
    for one in steps:
        if isinstance(one, dict):
            group.targets, group.epoch = one, group.epoch + 1
        elif one[0] == "gives up":
            group.give_up(one[1])
        else:
            group.beat(one[1], says_what_it_owns=one[0] == "says")
        group.check()
    group.targets, group.epoch = last, group.epoch + 1
    for _ in range(3 * len(MEMBERS)):
        for member in MEMBERS:
            group.give_up(member)
            group.beat(member, says_what_it_owns=True)
            group.check()
    for member in MEMBERS:
        assert group.current[member].assigned.ids == last[member]
        assert group.current[member].is_reconciled_to(group.epoch)


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_tasks_are_compared_role_by_role(role: str) -> None:
    has = held(**{role: "AB"})
    assert has.overlaps(tasks(**{role: "BC"})) and not has.overlaps(tasks(**{role: "C"}))
    assert has.contains(tasks(**{role: "A"})) and not has.contains(tasks(**{role: "AC"}))
    for other in {"active", "standby", "warmup"} - {role}:
        assert not has.overlaps(tasks(**{other: "A"})) and not has.contains(tasks(**{other: "A"}))
