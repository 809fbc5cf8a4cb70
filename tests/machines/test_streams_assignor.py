"""The sticky assignor of streams groups."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.group.streams.sticky_assignor import (
    AssignmentSpec,
    SpecMember,
    SpecSubtopology,
    assign_sticky,
)
from fencepost.machines.group.streams.tasks import TaskId, Tasks


def member(
    member_id: str,
    process: str | None = None,
    active: str = "",
    standby: str = "",
    offsets: dict[str, int] | None = None,
) -> SpecMember:
    """A member with tasks like "0_1 0_2"."""
    return SpecMember(
        member_id,
        process or f"p-{member_id}",
        frozenset(map(task, active.split())),
        frozenset(map(task, standby.split())),
        {task(name): offset for name, offset in (offsets or {}).items()},
    )


def task(name: str) -> TaskId:
    subtopology_id, partition = name.split("_")
    return TaskId(subtopology_id, int(partition))


def assign(
    *members: SpecMember, counts: dict[str, int], stateful: str = "", standbys: int = 0
) -> dict[str, tuple[str, str]]:
    """(active, standby) tasks of each member, as text."""
    spec = AssignmentSpec(
        members,
        tuple(SpecSubtopology(id_, count, id_ in stateful) for id_, count in counts.items()),
        standbys,
    )
    return {
        one: (names(tasks.active), names(tasks.standby))
        for one, tasks in assign_sticky(spec).items()
    }


def names(tasks: frozenset[TaskId]) -> str:
    return " ".join(f"{one.subtopology_id}_{one.partition}" for one in sorted(tasks))


CASES = {
    "one member has all": (
        assign(member("a"), counts={"0": 2, "1": 1}),
        {"a": ("0_0 0_1 1_0", "")},
    ),
    "no tasks": (assign(member("a"), counts={}), {"a": ("", "")}),
    "tasks go round": (
        assign(member("a"), member("b"), counts={"0": 4}),
        {"a": ("0_0 0_2", ""), "b": ("0_1 0_3", "")},
    ),
    "former owners keep theirs up to the quota": (
        assign(member("a", active="0_0 0_1 0_2 0_3"), member("b"), counts={"0": 4}),
        {"a": ("0_0 0_1", ""), "b": ("0_2 0_3", "")},
    ),
    "the quota of the others shrinks when a member is full": (
        assign(member("a", active="0_0 0_1 0_2"), member("b"), member("c"), counts={"0": 5}),
        {"a": ("0_0 0_1", ""), "b": ("0_2 0_4", ""), "c": ("0_3", "")},
    ),
    "a former owner keeps no more than what is left to the others": (
        assign(
            member("a", active="0_0 0_1"),
            member("b", active="0_2 0_3"),
            member("c"),
            counts={"0": 4},
        ),
        {"a": ("0_0 0_1", ""), "b": ("0_2", ""), "c": ("0_3", "")},
    ),
    "a former standby takes over from a member that is gone": (
        assign(member("a", active="0_0"), member("b", standby="0_1"), member("c"), counts={"0": 3}),
        {"a": ("0_0", ""), "b": ("0_1", ""), "c": ("0_2", "")},
    ),
    "of members with reported offsets the furthest takes over": (
        assign(
            member("a", offsets={"0_0": 5}),
            member("b", offsets={"0_0": 9}),
            counts={"0": 1},
        ),
        {"a": ("", ""), "b": ("0_0", "")},
    ),
    "a standby goes before reported offsets": (
        assign(
            member("a", standby="0_0"),
            member("b", offsets={"0_0": 9}),
            counts={"0": 1},
        ),
        {"a": ("0_0", ""), "b": ("", "")},
    ),
    "the best copy goes before one whose process alone is less loaded": (
        assign(
            member("a", "p", standby="0_0"),
            member("b", "p", active="0_1 0_2"),
            member("c", "q", standby="0_0"),
            counts={"0": 3},
        ),
        {"a": ("0_0", ""), "b": ("0_1", ""), "c": ("0_2", "")},
    ),
    "processes are loaded by their members": (
        assign(
            member("a", "p"), member("b", "p"), member("c", "p"), member("d", "q"), counts={"0": 4}
        ),
        {"a": ("0_0", ""), "b": ("0_2", ""), "c": ("0_3", ""), "d": ("0_1", "")},
    ),
    "standbys are in another process": (
        assign(
            member("a", "p"),
            member("b", "p"),
            member("c", "q"),
            counts={"0": 2},
            stateful="0",
            standbys=1,
        ),
        {"a": ("0_0", ""), "b": ("", "0_1"), "c": ("0_1", "0_0")},
    ),
    "without state there are no standbys": (
        assign(member("a"), member("b"), counts={"0": 2, "1": 2}, stateful="1", standbys=1),
        {"a": ("0_0 1_0", "1_1"), "b": ("0_1 1_1", "1_0")},
    ),
    "more standbys than processes are left out": (
        assign(member("a"), member("b"), counts={"0": 1}, stateful="0", standbys=2),
        {"a": ("0_0", ""), "b": ("", "0_0")},
    ),
    "a former active member keeps a copy": (
        assign(
            member("a", active="0_0 0_1"), member("b"), counts={"0": 2}, stateful="0", standbys=1
        ),
        {"a": ("0_0", "0_1"), "b": ("0_1", "0_0")},
    ),
    "a former standby stays one": (
        assign(
            member("a", active="0_0"),
            member("b"),
            member("c", standby="0_0"),
            counts={"0": 1},
            stateful="0",
            standbys=1,
        ),
        {"a": ("0_0", ""), "b": ("", ""), "c": ("", "0_0")},
    ),
}


@pytest.mark.parametrize(("assigned", "expected"), CASES.values(), ids=CASES)
def test_tasks_go_where_kafka_puts_them(
    assigned: dict[str, tuple[str, str]], expected: dict[str, tuple[str, str]]
) -> None:
    assert assigned == expected


def test_without_members_there_is_nothing_to_assign() -> None:
    assert assign(counts={"0": 2}, stateful="0", standbys=1) == {}


@st.composite
def specs(draw: st.DrawFn) -> AssignmentSpec:
    """Groups with whatever members have, tasks that do not exist any more among it."""
    known = [TaskId(id_, number) for id_ in "012" for number in range(5)]
    given_away: set[TaskId] = set()
    members = []
    for number in range(draw(st.integers(1, 6))):
        has = draw(st.sets(st.sampled_from(known), max_size=8))
        active = has - given_away
        given_away |= active
        members.append(
            SpecMember(
                f"m{number}",
                f"p{draw(st.integers(0, 3))}",
                frozenset(active),
                frozenset(draw(st.sets(st.sampled_from(known), max_size=4)) - active),
                draw(st.dictionaries(st.sampled_from(known), st.integers(0, 9), max_size=3)),
            )
        )
    subtopologies = tuple(
        SpecSubtopology(id_, draw(st.integers(0, 5)), draw(st.booleans())) for id_ in "012"
    )
    return AssignmentSpec(tuple(members), subtopologies, draw(st.integers(0, 2)))


@given(specs())
@settings(max_examples=100, deadline=None)
def test_every_task_is_active_once_and_in_a_process_once(spec: AssignmentSpec) -> None:
    assigned = assign_sticky(spec)
    wanted = {
        TaskId(one.subtopology_id, number)
        for one in spec.subtopologies
        for number in range(one.task_count)
    }
    active = [one for tasks in assigned.values() for one in tasks.active]
    assert sorted(active) == sorted(wanted)
    process_of = {one.member_id: one.process_id for one in spec.members}
    places = Counter(
        (process_of[member_id], one)
        for member_id, tasks in assigned.items()
        for one in (*tasks.active, *tasks.standby)
    )
    assert all(count == 1 for count in places.values())
    stateful = {one.subtopology_id for one in spec.subtopologies if one.is_stateful}
    copies = Counter(one for tasks in assigned.values() for one in tasks.standby)
    most = min(spec.standby_replicas, len(set(process_of.values())) - 1)
    assert copies == {one: most for one in wanted if one.subtopology_id in stateful and most}


@given(specs())
@settings(max_examples=60, deadline=None)
def test_an_assignment_does_not_depend_on_the_order_of_members(spec: AssignmentSpec) -> None:
    again = spec._replace(members=tuple(reversed(spec.members)))
    assert assign_sticky(spec) == assign_sticky(again)


@given(specs())
@settings(max_examples=60, deadline=None)
def test_a_balanced_assignment_stays_while_all_members_stay(spec: AssignmentSpec) -> None:
    """Members that have the outcome keep their active tasks when it is computed again."""
    first = assign_sticky(spec)

    def having(assigned: dict[str, Tasks]) -> AssignmentSpec:
        members = tuple(
            one._replace(active=has.active, standby=has.standby)
            for one in spec.members
            for has in (assigned[one.member_id],)
        )
        return spec._replace(members=members)

    sizes = [len(one.active) for one in first.values()]
    if max(sizes) - min(sizes) <= 1:
        second = assign_sticky(having(first))
        assert {k: v.active for k, v in second.items()} == {k: v.active for k, v in first.items()}
