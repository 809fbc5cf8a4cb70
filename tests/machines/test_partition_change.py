"""What one change of a partition comes to: Kafka's cases, and what must hold of any change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from fencepost.machines.controller.partition_change import (
    ELR_FEATURE,
    Election,
    Target,
    propose_change,
)
from fencepost.machines.image import (
    DIRECTORY_LOST,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    ClusterImage,
    PartitionImage,
)
from fencepost.wire.records.metadata import PartitionChangeRecord

from .controller_fixtures import uuid

BEFORE_36, BEFORE_DIRECTORIES, BEFORE_ELR, ELR = 11, 16, 22, 23
TOPIC = uuid(1)


def image_at(level: int) -> ClusterImage:
    features = {"metadata.version": level}
    if level >= ELR:
        features[ELR_FEATURE] = 1
    return ClusterImage(features=features)


def partition(replicas: tuple[int, ...], isr: tuple[int, ...], **changes: Any) -> PartitionImage:
    values: dict[str, Any] = {
        "leader": isr[0] if isr else NO_LEADER,
        "leader_epoch": 100,
        "partition_epoch": 200,
        "directories": tuple(uuid(100 + id_) for id_ in replicas),
        **changes,
    }
    return PartitionImage(replicas, isr, **values)


def changed(
    before: PartitionImage,
    alive: set[int],
    level: int = ELR,
    min_isr: int = 2,
    **target: Any,
) -> dict[str, Any] | None:
    """What the record says, without what it does not say; None if there is no record."""
    record = propose_change(
        TOPIC, 7, before, Target(**target), alive.__contains__, image_at(level), min_isr
    )
    return None if record is None else said(record)


def said(record: PartitionChangeRecord) -> dict[str, Any]:
    assert (record.topic_id, record.partition_id) == (TOPIC, 7)
    blank = PartitionChangeRecord(topic_id=TOPIC, partition_id=7)
    names = (
        "leader", "isr", "replicas", "removing_replicas", "adding_replicas", "directories",
        "leader_recovery_state", "eligible_leader_replicas", "last_known_elr",
    )  # fmt: skip
    return {
        name: getattr(record, name)
        for name in names
        if getattr(record, name) != getattr(blank, name)
    }


def dirs(*broker_ids: int) -> list[Any]:
    return [uuid(100 + id_) for id_ in broker_ids]


FOO = partition((2, 1, 3), (2, 1, 3), leader=1)
BAR = partition((1, 2, 3, 4), (1, 2, 3), removing_replicas=(1,), adding_replicas=(4,))
BAZ = partition((2, 1, 3), (1, 3), leader=3)
OFFLINE = partition(
    (2, 1, 3), (), eligible_leader_replicas=(3,), last_known_elr=(2,), leader=NO_LEADER
)
UNCLEAN, PREFERRED = Election.UNCLEAN, Election.PREFERRED

CASES: list[tuple[str, PartitionImage, set[int], dict[str, Any], dict[str, Any] | None]] = [
    ("nothing", FOO, {1, 2}, {}, None),
    ("nothing, uncleanly", FOO, {1, 2}, {"election": UNCLEAN}, None),
    ("nothing while it moves", BAR, {1, 2, 4}, {}, None),
    ("the preferred one is not in sync", BAZ, {1, 2, 3}, {"election": PREFERRED}, None),
    ("the preferred one", FOO, {1, 2}, {"election": PREFERRED}, {"leader": 2}),
    (
        "the preferred one of the new order",
        FOO,
        {1, 2, 3},
        {"election": PREFERRED, "replicas": (3, 1, 2)},
        {"leader": 3, "replicas": [3, 1, 2], "directories": dirs(3, 1, 2)},
    ),
    ("a smaller ISR", FOO, {1, 2}, {"isr": (2, 1)}, {"isr": [2, 1]}),
    ("the leader leaves", FOO, {1, 2}, {"isr": (2, 3)}, {"isr": [2, 3], "leader": 2}),
    (
        "another order completes at once",
        FOO,
        {1, 2},
        {"replicas": (3, 2, 1)},
        {"replicas": [3, 2, 1], "directories": dirs(3, 2, 1)},
    ),
    (
        "a larger ISR completes the move",
        BAR,
        {1, 2, 4},
        {"isr": (1, 2, 3, 4)},
        {
            "replicas": [2, 3, 4],
            "isr": [2, 3, 4],
            "leader": 2,
            "removing_replicas": [],
            "adding_replicas": [],
            "directories": dirs(2, 3, 4),
        },
    ),
    (
        "called off",
        BAR,
        {1, 2, 4},
        {"isr": (1, 2, 3), "replicas": (1, 2, 3), "removing": (), "adding": ()},
        {
            "replicas": [1, 2, 3],
            "leader": 1,
            "removing_replicas": [],
            "adding_replicas": [],
            "directories": dirs(1, 2, 3),
        },
    ),
    (
        "one is taken away",
        FOO,
        {1, 2},
        {"replicas": (1, 2, 3), "removing": (3,)},
        {"replicas": [1, 2], "isr": [2, 1], "leader": 1, "directories": dirs(1, 2)},
    ),
    (
        "one is added",
        FOO,
        {1, 2},
        {"replicas": (1, 2, 3, 4), "adding": (4,)},
        {
            "replicas": [1, 2, 3, 4],
            "adding_replicas": [4],
            "directories": [*dirs(1, 2, 3), DIRECTORY_UNASSIGNED],
        },
    ),
    (
        "unclean",
        FOO,
        {1, 2},
        {"election": UNCLEAN, "isr": (3,)},
        {"leader": 2, "isr": [2], "leader_recovery_state": RECOVERING},
    ),
    (
        "unclean ends who was eligible",
        OFFLINE,
        {1},
        {"election": UNCLEAN},
        {
            "leader": 1,
            "isr": [1],
            "leader_recovery_state": RECOVERING,
            "eligible_leader_replicas": [],
            "last_known_elr": [],
        },
    ),
    (
        "an eligible one may lead cleanly",
        OFFLINE,
        {1, 3},
        {"election": UNCLEAN},
        {"leader": 3, "isr": [3], "eligible_leader_replicas": [], "last_known_elr": []},
    ),
    (
        "the last known leader waits for who is eligible",
        replace(OFFLINE, last_known_elr=(1,)),
        {1, 2},
        {},
        None,
    ),
    (
        "the last known leader",
        replace(OFFLINE, eligible_leader_replicas=(), last_known_elr=(1,)),
        {1, 2},
        {},
        {"leader": 1, "isr": [1], "leader_recovery_state": RECOVERING, "last_known_elr": []},
    ),
    (
        "the last known leader is dead (KAFKA-19522)",
        replace(OFFLINE, eligible_leader_replicas=(), last_known_elr=(1,)),
        {2},
        {},
        None,
    ),
    (
        "who is there already is in sync again",
        replace(OFFLINE, eligible_leader_replicas=(), last_known_elr=(1, 3)),
        {1, 3},
        {},
        None,
    ),
    (
        "directories are found",
        FOO,
        {1, 2},
        {"directories": {3: uuid(77), 1: DIRECTORY_LOST}},
        {"directories": [uuid(102), DIRECTORY_LOST, uuid(77)]},
    ),
    (
        "directories are kept, known or unknown",
        FOO,
        {1, 2},
        {"replicas": (3, 1, 5, 4), "directories": {5: uuid(55)}},
        {
            "replicas": [3, 1, 5, 4],
            "leader": 1,
            "directories": [uuid(103), uuid(101), uuid(55), DIRECTORY_UNASSIGNED],
        },
    ),
    (
        "a leader that stopped does not lead what it has lost",
        partition((2, 3, 0, 1), (0, 1), removing_replicas=(0, 1), adding_replicas=(2, 3)),
        {1, 4},
        {"isr": (0, 1, 2, 3)},
        {
            "replicas": [2, 3],
            "isr": [2, 3],
            "leader": NO_LEADER,
            "removing_replicas": [],
            "adding_replicas": [],
            "directories": dirs(2, 3),
        },
    ),
    ("recovered", FOO, {1, 2}, {"recovery_state": RECOVERED}, None),
    (
        "has recovered",
        replace(BAZ, leader_recovery_state=RECOVERING),
        {1, 2, 3},
        {"recovery_state": RECOVERED},
        {"leader_recovery_state": RECOVERED},
    ),
]


@pytest.mark.parametrize(
    ("before", "alive", "target", "then"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_kafkas_cases(
    before: PartitionImage,
    alive: set[int],
    target: dict[str, Any],
    then: dict[str, Any] | None,
) -> None:
    assert changed(before, alive, **target) == then


@pytest.mark.parametrize(
    ("isr", "elr", "new_isr", "lost", "then_elr"),
    [
        ((1, 2, 3), (), (1, 2), (), (3,)),
        ((1,), (2, 3), (1, 4), (), (2, 3)),
        ((1,), (2, 3), (1, 2), (), (3,)),
        ((1,), (2, 3), (1, 2, 4), (), ()),
        ((1,), (2, 3), (1,), (3,), (2,)),
        ((1, 2), (3,), (1,), (2,), (3,)),
    ],
)
def test_who_stays_eligible(
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    new_isr: tuple[int, ...],
    lost: tuple[int, ...],
    then_elr: tuple[int, ...],
) -> None:
    """With min ISR 3."""
    before = partition((1, 2, 3, 4), isr, eligible_leader_replicas=elr)
    target = Target(isr=new_isr, lost=frozenset(lost))
    record = propose_change(TOPIC, 7, before, target, {1, 2, 3, 4}.__contains__, image_at(ELR), 3)
    assert record is not None
    assert before.merged_with(record).eligible_leader_replicas == then_elr


def test_an_isr_may_become_empty_only_with_eligible_replicas() -> None:
    before = partition((1, 2, 3, 4), (1, 2, 3, 4))
    assert changed(before, set(), min_isr=3, isr=()) == {
        "leader": NO_LEADER,
        "isr": [],
        "eligible_leader_replicas": [1, 2, 3, 4],
        "last_known_elr": [1],
    }
    assert changed(before, set(), level=BEFORE_ELR, isr=()) == {"leader": NO_LEADER}


def test_the_last_known_leader_is_written_down_once() -> None:
    gone = partition(
        (1, 2), (), eligible_leader_replicas=(1, 2), last_known_elr=(1,), leader=NO_LEADER
    )
    then = changed(gone, set(), lost=frozenset({2}))
    assert then == {"eligible_leader_replicas": [1]}
    leaderless = partition((1, 2), (1,), leader=NO_LEADER)
    assert changed(leaderless, set(), isr=()) == {"isr": [], "eligible_leader_replicas": [1]}


def test_a_last_known_leader_without_a_replica_is_not_elected() -> None:
    moved = partition((1, 2), (), last_known_elr=(3,), leader=NO_LEADER)
    assert changed(moved, {3}) is None
    then = changed(replace(moved, last_known_elr=(2,)), {2, 3})
    assert then is not None and then["leader"] == 2


def test_a_leader_that_is_written_down_already_is_not_written_again() -> None:
    before = partition((1, 2), (1, 2), last_known_elr=(1,))
    then = changed(before, set(), isr=())
    assert then is not None and then["isr"] == []
    assert "last_known_elr" not in then


def test_who_is_elected_from_the_eligible_is_in_sync_alone() -> None:
    before = partition((1, 2, 3, 4), (1,), eligible_leader_replicas=(3,))
    for election in (Election.ONLINE, PREFERRED):
        then = changed(before, {2, 3, 4}, min_isr=3, isr=(), election=election)
        assert then == {"leader": 3, "isr": [3], "eligible_leader_replicas": [1]}


def test_who_is_taken_away_is_not_eligible() -> None:
    before = partition((1, 2, 3), (1, 2), removing_replicas=(2,), adding_replicas=(3,))
    then = changed(before, {1, 2, 3}, min_isr=3, isr=(1, 2, 3))
    assert then is not None and then["isr"] == [1, 3]
    assert "eligible_leader_replicas" not in then


@pytest.mark.parametrize(
    ("level", "isr", "leader"),
    [
        (BEFORE_36, (2, 1), 1),
        (BEFORE_36 + 1, (2, 1), NO_LEADER_CHANGE),
        (BEFORE_36, (2, 1, 3, 4), NO_LEADER_CHANGE),
        (BEFORE_ELR, (2, 1), NO_LEADER_CHANGE),
    ],
)
def test_a_smaller_isr_raised_the_epoch_before_36(
    level: int, isr: tuple[int, ...], leader: int
) -> None:
    then = changed(FOO, {1, 2}, level, isr=isr)
    assert then is not None and then.get("leader", NO_LEADER_CHANGE) == leader


def test_older_clusters_do_not_speak_of_directories_or_the_eligible() -> None:
    for level in (BEFORE_36, BEFORE_DIRECTORIES):
        then = changed(FOO, {1, 2}, level, replicas=(3, 2, 1))
        assert then == {"replicas": [3, 2, 1]}
    forgotten = {"leader": 3, "isr": [3], "eligible_leader_replicas": []}
    assert changed(OFFLINE, {1, 3}, BEFORE_ELR) == forgotten


@pytest.mark.parametrize(
    ("replicas", "isr", "removing", "adding", "is_done"),
    [
        ((0, 1, 2, 3), (0, 1, 3), (), (3,), True),
        ((1, 2, 3, 0), (1, 0, 3), (0,), (3,), True),
        ((2, 3, 4, 0, 1), (0, 1, 3, 4), (0, 1), (3, 4), True),
        ((2, 3, 4, 0, 1), (0, 1, 3), (0, 1), (3, 4), False),
        ((1, 2, 0), (0, 1), (0,), (), False),
        ((1, 2, 0), (0, 1, 2), (0,), (), True),
        ((1, 0), (0,), (0,), (1,), False),
    ],
)
def test_when_a_move_is_completed(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    removing: tuple[int, ...],
    adding: tuple[int, ...],
    is_done: bool,
) -> None:
    """KAFKA-19975: a sick replica that stays is in the way only if there are fewer replicas."""
    before = partition(
        replicas, isr, leader=isr[0], removing_replicas=removing, adding_replicas=adding
    )
    assert (changed(before, {0, 1, 2, 3, 4}) is not None) == is_done


# -- whatever the change ------------------------------------------------------------------------

BROKERS = st.integers(0, 5)
SETS = st.lists(BROKERS, unique=True, max_size=5).map(tuple)


@st.composite
def histories(draw: Any) -> tuple[PartitionImage, list[tuple[Target, set[int]]]]:
    replicas = draw(st.lists(BROKERS, unique=True, min_size=1, max_size=4).map(tuple))
    before = partition(replicas, replicas)
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["isr", "lost", "move", "call off", "nothing"]),
                SETS,
                st.sets(BROKERS),
                st.sampled_from(list(Election)),
            ),
            max_size=12,
        )
    )
    return before, steps


def target_of(now: PartitionImage, kind: str, those: tuple[int, ...], election: Election) -> Target:
    """A target as callers make them: an ISR within the replicas, a move of which some stay."""
    within = tuple(id_ for id_ in those if id_ in now.replicas)
    before_move = tuple(id_ for id_ in now.replicas if id_ not in now.adding_replicas)
    if kind == "isr" and now.leader in within:
        return Target(isr=within, election=election)
    if kind == "lost" and within:
        rest = tuple(id_ for id_ in now.isr if id_ != within[0])
        return Target(isr=rest, election=election, lost=frozenset(within[:1]))
    if kind == "move" and those:
        gone = tuple(sorted(set(now.replicas) - set(those)))
        new = tuple(sorted(set(those) - set(before_move)))
        return Target(replicas=those + gone, removing=gone, adding=new)
    rest = tuple(id_ for id_ in now.isr if id_ in before_move)
    if kind == "call off" and now.is_reassigning and rest:
        return Target(isr=rest, replicas=before_move, removing=(), adding=(), election=election)
    return Target(election=election)


@settings(max_examples=60, deadline=None)
@given(history=histories(), level=st.sampled_from([BEFORE_36, BEFORE_ELR, ELR]))
def test_what_holds_after_any_change(history: Any, level: int) -> None:
    now, steps = history
    image = image_at(level)
    for kind, those, alive, election in steps:
        target = target_of(now, kind, those, election)
        if target.lost:
            alive = alive - target.lost
        record = propose_change(TOPIC, 7, now, target, alive.__contains__, image, 2)
        if record is None:
            continue
        then = now.merged_with(record)
        check_change(now, then, record, target, level)
        again = propose_change(TOPIC, 7, then, Target(), alive.__contains__, image, 2)
        assert again is None, f"{then}: there is nothing left to do"
        now = then


def check_change(
    now: PartitionImage,
    then: PartitionImage,
    record: PartitionChangeRecord,
    target: Target,
    level: int,
) -> None:
    where = f"{now}\n{target}\n{then}"
    replicas, isr, elr = set(then.replicas), set(then.isr), set(then.eligible_leader_replicas)
    assert replicas and len(replicas) == len(then.replicas) == len(then.directories), where
    assert isr <= replicas and len(isr) == len(then.isr), where
    assert elr <= replicas and not elr & isr, where
    assert then.leader == NO_LEADER or then.leader in isr, where
    assert isr or level == ELR, where
    assert not elr or (level == ELR and len(isr) < 2), where
    assert not elr & target.lost, where
    assert set(then.adding_replicas) <= replicas, where
    assert set(then.removing_replicas) <= replicas, where
    assert not set(then.adding_replicas) & set(then.removing_replicas), where
    assert len(replicas) > len(then.removing_replicas), where
    assert then.partition_epoch == now.partition_epoch + 1, where
    assert then.leader_epoch - now.leader_epoch in (0, 1), where
    if then.leader != now.leader or not set(now.replicas) <= replicas:
        assert then.leader_epoch > now.leader_epoch, where
    clean = {*now.isr, *now.eligible_leader_replicas, *(target.isr or ())}
    if then.leader != NO_LEADER and then.leader not in clean:
        assert then.leader_recovery_state == RECOVERING and then.isr == (then.leader,), where
    assert said(record), where
