"""Voter sets and their history along a log: values, records, truncation, dropped prefixes."""

from __future__ import annotations

import pytest

from fencepost.batch.control import build_control_batch, build_leader_change
from fencepost.batch.errors import BatchError
from fencepost.batch.records import BatchBuilder
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.wire.records.control import ControlType, KRaftVersionRecord, VotersRecord
from fencepost.wire.types import Uuid


def directory(number: int) -> Uuid:
    return Uuid(bytes(15) + bytes([number]))


def voter(id_: int, disk: int = 0, **options: int) -> Voter:
    endpoints = (Endpoint("CONTROLLER", f"host{id_}", 9000 + id_),)
    return Voter(ReplicaKey(id_, directory(disk) if disk else Uuid.ZERO), endpoints, **options)


THREE = VoterSet((voter(1, 11), voter(2, 12), voter(3, 13)))


# -- keys and sets -----------------------------------------------------------------------------


def test_a_set_is_ascending_whatever_the_order_it_was_given_in() -> None:
    assert VoterSet((voter(3), voter(1), voter(2))).ids == (1, 2, 3)
    assert VoterSet((voter(2), voter(1))) == VoterSet((voter(1), voter(2)))


@pytest.mark.parametrize("ids", [(1, 1), (2, 1, 2), (-1,), (0, -5)])
def test_ids_are_distinct_and_not_negative(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ids of voters"):
        VoterSet.of_ids(ids)


@pytest.mark.parametrize(
    ("in_set", "asked", "is_voter"),
    [
        (ReplicaKey(1, directory(11)), ReplicaKey(1, directory(11)), True),
        (ReplicaKey(1, directory(11)), ReplicaKey(1, directory(99)), False),
        (ReplicaKey(1, directory(11)), ReplicaKey(1), False),
        (ReplicaKey(1), ReplicaKey(1, directory(99)), True),
        (ReplicaKey(1), ReplicaKey(1), True),
        (ReplicaKey(1), ReplicaKey(2), False),
        (ReplicaKey(1, directory(11)), ReplicaKey(2, directory(11)), False),
    ],
)
def test_who_is_a_voter(in_set: ReplicaKey, asked: ReplicaKey, is_voter: bool) -> None:
    assert VoterSet((Voter(in_set),)).contains(asked) is is_voter


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    assert VoterSet.of_ids(range(count)).majority == majority


def test_adding_removing_and_updating_leave_the_old_set_alone() -> None:
    four = THREE.with_voter(voter(4, 14))
    assert (four.ids, THREE.ids) == ((1, 2, 3, 4), (1, 2, 3))
    assert four.without(ReplicaKey(4, directory(14))) == THREE
    moved = Voter(THREE.keys[1], (Endpoint("CONTROLLER", "elsewhere", 1),), 0, 1)
    assert THREE.updated(moved).get(2) == moved
    assert THREE.updated(moved).without(moved.key) == THREE.without(moved.key)


def test_a_change_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="distinct"):
        THREE.with_voter(voter(2, 99))
    for key in (ReplicaKey(4, directory(14)), ReplicaKey(2, directory(99)), ReplicaKey(2)):
        with pytest.raises(ValueError, match="no voter"):
            THREE.without(key)
    for stranger in (voter(4, 14), voter(2, 99), voter(2)):
        with pytest.raises(ValueError, match="no voter"):
            THREE.updated(stranger)


def test_a_voter_without_a_directory_may_bring_one() -> None:
    assert VoterSet.of_ids((1, 2)).updated(voter(2, 12)).get(2) == voter(2, 12)


def test_sets_overlap_if_they_differ_by_one_voter() -> None:
    four = THREE.with_voter(voter(4, 14))
    assert THREE.overlaps(four) and four.overlaps(THREE) and THREE.overlaps(THREE)
    new_disk = THREE.without(THREE.keys[2]).with_voter(voter(3, 99))
    assert THREE.overlaps(new_disk)
    assert not THREE.overlaps(four.with_voter(voter(5, 15)))
    assert not THREE.overlaps(VoterSet(THREE.voters[:1]))


def test_endpoints_are_found_by_listener_in_any_case() -> None:
    assert voter(1).endpoint("controller") == Endpoint("CONTROLLER", "host1", 9001)
    assert voter(1).endpoint("PLAINTEXT") is None


def test_versions_include_both_ends() -> None:
    old_and_new = voter(1, min_kraft_version=0, max_kraft_version=1)
    assert [old_and_new.can_run(level) for level in (-1, 0, 1, 2)] == [False, True, True, False]


def test_a_set_survives_its_record() -> None:
    told = VoterSet((voter(1, 11, max_kraft_version=1), voter(5, 12, max_kraft_version=1)))
    record = VotersRecord.decode(told.to_record().encode(0), 0)
    assert VoterSet.from_record(record) == told


# -- history -----------------------------------------------------------------------------------


def control_batch(*records: object, base_offset: int = 0) -> bytearray:
    kinds = {VotersRecord: ControlType.KRAFT_VOTERS, KRaftVersionRecord: ControlType.KRAFT_VERSION}
    return build_control_batch(
        [(kinds[type(record)], record) for record in records],  # type: ignore[misc, index]
        timestamp_ms=0,
        base_offset=base_offset,
    )


def level(number: int) -> KRaftVersionRecord:
    return KRaftVersionRecord(version=0, kraft_version=number)


def history_of(*sets: tuple[int, VoterSet]) -> VoterHistory:
    history = VoterHistory(VoterSet.of_ids((1, 2, 3)))
    for offset, voters in sets:
        history.note_voters(offset, voters)
    return history


FOUR = THREE.with_voter(voter(4, 14))
FIVE = FOUR.with_voter(voter(5, 15))


def test_before_any_record_the_configuration_counts() -> None:
    history = history_of()
    assert history.latest == history.at(10) == history.static == VoterSet.of_ids((1, 2, 3))
    assert (history.kraft_version, history.kraft_version_at(10)) == (0, 0)
    assert history.latest_offset is history.kraft_version_offset is None


def test_a_set_counts_from_its_record_on() -> None:
    history = history_of((-1, THREE), (7, FOUR), (9, FIVE))
    seen = [history.at(offset) for offset in (-2, -1, 6, 7, 8, 9, 100)]
    assert seen == [history.static, THREE, THREE, FOUR, FOUR, FIVE, FIVE]
    assert (history.latest, history.latest_offset) == (FIVE, 9)


@pytest.mark.parametrize(
    ("end_offset", "latest"),
    [(100, FIVE), (10, FIVE), (9, FOUR), (8, FOUR), (7, THREE), (0, THREE)],
)
def test_truncation_brings_back_the_set_before(end_offset: int, latest: VoterSet) -> None:
    history = history_of((-1, THREE), (7, FOUR), (9, FIVE))
    history.truncate_to(end_offset)
    assert history.latest == latest


def test_truncation_brings_back_the_level_and_the_configuration() -> None:
    history = history_of((5, THREE))
    history.note_kraft_version(4, 1)
    history.truncate_to(5)
    assert (history.kraft_version, history.latest) == (1, history.static)
    history.truncate_to(4)
    assert history.kraft_version == 0


@pytest.mark.parametrize(
    ("start_offset", "at_six"),
    [(0, THREE), (6, THREE), (7, None), (8, None), (9, None), (50, None)],
)
def test_a_dropped_prefix_takes_what_was_out_of_force(
    start_offset: int, at_six: VoterSet | None
) -> None:
    history = history_of((-1, THREE), (7, FOUR), (9, FIVE))
    in_force = history.at(start_offset)
    history.drop_prefix(start_offset)
    assert history.at(start_offset) == in_force
    assert history.latest == FIVE
    assert history.at(6) == (at_six or history.static)


def test_batches_are_read_at_the_offset_they_stand_at() -> None:
    history = history_of()
    batch = control_batch(level(1), THREE.to_record(), base_offset=0)
    assert history.take_batch(20, batch)
    assert (history.kraft_version_offset, history.latest_offset) == (20, 21)
    assert (history.kraft_version, history.latest) == (1, THREE)
    assert history.take_batch(30, control_batch(FOUR.to_record(), base_offset=30))
    assert (history.latest_offset, history.at(29)) == (30, THREE)


def test_other_batches_say_nothing() -> None:
    history = history_of()
    builder = BatchBuilder()
    builder.append(None, b"data", timestamp_ms=0)
    change = build_leader_change(1, (1,), (1,), timestamp_ms=0, leader_epoch=1)
    assert not history.take_batch(0, builder.build())
    assert not history.take_batch(1, change)
    assert history.latest_offset is None


def test_a_record_that_cannot_be_read_is_an_error() -> None:
    batch = BatchBuilder()
    batch.append(b"\0\0\0\6", b"\0\0\x05", timestamp_ms=0)  # five voters, and no byte of them
    with pytest.raises(BatchError, match="control record"):
        history_of().take_batch(0, batch.build(control=True))


def test_what_cannot_follow_is_refused_and_changes_nothing() -> None:
    history = history_of((3, THREE))
    for offset, voters, complaint in (
        (3, FOUR, "does not follow"),
        (2, FOUR, "does not follow"),
        (4, FIVE, "more than one voter"),
        (4, VoterSet(), "empty"),
    ):
        with pytest.raises(ValueError, match=complaint):
            history.note_voters(offset, voters)
    history.note_kraft_version(3, 1)
    with pytest.raises(ValueError, match="falls"):
        history.note_kraft_version(4, 0)
    assert (history.latest, history.latest_offset, history.kraft_version) == (THREE, 3, 1)


def test_the_first_record_may_name_any_voters() -> None:
    # The configuration knows no directory ids, and a bootstrap snapshot may differ from it.
    history = history_of((-1, THREE), (0, FIVE.without(FIVE.keys[0])))
    assert history.latest.ids == (2, 3, 4, 5)
