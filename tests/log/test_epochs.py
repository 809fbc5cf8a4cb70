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
def test_an_epoch_ends_where_the_next_begins(entries, epoch, expected):
    assert LeaderEpochCache(entries).end_offset_for(epoch, END) == expected


@pytest.mark.parametrize(
    ("entries", "assigned", "expected"),
    [
        pytest.param([], (0, 0), [(0, 0)], id="first"),
        pytest.param([(1, 0)], (1, 5), [(1, 0)], id="same-epoch-later-start-is-no-change"),
        pytest.param([(1, 5)], (1, 5), [(1, 5)], id="same-again"),
        pytest.param([(1, 5)], (1, 3), [(1, 3)], id="same-epoch-earlier-start"),
        pytest.param([(1, 0)], (2, 5), [(1, 0), (2, 5)], id="next"),
        pytest.param([(1, 0), (2, 5)], (3, 5), [(1, 0), (3, 5)], id="empty-epoch-leaves-no-trace"),
        pytest.param([(1, 0), (2, 5)], (3, 0), [(3, 0)], id="all-empty"),
        pytest.param([(1, 0), (2, 5), (3, 9)], (2, 7), [(1, 0), (2, 7)], id="older-epoch-returns"),
        pytest.param([(1, 0), (4, 5)], (3, 8), [(1, 0), (3, 8)], id="later-epoch-is-dropped"),
    ],
)
def test_an_assigned_epoch_removes_what_it_contradicts(entries, assigned, expected):
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


# -- a million of them ----------------------------------------------------------------------------


class Counting:
    """An array that counts how often an entry is looked at."""

    def __init__(self, values):
        self.values = values
        self.looks = 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        self.looks += 1
        return self.values[at]


MILLION = 1_000_000


@pytest.mark.parametrize("size", [10, 1_000, 1_000_000])
def test_a_lookup_looks_at_no_more_entries_than_a_bisection(size):
    cache = LeaderEpochCache.decode("x", lines_of(size))
    cache._epochs, cache._starts = Counting(cache._epochs), Counting(cache._starts)
    most = size.bit_length() + 4
    for epoch in (0, 1, size // 3, size - 2, size - 1):
        for ask in (
            lambda e=epoch: cache.end_offset_for(e, 5 * size),
            lambda e=epoch: cache.epoch_at(e * 3),
            lambda e=epoch: cache.entry_for(e),
            lambda e=epoch: cache.previous_epoch(e),
        ):
            cache._epochs.looks = cache._starts.looks = 0
            ask()
            assert cache._epochs.looks + cache._starts.looks <= most
    assert cache.end_offset_for(size // 3, 5 * size) == (size // 3, (size // 3 + 1) * 3)


def lines_of(size: int) -> bytes:
    return b"0\n%d\n" % size + b"".join(b"%d %d\n" % (at, at * 3) for at in range(size))


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 1_000_000])
def test_a_file_of_many_epochs_is_read_and_written_as_it_is(size):
    data = lines_of(size)
    cache = LeaderEpochCache.decode("x", data)
    assert len(cache) == size
    assert cache.encode() == data
    assert cache == cache.copy()
    assert cache.version == 0
    assert cache.encode(3) == (lines_of(1) if size else data)


@pytest.mark.long
def test_a_million_epochs_take_a_dozen_bytes_each():
    import tracemalloc

    data = lines_of(MILLION)
    tracemalloc.start()
    cache = LeaderEpochCache.decode("x", data)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cache) == MILLION
    assert used < 16 * MILLION


def test_cutting_a_million_epochs_one_after_the_other_moves_no_others():
    """From the end, as a follower does that finds its way back; each cut takes off one entry."""
    cache = LeaderEpochCache.decode("x", lines_of(MILLION))
    for left in range(MILLION, MILLION - 2_000, -1):
        assert cache.latest_epoch() == left - 1
        assert cache.truncate_from_end((left - 1) * 3)
    assert len(cache) == MILLION - 2_000
    assert cache.truncate_from_start(1_500_001)
    assert cache.earliest() == (500_000, 1_500_001)


@pytest.mark.parametrize(
    "data",
    [
        b"0\n2\n1 5\n",  # too few
        b"0\n1\n1 5\n2 6\n",  # too many
        b"0\n2\n2 5\n1 6\n",  # epochs fall
        b"0\n2\n1 6\n2 6\n",  # offsets stand still
        b"0\n1\n2147483648 6\n",
        b"0\n1\n1 9223372036854775808\n",
        b"0\n1\n1 -6\n",
        b"0\n1\n1\n",
        b"0\n1\n1 2 3\n",
        b"0\n1\n1 2",
        b"1\n1\n1 2\n",
        b"",
    ],
)
def test_what_is_no_such_file_is_refused(data):
    with pytest.raises(CorruptFileError):
        LeaderEpochCache.decode("x", data)


def test_numbers_at_their_limits_and_wider_gaps_are_read():
    data = b"0\n2\n1  5\n2147483647 9223372036854775807\n"
    assert list(LeaderEpochCache.decode("x", data)) == [(1, 5), (2147483647, (1 << 63) - 1)]


def test_an_epoch_in_which_nothing_was_ever_written_is_not_in_the_file():
    """But the one that is left of deleted records is, where the log ends."""
    assert LeaderEpochCache([(5, 0)]).count_in_file(0) == 0
    assert LeaderEpochCache([(5, 7)]).count_in_file(7) == 1
    assert LeaderEpochCache([(5, 7), (6, 9)]).count_in_file(7) == 1
    assert LeaderEpochCache().count_in_file(7) == 0
