"""Where logs diverge: every row of both tables, and two logs that find their common prefix."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencepost.log.divergence import find_divergence, truncation_target
from fencepost.log.epochs import EpochEndOffset, LeaderEpochCache

EPOCHS = LeaderEpochCache([(2, 10), (3, 20), (5, 30), (8, 40)])
END = 55
UNTOLD = EpochEndOffset(-1, END)
TOLD = EpochEndOffset(8, END)
SNAPSHOT = EpochEndOffset(1, 10)


@pytest.mark.parametrize(
    ("epoch", "fetch_offset", "expected"),
    [
        pytest.param(8, 55, None, id="a-latest-at-the-log-end"),
        pytest.param(8, 41, None, id="a-latest-inside"),
        pytest.param(3, 30, None, id="a-at-its-end"),
        pytest.param(3, 21, None, id="a-in-front-of-its-end"),
        pytest.param(3, 31, (3, 30), id="b-one-behind-its-end"),
        pytest.param(8, 56, (8, 55), id="b-latest-behind-the-log-end"),
        pytest.param(4, 21, (3, 30), id="c-in-front-of-the-older-ones-end"),
        pytest.param(4, 35, (3, 30), id="c-behind-the-older-ones-end"),
        pytest.param(7, 40, (5, 40), id="c-at-the-older-ones-end"),
        pytest.param(1, 10, None, id="d-at-the-first"),
        pytest.param(0, 3, None, id="d-in-front-of-the-first"),
        pytest.param(1, 11, (1, 10), id="e"),
        pytest.param(9, 50, (-1, END), id="g-newer-than-all"),
    ],
)
def test_a_leader_tells_where_a_log_leaves_its_own(epoch, fetch_offset, expected):
    assert find_divergence(EPOCHS, epoch, fetch_offset, UNTOLD) == expected


def test_a_log_without_epochs_cannot_tell_where_another_leaves_it():
    assert find_divergence(LeaderEpochCache(), 0, 0, EpochEndOffset(-1, 0)) == (-1, 0)


@pytest.mark.parametrize(
    ("epoch", "fetch_offset", "log_end", "expected"),
    [
        pytest.param(1, 10, TOLD, None, id="f-at-the-snapshots-end-in-its-epoch"),
        pytest.param(1, 11, TOLD, (1, 10), id="f-behind-the-snapshots-end"),
        pytest.param(0, 10, TOLD, (1, 10), id="f-of-an-older-epoch-than-the-snapshots"),
        pytest.param(0, 5, TOLD, (1, 10), id="f-the-same-in-front-of-its-end"),
        pytest.param(2, 20, TOLD, None, id="a-snapshots-change-nothing-behind-them"),
        pytest.param(9, 55, TOLD, (8, END), id="g-newer-than-all"),
    ],
)
def test_a_log_that_begins_with_a_snapshot_knows_the_epoch_in_front_of_it(
    epoch, fetch_offset, log_end, expected
):
    assert find_divergence(EPOCHS, epoch, fetch_offset, log_end, SNAPSHOT) == expected


@pytest.mark.parametrize(
    ("epoch", "fetch_offset", "expected"),
    [(1, 10, None), (1, 9, None), (1, 11, (1, 10)), (0, 10, (1, 10)), (2, 10, (1, 10))],
)
def test_a_log_that_is_nothing_but_a_snapshot_is_compared_by_its_end(epoch, fetch_offset, expected):
    empty = LeaderEpochCache()
    assert find_divergence(empty, epoch, fetch_offset, SNAPSHOT, SNAPSHOT) == expected


LOG = LeaderEpochCache([(1, 0), (3, 10), (4, 15)])  # ends at 20, high watermark 7


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        pytest.param((4, -1), 7, id="A"),
        pytest.param((-1, -1), 7, id="A-nothing-is-said"),
        pytest.param((-1, 12), 12, id="B"),
        pytest.param((-1, 99), 20, id="B-not-behind-our-end"),
        pytest.param((4, 18), 18, id="C-latest-shorter-there"),
        pytest.param((4, 99), 20, id="C-latest-longer-there"),
        pytest.param((3, 12), 12, id="C-shorter-there"),
        pytest.param((3, 99), 15, id="C-longer-there"),
        pytest.param((1, 10), 10, id="C-the-same"),
        pytest.param((2, 12), 10, id="D"),
        pytest.param((2, 4), 10, id="D-whatever-the-leaders-end"),
        pytest.param((0, 4), 0, id="E"),
        pytest.param((6, 17), 17, id="F"),
        pytest.param((6, 99), 20, id="F-not-behind-our-end"),
    ],
)
def test_a_follower_cuts_where_the_logs_diverge(answer, target):
    assert truncation_target(LOG, EpochEndOffset(*answer), 20, 7) == target


def test_an_epoch_older_than_all_of_ours_cuts_at_the_leaders_end_if_our_first_begins_behind():
    later = LeaderEpochCache([(5, 8)])
    assert truncation_target(later, EpochEndOffset(2, 6), 20, 3) == 6
    assert truncation_target(later, EpochEndOffset(2, 9), 20, 3) == 8


def test_a_log_without_epochs_is_cut_at_the_leaders_end():
    assert truncation_target(LeaderEpochCache(), EpochEndOffset(3, 5), 9, 0) == 5
    assert truncation_target(LeaderEpochCache(), EpochEndOffset(3, 5), 0, 0) == 0


def test_the_high_watermark_is_no_target_behind_our_end():
    assert truncation_target(LOG, EpochEndOffset(4, -1), 20, 30) == 20


@st.composite
def histories(draw):
    """(leader, follower): the epoch of every record; equal epochs are stretches of one leader."""
    lengths = st.lists(st.integers(0, 4), min_size=1, max_size=6)
    common = [epoch for epoch, n in enumerate(draw(lengths)) for _ in range(n)]
    first = len(common)
    kinds = st.lists(st.integers(first, first + 9), max_size=12)
    # An epoch has one leader, so behind the common prefix no epoch is in both logs.
    leader = sorted(2 * epoch for epoch in draw(kinds))
    follower = sorted(2 * epoch + 1 for epoch in draw(kinds))
    return common, common + leader, common + follower


def cache_of(epochs):
    cache = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        cache.assign(epoch, offset)
    return cache


@given(histories())
def test_asking_until_nothing_diverges_leaves_exactly_the_common_prefix(logs):
    """KIP-279: however many elections in a row have made the logs diverge."""
    common, leader, follower = logs
    leader_cache = cache_of(leader)
    for _ in range(len(follower) + 1):
        if not follower:
            break
        log_end = EpochEndOffset(leader[-1] if leader else -1, len(leader))
        diverging = find_divergence(leader_cache, follower[-1], len(follower), log_end)
        if diverging is None:
            break
        target = truncation_target(cache_of(follower), diverging, len(follower), 0)
        assert target < len(follower), "each answer cuts something off"
        assert target >= len(common), "and nothing that both have"
        follower = follower[:target]
    assert follower == common
