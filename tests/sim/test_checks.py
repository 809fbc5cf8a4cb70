"""Checks are tested, too: each is told a history that is right and one that is not."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec import Struct, field

from fencepost.machines.quorum import QuorumState
from fencepost.sim import checks
from fencepost.sim.checks import load_checks
from fencepost.sim.checks.i03_log_matching import LogMatching
from fencepost.sim.checks.i06_high_watermark import HighWatermark
from fencepost.sim.checks.i07_truncation import Truncation
from fencepost.sim.checks.i13_acknowledgements import Acknowledgements
from fencepost.sim.checks.i21_one_leader import OneLeader
from fencepost.sim.checks.i22_one_vote import OneVote
from fencepost.sim.checks.i23_epochs import Epochs
from fencepost.sim.checks.i24_committed_prefix import CommittedPrefix
from fencepost.sim.checks.i25_leader_completeness import LeaderCompleteness
from fencepost.sim.checks.i26_majority import Majority
from fencepost.sim.checks.i28_leaders_and_snapshots import LeadersAndSnapshots
from fencepost.sim.checks.i29_voter_changes import VoterChanges
from fencepost.sim.checks.i30_images import Images
from fencepost.sim.checks.i31_roles import Roles
from fencepost.sim.checks.i51_recovery import Recovery
from fencepost.sim.oracle import Violation
from fencepost.wire.types import Uuid

from .histories import disk_of, entry, leader, truth_of, view

LOG = [entry(0), entry(1), entry(2)]


@contextmanager
def violates(kind: str) -> Iterator[None]:
    with pytest.raises(Violation) as caught:
        yield
    assert caught.value.kind == kind


def test_every_check_is_loaded_and_says_what_it_is() -> None:
    loaded = load_checks()
    assert len(loaded) == len(list(pkgutil.iter_modules(checks.__path__)))
    kinds = [check.kind for check in loaded]
    assert len(set(kinds)) == len(kinds)
    for check in loaded:
        doc = importlib.import_module(type(check).__module__).__doc__ or ""
        assert doc.startswith(f"{check.kind}: ")


def test_i03_logs_agree_up_to_their_last_common_batch() -> None:
    LogMatching().at_end(truth_of(LOG, LOG[:2], [*LOG[:2], entry(2, epoch=2)]))
    with violates("I03"):
        LogMatching().at_end(truth_of(LOG, [LOG[0], entry(1, epoch=1, crc=7), LOG[2]]))


def test_i03_looks_behind_snapshots_only() -> None:
    oracle = truth_of([entry(0, crc=9), *LOG[1:]], LOG)
    oracle.dropped_prefix(1, 1)
    LogMatching().at_end(oracle)


def test_i06_high_watermarks_do_not_fall() -> None:
    oracle, check = truth_of(LOG), HighWatermark()
    oracle.views[1] = view(1, high_watermark=2)
    check.stepped(oracle, view(1, high_watermark=2))
    with violates("I06"):
        check.stepped(oracle, view(1, high_watermark=1))


def test_i07_what_is_committed_is_not_cut_even_if_the_node_does_not_know() -> None:
    oracle, check = truth_of(LOG, [LOG[0], entry(1, epoch=3)]), Truncation()
    oracle.committed = LOG[:2]
    check.cutting(oracle, 1, 2)
    check.cutting(oracle, 2, 1)  # another batch at a committed offset has to go
    with violates("I07"):
        check.cutting(oracle, 1, 1)


def test_i13_acknowledgements_hold_to_the_end() -> None:
    oracle, check = truth_of(LOG), Acknowledgements()
    oracle.committed = LOG[:2]
    check.told_committed(oracle, 1, LOG[1].crc)
    check.at_end(oracle)
    oracle.committed = [LOG[0], entry(1, epoch=2)]
    with violates("I13"):
        check.at_end(oracle)


def test_i13_a_promise_of_what_is_not_committed() -> None:
    oracle = truth_of(LOG)
    oracle.committed = LOG[:1]
    with violates("I13"):
        Acknowledgements().told_committed(oracle, 2, LOG[2].crc)


def test_i13_a_promise_of_an_offset_within_a_batch() -> None:
    """What is told is where the batch begins: offset 1 is another record's."""
    oracle = truth_of(LOG)
    oracle.committed = [LOG[0]._replace(next_offset=2)]
    with violates("I13"):
        Acknowledgements().told_committed(oracle, 1, LOG[0].crc)


def test_i21_an_epoch_has_one_leader_even_after_that_is_gone() -> None:
    oracle, check = truth_of(LOG, LOG), OneLeader()
    check.stepped(oracle, leader(1))
    check.stepped(oracle, view(2))
    check.stepped(oracle, leader(2, epoch=2))
    with violates("I21"):
        check.stepped(oracle, leader(2))


def test_i22_a_vote_is_on_disk_when_it_is_told() -> None:
    oracle, check = truth_of([], [], []), OneVote()
    check.state_written(oracle, 3, QuorumState(1, voted_id=1))
    check.vote_told(oracle, 3, 1, 1)
    with violates("I22"):
        check.vote_told(oracle, 2, 1, 1)


def test_i22_there_is_one_vote_per_epoch_and_disk() -> None:
    oracle, check = truth_of([], [], []), OneVote()
    check.state_written(oracle, 3, QuorumState(1, voted_id=1))
    check.state_written(oracle, 3, QuorumState(2, voted_id=2))
    oracle.new_disk(3, disk_of(3, number=2))
    check.state_written(oracle, 3, QuorumState(1, voted_id=2))  # another disk, another voter
    with violates("I22"):
        check.state_written(oracle, 3, QuorumState(1, voted_id=1))


def test_i22_a_vote_that_was_found_after_a_crash_counts() -> None:
    oracle, check = truth_of([], [], []), OneVote()
    check.state_read(oracle, 3, QuorumState(1, voted_id=1))
    check.vote_told(oracle, 3, 1, 1)


def test_i23_epochs_do_not_fall() -> None:
    oracle, check = truth_of([]), Epochs()
    check.state_written(oracle, 1, QuorumState(2))
    with violates("I23"):
        check.state_written(oracle, 1, QuorumState(1))


def test_i23_a_node_goes_by_its_disk() -> None:
    oracle, check = truth_of([]), Epochs()
    check.state_written(oracle, 1, QuorumState(2, voted_id=3))
    check.stepped(oracle, view(1, epoch=2, voted_id=3))
    with violates("I23"):
        check.stepped(oracle, view(1, epoch=3, voted_id=-1))


def test_i23_what_was_written_is_found_again() -> None:
    oracle, check = truth_of([]), Epochs()
    check.state_written(oracle, 1, QuorumState(2, voted_id=3))
    check.state_read(oracle, 1, QuorumState(2, voted_id=3))
    with violates("I23"):
        check.state_read(oracle, 1, QuorumState(1))
    check.state_written(oracle, 1, QuorumState(3, voted_id=2))
    with violates("I23"):
        check.state_read(oracle, 1, QuorumState(3))


def test_i24_all_that_is_held_for_committed_is_one_log() -> None:
    oracle, check = truth_of(LOG, [LOG[0], entry(1, epoch=9), LOG[2]]), CommittedPrefix()
    oracle.committed = LOG[:2]
    check.stepped(oracle, view(1, high_watermark=3, end_offset=3))
    check.stepped(oracle, view(2, high_watermark=1, end_offset=3))
    oracle.views[2] = view(2, high_watermark=1, end_offset=3)
    with violates("I24"):
        check.stepped(oracle, view(2, high_watermark=2, end_offset=3))


def test_i25_the_newest_leader_has_all_that_is_committed() -> None:
    oracle, check = truth_of(LOG, LOG[:1]), LeaderCompleteness()
    oracle.committed = LOG[:2]
    check.stepped(oracle, leader(1, epoch=5))
    check.stepped(oracle, leader(2, epoch=4))  # deposed before it knew: need not have it
    with violates("I25"):
        check.stepped(oracle, leader(2, epoch=6))


def test_i25_counts_a_snapshot_as_having_what_is_before_it() -> None:
    oracle, check = truth_of(LOG), LeaderCompleteness()
    oracle.committed = LOG[:2]
    oracle.dropped_prefix(1, 2)
    check.stepped(oracle, leader(1, epoch=2))


def test_i26_committed_is_what_a_majority_has_on_disk() -> None:
    oracle, check = truth_of(LOG, LOG[:2], []), Majority()
    check.stepped(oracle, leader(1, high_watermark=2, end_offset=3))
    assert oracle.committed == LOG[:2]
    with violates("I26"):
        check.stepped(oracle, leader(1, high_watermark=3, end_offset=3))


def test_i26_memory_does_not_count() -> None:
    oracle = truth_of(LOG, [], [])
    oracle.new_disk(2, disk_of(2))
    oracle.appended(2, LOG[0])
    with violates("I26"):
        Majority().stepped(oracle, leader(1, high_watermark=1, end_offset=3))


def test_i26_another_disk_under_an_old_id_does_not_count() -> None:
    oracle = truth_of(LOG[:1], [], [])
    oracle.new_disk(2, disk_of(2, number=2))
    oracle.appended(2, LOG[0])
    oracle.flushed(2, 1)
    with violates("I26"):
        Majority().stepped(oracle, leader(1, high_watermark=1, end_offset=1))


def test_i26_a_disk_that_is_gone_was_counted_before_anybody_knew() -> None:
    oracle = truth_of(LOG[:1], LOG[:1], [])
    oracle.new_disk(2, disk_of(2, number=2))
    Majority().stepped(oracle, leader(1, high_watermark=1, end_offset=1))
    assert oracle.committed == LOG[:1]


@pytest.mark.parametrize("is_cut_at_a_start", [False, True])
@pytest.mark.parametrize(
    ("is_damaged", "acknowledged_end", "counts"),
    [
        (True, (1, 3), True),
        (True, (2, 1), True),
        (True, (1, 2), False),
        (True, (0, 0), False),
        (False, (1, 3), False),
    ],
)
def test_i26_what_was_cut_off_as_damaged_counts_as_far_as_the_promise_of_it_reaches(
    is_cut_at_a_start: bool, is_damaged: bool, acknowledged_end: tuple[int, int], counts: bool
) -> None:
    """Seed 8000382: the leader counts a fetch that left its follower before that met the damage."""
    oracle, check = truth_of(LOG, LOG, []), Majority()
    oracle.disks[2].is_damaged = is_damaged
    oracle.acknowledged_end_written(2, acknowledged_end)
    if is_cut_at_a_start:
        oracle.opened(2, LOG[:1])
    else:
        oracle.cut_begins(2, 1)
        oracle.cut(2, 1)
    with contextlib.nullcontext() if counts else violates("I26"):
        check.stepped(oracle, leader(1, high_watermark=3, end_offset=3))
    assert (oracle.committed == LOG) == counts


def test_i26_what_was_cut_off_before_it_was_durable_does_not_count() -> None:
    oracle = truth_of(LOG, LOG, [])
    disk = oracle.disks[2]
    disk.is_damaged, disk.durable_offset = True, 2
    oracle.acknowledged_end_written(2, (1, 3))
    oracle.cut_begins(2, 1)
    oracle.cut(2, 1)
    with violates("I26"):
        Majority().stepped(oracle, leader(1, high_watermark=3, end_offset=3))
    assert oracle.committed == LOG[:2]


def test_i26_static_voters_are_known_by_their_ids() -> None:
    oracle = truth_of(LOG[:1], LOG[:1], [])
    voters = tuple((id_, Uuid.ZERO) for id_ in (1, 2, 3))
    Majority().stepped(oracle, leader(1, high_watermark=1, end_offset=1, voters=voters))
    assert oracle.committed == LOG[:1]


def test_the_newest_leader_is_the_one_of_the_highest_epoch() -> None:
    """A deposed one may go on for a while; what is asked of "the leader" is asked of the other."""
    oracle = truth_of(LOG, LOG, LOG)
    assert oracle.newest_leader() is None
    for node_id, epoch in ((1, 5), (2, 7), (3, 6)):
        oracle.views[node_id] = leader(node_id, epoch=epoch)
    newest = oracle.newest_leader()
    assert newest is not None
    assert (newest.node_id, newest.epoch) == (2, 7)


def test_i28_leaders_do_not_load_snapshots() -> None:
    oracle = truth_of(LOG)
    oracle.views[1] = view(1)
    LeadersAndSnapshots().snapshot_loaded(oracle, 1, 9)
    oracle.views[1] = leader(1)
    with violates("I28"):
        LeadersAndSnapshots().snapshot_loaded(oracle, 1, 9)


VOTERS = tuple((id_, disk_of(id_)) for id_ in (1, 2, 3))
FOUR = (*VOTERS, (4, disk_of(4)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"is_active": True}, (*FOUR, (5, disk_of(5))), id="two at once"),
        pytest.param({"is_active": True}, VOTERS[:1], id="two leave at once"),
        pytest.param({"is_active": True}, (*VOTERS[:2], (3, disk_of(3, 2))), id="a disk swapped"),
        pytest.param({"is_active": False}, FOUR, id="nothing of its epoch is committed"),
        pytest.param({"is_active": True, "voters_offset": 5}, FOUR, id="the last one is open"),
    ],
)
def test_i29_what_a_leader_may_not_do_to_its_voters(
    before: dict[str, object], after: tuple[tuple[int, Uuid], ...]
) -> None:
    oracle = truth_of(LOG)
    oracle.views[1] = leader(1, high_watermark=3, **before)
    with violates("I29"):
        VoterChanges().stepped(oracle, leader(1, high_watermark=3, voters=after))


def test_i29_one_change_after_the_other_is_right() -> None:
    oracle = truth_of(LOG)
    oracle.views[1] = leader(1, high_watermark=3, is_active=True, voters_offset=2)
    VoterChanges().stepped(oracle, leader(1, high_watermark=3, voters=FOUR))
    VoterChanges().stepped(oracle, leader(1, high_watermark=3, voters=VOTERS[:2]))


class Image(Struct, frozen=True):
    offset: int
    says: str = ""
    parts: list[str] = field(default_factory=list)


def test_i30_images_of_one_offset_are_equal() -> None:
    oracle, check = truth_of(LOG, LOG), Images()
    check.image_moved(oracle, 1, Image(4, "a"))
    check.image_moved(oracle, 2, Image(4, "a"))
    with violates("I30"):
        check.image_moved(oracle, 3, Image(4, "b"))


def test_i30_parts_that_have_changed_on_either_side_are_compared() -> None:
    mine, theirs = ["a"], ["a"]
    for changed in (Image(5, parts=["b"]), Image(5, "b", mine)):
        check, oracle = Images(), truth_of(LOG, LOG)
        check.image_moved(oracle, 1, Image(4, parts=theirs))
        check.image_moved(oracle, 2, Image(4, parts=mine))
        check.image_moved(oracle, 1, Image(5, parts=theirs))
        with violates("I30"):
            check.image_moved(oracle, 2, changed)
    check = Images()
    check.image_moved(oracle, 1, Image(4, parts=theirs))
    check.image_moved(oracle, 2, Image(4, parts=mine))
    check.image_moved(oracle, 1, Image(5, parts=["c"]))
    with violates("I30"):
        check.image_moved(oracle, 2, Image(5, parts=mine))


def test_i30_images_do_not_fall_in_a_life() -> None:
    oracle, check = truth_of(LOG), Images()
    check.image_moved(oracle, 1, Image(4))
    with violates("I30"):
        check.image_moved(oracle, 1, Image(3))
    check.recovered(oracle, 1, LOG, 0)
    check.image_moved(oracle, 1, Image(2))


def test_i30_nothing_is_shown_that_is_not_committed() -> None:
    oracle, check = truth_of(LOG), Images()
    check.image_moved(oracle, 1, Image(2))
    check.stepped(oracle, view(1, high_watermark=3, end_offset=3))
    with violates("I30"):
        check.stepped(oracle, view(1, high_watermark=2, end_offset=3))


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "leader", "leader_id": 2},
        {"role": "follower", "leader_id": 1},
        {"role": "follower", "leader_id": -1},
        {"role": "candidate", "leader_id": 2, "voted_id": 1},
        {"role": "candidate", "leader_id": -1, "voted_id": 2},
        {"role": "resigned", "leader_id": 1},
        {"role": "follower", "leader_id": 2, "high_watermark": 4, "end_offset": 3},
    ],
)
def test_i31_roles_and_what_is_said(wrong: dict[str, object]) -> None:
    with violates("I31"):
        Roles().stepped(truth_of(LOG), view(1, **wrong))


def test_i31_roles_that_fit() -> None:
    check, oracle = Roles(), truth_of(LOG)
    check.stepped(oracle, leader(1, end_offset=3))
    check.stepped(oracle, view(2))
    check.stepped(oracle, view(2, role="candidate", leader_id=-1, voted_id=2))


def test_i51_a_recovered_log_is_a_prefix_with_all_that_was_durable() -> None:
    oracle = truth_of(LOG[:2])
    oracle.appended(1, LOG[2])
    check = Recovery()
    check.recovered(oracle, 1, LOG[:2], 0)
    check.recovered(oracle, 1, LOG, 0)
    with violates("I51"):
        check.recovered(oracle, 1, LOG[:1], 0)
    with violates("I51"):
        check.recovered(oracle, 1, [LOG[0], entry(1, epoch=5)], 0)


def test_i51_an_append_that_was_cut_short_may_be_there_or_not() -> None:
    oracle = truth_of(LOG[:2])
    oracle.disks[1].on_their_way = 1
    Recovery().recovered(oracle, 1, LOG, 0)
    Recovery().recovered(oracle, 1, LOG[:2], 0)
    with violates("I51"):
        Recovery().recovered(oracle, 1, [*LOG, entry(3)], 0)
