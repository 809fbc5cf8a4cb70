"""Rate limits and splits, in numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.arrow.planning import OffsetRange, limit_bytes, limit_offsets, split_ranges
from fencepost.client.metadata import TopicPartition

P = TopicPartition


def keyed(*numbers: int) -> dict[P, int]:
    return {P("t", index): number for index, number in enumerate(numbers)}


def test_limits_are_shared_in_proportion():
    assert limit_offsets(keyed(0, 0), keyed(300, 100), 40) == keyed(30, 10)
    assert limit_offsets(keyed(100, 50), keyed(400, 150), 40) == keyed(130, 60)


def test_small_partitions_are_not_starved():
    # As in Spark, where the sum may then exceed the limit a little.
    assert limit_offsets(keyed(0, 0, 0), keyed(1000, 1, 1), 10) == keyed(9, 1, 1)


def test_without_need_there_is_no_limit():
    assert limit_offsets(keyed(0, 5), keyed(10, 20), None) == keyed(10, 20)
    assert limit_offsets(keyed(0, 5), keyed(10, 20), 25) == keyed(10, 20)


def test_an_end_before_the_beginning_moves_nothing():
    assert limit_offsets(keyed(10, 0), keyed(4, 100), 20) == keyed(10, 20)
    assert limit_offsets(keyed(10), keyed(4), None) == keyed(10)


def test_large_offsets_stay_exact():
    begin = 2**60 + 1
    assert limit_offsets(keyed(begin, 0), keyed(begin + 3, 2**61), 4)[P("t", 0)] == begin + 1


@settings(deadline=None)  # machines differ
@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**40)), min_size=1, max_size=20),
    st.integers(1, 2**41),
)
def test_ends_lie_in_their_ranges_and_everybody_moves(sizes: list[tuple[int, int]], limit: int):
    begins = keyed(*(begin for begin, _ in sizes))
    latest = keyed(*(begin + size for begin, size in sizes))
    ends = limit_offsets(begins, latest, limit)
    for partition, begin in begins.items():
        assert begin <= ends[partition] <= latest[partition]
        assert ends[partition] > begin or latest[partition] == begin
    assert sum(ends[p] - begins[p] for p in ends) <= limit + len(ends)


def costs(*numbers: float) -> dict[P, float]:
    return {P("t", index): number for index, number in enumerate(numbers)}


def test_bytes_are_shared_by_what_partitions_have_of_them():
    ends = limit_bytes(keyed(0, 0), keyed(100, 100), costs(10, 30), 1000)
    assert ends == keyed(25, 25)
    assert limit_bytes(keyed(5, 0), keyed(100, 1), costs(100, 1), 950) == keyed(14, 1)
    assert limit_bytes(keyed(0, 0), keyed(10, 10), costs(10, 30), 400) == keyed(10, 10)
    assert limit_bytes(keyed(7, 0), keyed(7, 100), costs(0, 30), 300) == keyed(7, 10)


@settings(deadline=None)  # machines differ
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62), st.integers(0, 2**40), st.floats(0.001, 1e9, allow_nan=False)
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 2**50),
)
def test_a_limit_in_bytes_stops_no_partition(sizes: list[tuple[int, int, float]], limit: int):
    begins = keyed(*(begin for begin, _, _ in sizes))
    latest = keyed(*(begin + size for begin, size, _ in sizes))
    per_offset = costs(*(cost for *_, cost in sizes))
    ends = limit_bytes(begins, latest, per_offset, limit)
    for partition, begin in begins.items():
        assert begin <= ends[partition] <= latest[partition]
        assert ends[partition] > begin or latest[partition] == begin
    beyond_one = sum((ends[p] - begins[p] - 1) * per_offset[p] for p in ends if ends[p] > begins[p])
    assert beyond_one <= limit * 1.0001


def whole(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(P("t", index), 100, 100 + size) for index, size in enumerate(sizes)]


def bounds(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(item.partition.partition, item.start, item.end) for item in ranges]


def test_empty_ranges_are_dropped():
    assert bounds(split_ranges([*whole(0, 5), OffsetRange(P("t", 2), 9, 4)])) == [(1, 100, 105)]


def test_at_most_so_many_records_per_task():
    assert bounds(split_ranges(whole(10, 3), max_records=4)) == [
        (0, 100, 103),
        (0, 103, 106),
        (0, 106, 110),
        (1, 100, 103),
    ]


def test_enough_ranges_are_left_alone():
    assert split_ranges(whole(10, 10), min_partitions=2) == whole(10, 10)


def test_big_ranges_get_more_pieces_and_small_ones_stay_whole():
    found = split_ranges(whole(400, 100, 1), min_partitions=6)
    assert [item.partition.partition for item in found] == [0, 0, 0, 0, 1, 2]
    assert bounds(found)[:4] == [(0, 100, 200), (0, 200, 300), (0, 300, 400), (0, 400, 500)]


@pytest.mark.parametrize(
    ("sizes", "least", "pieces"),
    [
        ((5, 3), 4, [3, 2]),  # shares of 2.5 and 1.5: a half is rounded up, as Math.round does
        ((501, 299), 4, [3, 1]),  # of 2.505 and 1.495: the small one stays whole
        ((7, 7, 2), 8, [4, 4, 1]),  # of 3.5, 3.5 and 1; without the small one of 3.5 again
        ((9, 6), 5, [3, 2]),  # nothing to round
    ],
)
def test_shares_are_rounded_half_up(sizes: tuple[int, ...], least: int, pieces: list[int]):
    found = split_ranges(whole(*sizes), min_partitions=least)
    counts = [
        sum(item.partition.partition == index for item in found) for index in range(len(sizes))
    ]
    assert counts == pieces


def test_limits_are_rounded_down():
    assert limit_offsets(keyed(0, 0), keyed(5, 3), 4) == keyed(2, 1)  # of 2.5 and 1.5
    assert limit_offsets(keyed(0, 0, 0), keyed(999, 999, 2), 3) == keyed(1, 1, 1)


def test_both_options_together():
    assert len(split_ranges(whole(100), max_records=50, min_partitions=4)) == 4
    assert len(split_ranges(whole(100), max_records=10, min_partitions=4)) == 10


def test_more_tasks_than_records():
    assert bounds(split_ranges(whole(2), min_partitions=5)) == [(0, 100, 101), (0, 101, 102)]


def test_pieces_keep_what_is_known_of_the_log():
    item = OffsetRange(P("t", 0), 0, 10, 7, "id", True)
    for piece in split_ranges([item], max_records=3):
        assert (piece.leader_epoch, piece.topic_id) == (7, "id")
        # What is missing in a later piece is a hole in the middle of what was read.
        assert piece.from_earliest is (piece.start == 0)


@settings(deadline=None)  # machines differ
@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=10),
    st.one_of(st.none(), st.integers(1, 50)),
    st.one_of(st.none(), st.integers(1, 300)),
)
def test_pieces_are_the_ranges(sizes: list[int], least: int | None, most: int | None):
    pieces = split_ranges(whole(*sizes), min_partitions=least, max_records=most)
    for item in whole(*sizes):
        own = [piece for piece in pieces if piece.partition == item.partition]
        assert [piece.size for piece in own if piece.size < 1] == []
        ends = [item.start, *(piece.end for piece in own)]
        assert [piece.start for piece in own] == ends[:-1]
        assert ends[-1] == item.end or item.size == 0
    if most is not None:
        assert all(piece.size <= most for piece in pieces)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_tiny_limits(most: int):
    pieces = split_ranges(whole(7), max_records=most)
    assert all(piece.size <= most for piece in pieces)
    assert sum(piece.size for piece in pieces) == 7
