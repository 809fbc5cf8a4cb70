"""The leader-epoch cache: every row of its table, and its file."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from fencepost.log.epochs import EpochEntry, LeaderEpochCache, decode_epochs
from fencepost.log.errors import CorruptFileError

ENTRIES = [(2, 10), (3, 20), (5, 30), (8, 40)]
END = 55


@pytest.mark.parametrize(
    ("entries", "epoch", "expected"),
    [
        pytest.param(ENTRIES, -1, (-1, -1), id="undefined"),
        pytest.param([], -1, (-1, -1), id="undefined-in-empty"),
        pytest.param([], 0, (-1, -1), id="empty"),
        pytest.param(ENTRIES, 8, (8, END), id="latest-gives-log-end"),
        pytest.param(ENTRIES, 9, (-1, -1), id="later-than-latest"),
        pytest.param(ENTRIES, 1000, (-1, -1), id="far-later"),
        pytest.param(ENTRIES, 0, (0, 10), id="earlier-than-first"),
        pytest.param(ENTRIES, 1, (1, 10), id="just-below-first"),
        pytest.param(ENTRIES, 2, (2, 20), id="first"),
        pytest.param(ENTRIES, 3, (3, 30), id="middle"),
        pytest.param(ENTRIES, 4, (3, 30), id="between-two"),
        pytest.param(ENTRIES, 5, (5, 40), id="before-latest"),
        pytest.param(ENTRIES, 6, (5, 40), id="gap-below-latest"),
        pytest.param(ENTRIES, 7, (5, 40), id="gap-just-below-latest"),
        pytest.param([(0, 0)], 0, (0, END), id="epoch-zero"),
        pytest.param([(3, 7)], 2, (2, 7), id="below-an-only-entry"),
    ],
)
def test_end_offset_for(entries, epoch, expected):
    assert LeaderEpochCache(entries).end_offset_for(epoch, END) == expected


@pytest.mark.parametrize(
    ("entries", "assigned", "expected"),
    [
        pytest.param([], (0, 0), [(0, 0)], id="first"),
        pytest.param([(1, 0)], (1, 5), [(1, 0)], id="same-epoch-later-start-is-no-news"),
        pytest.param([(1, 5)], (1, 5), [(1, 5)], id="same-again"),
        pytest.param([(1, 5)], (1, 3), [(1, 3)], id="same-epoch-earlier-start"),
        pytest.param([(1, 0)], (2, 5), [(1, 0), (2, 5)], id="next"),
        pytest.param([(1, 0), (2, 5)], (3, 5), [(1, 0), (3, 5)], id="empty-epoch-leaves-no-trace"),
        pytest.param([(1, 0), (2, 5)], (3, 0), [(3, 0)], id="all-empty"),
        pytest.param([(1, 0), (2, 5), (3, 9)], (2, 7), [(1, 0), (2, 7)], id="older-epoch-returns"),
        pytest.param([(1, 0), (4, 5)], (3, 8), [(1, 0), (3, 8)], id="later-epoch-gives-way"),
    ],
)
def test_assign(entries, assigned, expected):
    cache = LeaderEpochCache(entries)
    version = cache.version
    changed = cache.assign(*assigned)
    assert list(cache) == expected
    assert changed == (expected != entries)
    assert (cache.version != version) == changed


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, []),
        (10, []),
        (11, ENTRIES[:1]),
        (30, ENTRIES[:2]),
        (31, ENTRIES[:3]),
        (40, ENTRIES[:3]),
        (41, ENTRIES),
    ],
)
def test_truncate_from_end(offset, expected):
    cache = LeaderEpochCache(ENTRIES)
    assert cache.truncate_from_end(offset) == (expected != ENTRIES)
    assert list(cache) == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, ENTRIES),
        (10, ENTRIES),
        (11, [(2, 11), *ENTRIES[1:]]),
        (20, ENTRIES[1:]),
        (29, [(3, 29), *ENTRIES[2:]]),
        (40, ENTRIES[3:]),
        (99, [(8, 99)]),
    ],
)
def test_truncate_from_start(offset, expected):
    cache = LeaderEpochCache(ENTRIES)
    assert cache.truncate_from_start(offset) == (expected != ENTRIES)
    assert list(cache) == expected


def test_look_ups():
    cache = LeaderEpochCache(ENTRIES)
    assert [cache.epoch_at(offset) for offset in (9, 10, 19, 20, 39, 40, 1000)] == [
        None, 2, 2, 3, 5, 8, 8,
    ]  # fmt: skip
    assert cache.latest_epoch() == 8
    assert cache.latest() == (8, 40)
    assert cache.earliest() == (2, 10)
    assert cache.entry_for(5) == EpochEntry(5, 30)
    assert cache.entry_for(4) is None
    assert cache.entry_for(9) is None
    assert cache.previous_epoch(8) == 5
    assert cache.previous_epoch(4) == 3
    assert cache.previous_epoch(2) is None
    assert len(cache) == 4
    empty = LeaderEpochCache()
    assert empty.latest() is None
    assert empty.earliest() is None
    assert empty.latest_epoch() is None
    assert empty.epoch_at(0) is None
    assert not empty.truncate_from_end(0)
    assert not empty.truncate_from_start(0)


entries_strategy = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), max_size=30)


@given(entries_strategy)
def test_whatever_is_assigned_entries_strictly_increase(assignments):
    cache = LeaderEpochCache()
    for epoch, start in assignments:
        cache.assign(epoch, start)
        entries = list(cache)
        for before, after in pairwise(entries):
            assert before.epoch < after.epoch
            assert before.start_offset < after.start_offset


@given(entries_strategy, st.integers(-1, 45), st.integers(200, 300))
def test_look_ups_agree_with_a_linear_search(assignments, epoch, end_offset):
    cache = LeaderEpochCache()
    for assignment in assignments:
        cache.assign(*assignment)
    entries = list(cache)
    found = cache.end_offset_for(epoch, end_offset)
    later = [entry for entry in entries if entry.epoch > epoch]
    upto = [entry for entry in entries if entry.epoch <= epoch]
    if epoch < 0 or not entries or epoch > entries[-1].epoch:
        assert found == (-1, -1)
    elif epoch == entries[-1].epoch:
        assert found == (epoch, end_offset)
    else:
        assert found == (upto[-1].epoch if upto else epoch, later[0].start_offset)
    for offset in range(0, 210, 7):
        index = bisect_right([entry.start_offset for entry in entries], offset)
        assert cache.epoch_at(offset) == (entries[index - 1].epoch if index else None)


@given(entries_strategy)
def test_the_file_gives_back_what_was_written(assignments):
    cache = LeaderEpochCache()
    for assignment in assignments:
        cache.assign(*assignment)
    assert decode_epochs("file", cache.encode()) == list(cache)


def test_the_file_is_kafkas():
    cache = LeaderEpochCache([(0, 0), (3, 1234567890123)])
    assert cache.encode() == b"0\n2\n0 0\n3 1234567890123\n"
    assert LeaderEpochCache().encode() == b"0\n0\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0",
        b"0\n",
        b"0\n1\n",
        b"0\n1\n0 0",
        b"0\n2\n0 0\n",
        b"0\n1\n0 0\n1 5\n",
        b"1\n1\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -5\n",
        b"0\n1\n0 x\n",
        b"0\n1\n2147483648 0\n",
        b"0\n1\n0 9223372036854775808\n",
        b"0\n2\n0 0\n0 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n99999999999999999999\n",
        b"0\n1\n0 \xff\n",
        b"\0" * 40,
    ],
)
def test_a_damaged_file_is_refused(content):
    with pytest.raises(CorruptFileError):
        decode_epochs("file", content)


def test_thousands_of_epochs_are_found_by_bisection():
    cache = LeaderEpochCache((epoch * 2, epoch * 100) for epoch in range(20_000))
    assert cache.end_offset_for(20_001, 10**9) == (20_000, 1_000_100)
    assert cache.epoch_at(1_000_050) == 20_000
