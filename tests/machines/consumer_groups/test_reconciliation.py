"""Reconciliation as a function: every case of KIP-848, and what holds whatever members do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.group.consumer.member import MemberState, Partitions, Progress
from fencepost.machines.group.consumer.reconciliation import Heard, may_own, reconcile
from fencepost.wire.types import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN


def held(epoch: int, *indexes: int, topic: Uuid = T) -> dict[Uuid, dict[int, int]]:
    return {topic: dict.fromkeys(indexes, epoch)} if indexes else {}


def of(*indexes: int, topic: Uuid = T) -> dict[Uuid, frozenset[int]]:
    return {topic: frozenset(indexes)} if indexes else {}


def step(
    before: Progress,
    target: Partitions,
    target_epoch: int = 5,
    *,
    taken: Iterable[int] = (),
    owned: Partitions | None = None,
    subscribed: Iterable[Uuid] = (T, U),
    changed: bool = False,
) -> Progress:
    """One heartbeat, while others hold the partitions `taken` of T."""

    def is_free(topic_id: Uuid, index: int) -> bool:
        return not (topic_id == T and index in taken)

    heard = Heard(owned, changed)
    return reconcile(before, target, target_epoch, set(subscribed), is_free, heard)


HAS_01 = Progress(4, 3, STABLE, held(4, 0, 1))
GIVES_UP_1 = Progress(4, 4, UNREVOKED, held(4, 0), held(4, 1))
WAITS = Progress(5, 4, UNRELEASED, held(4, 0))

CASES: list[Any] = [
    pytest.param(
        Progress(), of(0, 1), {}, Progress(5, 0, STABLE, held(5, 0, 1)), id="a-new-member-gets-all"
    ),
    pytest.param(HAS_01, of(0, 1), {}, Progress(5, 4, STABLE, held(4, 0, 1)), id="only-the-epoch"),
    pytest.param(HAS_01, of(0), {}, GIVES_UP_1, id="told-to-give-up-in-its-epoch"),
    pytest.param(
        HAS_01,
        of(0),
        {"owned": of(0)},
        Progress(5, 4, STABLE, held(4, 0)),
        id="has-given-up-before-it-was-told",
    ),
    pytest.param(
        HAS_01,
        of(0, 2),
        {},
        GIVES_UP_1,
        id="nothing-is-added-before-the-rest-is-given-up",
    ),
    pytest.param(GIVES_UP_1, of(0), {}, GIVES_UP_1, id="owned-not-sent-is-no-proof"),
    pytest.param(GIVES_UP_1, of(0), {"owned": of(0, 1)}, GIVES_UP_1, id="owns-it-still"),
    pytest.param(
        GIVES_UP_1,
        of(0),
        {"owned": of(0)},
        Progress(5, 4, STABLE, held(4, 0)),
        id="gave-it-up",
    ),
    pytest.param(
        GIVES_UP_1,
        of(0, 1),
        {"owned": of(0), "taken": [1]},
        Progress(5, 4, STABLE, {T: {0: 4, 1: 5}}),
        id="its-own-pending-partition-does-not-block-it",
    ),
    pytest.param(
        GIVES_UP_1,
        of(),
        {"owned": of(0)},
        Progress(4, 4, UNREVOKED, {}, held(4, 0)),
        id="gave-one-up-and-is-told-the-next-in-the-same-epoch",
    ),
    pytest.param(
        HAS_01,
        of(0, 1, 2),
        {"taken": [2]},
        Progress(5, 4, UNRELEASED, held(4, 0, 1)),
        id="waits-for-what-another-holds",
    ),
    pytest.param(
        HAS_01,
        of(0, 1, 2, 3),
        {"taken": [2]},
        Progress(5, 4, UNRELEASED, {T: {0: 4, 1: 4, 3: 5}}),
        id="takes-what-is-free-and-waits-for-the-rest",
    ),
    pytest.param(
        WAITS,
        of(0, 2),
        {"taken": [2]},
        Progress(5, 5, UNRELEASED, held(4, 0)),
        id="its-answer-has-arrived-when-it-asks-again",
    ),
    pytest.param(
        Progress(5, 5, UNRELEASED, held(4, 0)),
        of(0, 2),
        {"taken": [2]},
        Progress(5, 5, UNRELEASED, held(4, 0)),
        id="waits-on",
    ),
    pytest.param(
        WAITS, of(0, 2), {}, Progress(5, 5, STABLE, {T: {0: 4, 2: 5}}), id="is-given-what-was-held"
    ),
    pytest.param(
        WAITS,
        of(2),
        {"taken": [2]},
        Progress(5, 5, UNREVOKED, {}, held(4, 0)),
        id="is-told-to-give-up-while-it-waits",
    ),
    pytest.param(
        Progress(5, 4, STABLE, {**held(4, 0), **held(4, 7, topic=U)}),
        {**of(0), **of(7, topic=U)},
        {"subscribed": [T], "changed": True},
        Progress(5, 5, UNREVOKED, held(4, 0), held(4, 7, topic=U)),
        id="unsubscribed-topics-go-at-once",
    ),
    pytest.param(
        Progress(5, 4, STABLE, {**held(4, 0), **held(4, 7, topic=U)}),
        {**of(0), **of(7, topic=U)},
        {"subscribed": [T], "changed": True, "owned": of(0)},
        Progress(5, 5, STABLE, held(4, 0)),
        id="unsubscribed-topics-that-it-does-not-own-are-free",
    ),
    pytest.param(
        Progress(4, 4, UNREVOKED, {**held(4, 0), **held(4, 7, topic=U)}, held(4, 1)),
        {**of(0), **of(7, topic=U)},
        {"subscribed": [T], "changed": True},
        Progress(4, 4, UNREVOKED, held(4, 0), {**held(4, 1), **held(4, 7, topic=U)}),
        id="unsubscribed-topics-join-what-is-pending",
    ),
    pytest.param(
        HAS_01,
        of(0, 1),
        {"subscribed": [U], "owned": of()},
        Progress(5, 4, STABLE),
        id="a-target-that-is-not-subscribed-to-any-more-is-none",
    ),
    pytest.param(
        Progress(5, 4, STABLE, held(4, 0)),
        of(0, 1),
        {},
        Progress(5, 4, STABLE, held(4, 0)),
        id="in-the-target-epoch-it-is-done",
    ),
    pytest.param(
        Progress(4, 3, UNKNOWN, held(4, 0)),
        of(0),
        {"owned": of()},
        Progress(5, 4, STABLE, held(4, 0)),
        id="an-unknown-state-ends-when-nothing-is-owned",
    ),
]


@pytest.mark.parametrize(("before", "target", "said", "after"), CASES)
def test_the_next_step(before: Progress, target: Any, said: Any, after: Progress) -> None:
    assert step(before, target, **said) == after


def test_what_does_not_change_is_the_same_object() -> None:
    for before, target, said, after in (case.values for case in CASES):
        if before == after:
            assert step(before, target, **said) is before


def test_what_a_member_may_own() -> None:
    assert may_own(held(1, 0), None)
    assert may_own(held(1, 0, 1), of(1, 2))
    assert not may_own(held(1, 0), of(1))
    assert not may_own(held(1, 0), of(0, topic=U))
    assert not may_own({}, of(0))


# -- whatever members do ---------------------------------------------------------------------------

PARTITIONS = range(6)


class Model:
    """Members that reconcile with each other, and what each client believes to own."""

    def __init__(self) -> None:
        self.epoch = 1
        self.progress: dict[str, Progress] = {}
        self.target: dict[str, frozenset[int]] = {}
        self.owns: dict[str, set[int]] = {}
        self.client_epoch: dict[str, int] = {}

    def holders(self, index: int) -> list[str]:
        return [
            name for name, one in self.progress.items() if one.holds_since(T, index) is not None
        ]

    def retarget(self, owners: list[str | None]) -> None:
        """Another target: partition i is to be of `owners[i]`, if that is a member."""
        self.epoch += 1
        self.target = {
            name: frozenset(i for i, owner in enumerate(owners) if owner == name)
            for name in self.progress
        }

    def heartbeat(self, name: str, *, says_owned: bool, is_lost: bool) -> None:
        before = self.progress[name]
        owned = {T: frozenset(self.owns[name])} if self.owns[name] else {}
        after = reconcile(
            before,
            of(*self.target.get(name, ())),
            self.epoch,
            {T},
            lambda _, index: not self.holders(index),
            Heard(owned if says_owned else None),
        )
        self.progress[name] = after
        self.check()
        assert after.epoch >= before.epoch
        if not is_lost:
            self.owns[name] = set(after.assigned.get(T, ()))

    def check(self) -> None:
        for index in PARTITIONS:
            assert len(self.holders(index)) <= 1, f"{index} is held by {self.holders(index)}"
            owners = [name for name, owned in self.owns.items() if index in owned]
            assert len(owners) <= 1, f"{index} is read by {owners}"


@st.composite
def histories(draw: Any) -> list[tuple[Any, ...]]:
    names = st.sampled_from("abcd")
    owners = st.lists(st.none() | names, min_size=6, max_size=6)
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("join"), names),
                st.tuples(st.just("leave"), names),
                st.tuples(st.just("target"), owners),
                st.tuples(st.just("beat"), names, st.booleans(), st.booleans()),
            ),
            max_size=60,
        )
    )


@settings(max_examples=300, deadline=None)
@given(histories(), st.lists(st.sampled_from("abcd"), min_size=6, max_size=6))
def test_one_holder_and_convergence(history: list[tuple[Any, ...]], owners: list[str]) -> None:
    model = Model()
    for what, *how in history:
        if what == "join" and how[0] not in model.progress:
            model.progress[how[0]], model.owns[how[0]] = Progress(), set()
        elif what == "leave":
            model.progress.pop(how[0], None)
            model.owns.pop(how[0], None)
        elif what == "target":
            model.retarget(how[0])
        elif what == "beat" and how[0] in model.progress:
            model.heartbeat(how[0], says_owned=how[1], is_lost=how[2])
        model.check()
    model.retarget(list(owners))
    for _ in range(3):
        for name in model.progress:
            model.heartbeat(name, says_owned=True, is_lost=False)
    for name, one in model.progress.items():
        assert one.is_reconciled_to(model.epoch)
        assert model.owns[name] == model.target[name]
